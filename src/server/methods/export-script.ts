import { SyscallError } from "../../plugin/index.ts";
import type { Answers, Payload } from "../../protocol/methods.ts";
import { scriptEntry, scriptHead } from "../records/replay-script.ts";
import type { Services } from "../services.ts";
import { findRun, recordsOf, requireAgent } from "./find-run.ts";

const PAGE = 100;
/** Agents that one run has spawned. */
const MOST_CHILDREN = 1000;

/** A recorded run as a script, a page at a time. INVALID where a step can't be read: a script has none left out. */
export async function exportScript(
  { after = 0, limit = PAGE, ...target }: Payload<"export_script">,
  system: Services,
): Promise<Answers["export_script"]> {
  const found = await findRun(system, target);
  requireAgent(found, "exported");
  const run = await recordsOf(system, found);
  const { uuid } = run.info;
  const page = await run.records.steps(uuid, { after, limit });
  for (const [index, { step }] of page.records.entries()) {
    if (step !== after + index + 1) throw damaged(uuid, after + index + 1);
  }
  // The torn end of one that was cut off is no step yet.
  if (page.damaged > (page.torn ? 1 : 0)) throw damaged(uuid, after + page.records.length + 1);
  const last = page.next === after || page.records.length < limit;
  const children = after > 0 ? [] : await system.history.childrenOf(uuid, MOST_CHILDREN);
  return {
    head: after > 0 ? null : await scriptHead(run),
    responses: page.records.map(scriptEntry),
    children: children.filter(({ kind }) => kind === "agent").map((child) => child.uuid),
    next: last ? null : page.next,
  };
}

function damaged(uuid: string, step: number): SyscallError {
  return new SyscallError(
    "INVALID",
    `Step ${step} of run ${uuid} can't be read, and a script without it is none. \`rnix steps ${uuid}\` says which line is damaged.`,
  );
}
