/** The method export_script: a recorded run as a script. */

import { SyscallError } from "../../plugin/index.ts";
import { Page, Target } from "../../protocol/fields.ts";
import type { ScriptEntry, ScriptHead } from "../../protocol/methods.ts";
import { playedSteps } from "../records/played-steps.ts";
import { scriptEntry, scriptHead } from "../records/replay-script.ts";
import { method } from "./method.ts";
import { findRun, recordsOf, requireAgent } from "./shared/find-run.ts";

const PAGE = 100;
/** Agents that one run has spawned. */
const MAX_CHILDREN = 1000;

interface ScriptPage {
  /** Set on the first page only. */
  head: ScriptHead | null;
  responses: ScriptEntry[];
  /** Runs of the agents that the run has spawned. */
  children: string[];
  /** The `after` of the next page; null after the last. */
  next: number | null;
  /** Recorded steps after the last answer of the script: they answer messages, which are not played. */
  unplayed_steps: number;
}

/**
 * Exports a recorded run as a script, a page at a time. Fails with INVALID if a step can't be read, because a script
 * must be complete.
 */
export const exportScript = method({
  payload: () => Target().extend(Page()),
  async handle({ after = 0, limit = PAGE, ...target }, services): Promise<ScriptPage> {
    const found = await findRun(services, target);
    requireAgent(found, "exported");
    const run = await recordsOf(services, found);
    const { uuid } = run.info;
    const page = await run.records.steps(uuid, { after, limit });
    for (const [index, { step }] of page.records.entries()) {
      if (step !== after + index + 1) throw damaged(uuid, after + index + 1);
    }
    // The incomplete last line of a crashed run is not a step.
    if (page.damaged > (page.torn ? 1 : 0)) throw damaged(uuid, after + page.records.length + 1);
    const played = await playedSteps(run);
    const next = page.next.after;
    const last = next === after || page.records.length < limit || next >= played.last;
    const children = after > 0 ? [] : await (await services.history()).childrenOf(uuid, MAX_CHILDREN);
    return {
      head: after > 0 ? null : await scriptHead(run, played),
      responses: page.records.filter(({ step }) => step <= played.last).map(scriptEntry),
      children: children.filter(({ kind }) => kind === "agent").map((child) => child.uuid),
      next: last ? null : next,
      unplayed_steps: played.left,
    };
  },
});

function damaged(uuid: string, step: number): SyscallError {
  const message = `Step ${step} of run ${uuid} can't be read, so the run can't be exported. \`rnix steps ${uuid}\` says which line is damaged.`;
  return new SyscallError("INVALID", message);
}
