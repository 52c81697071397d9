/** Chooses the script of each run in a tree: the whole script, or the part for a child agent. */

import { type History, type OpenContext, type RunInfo, SyscallError } from "rnix/plugin";
import { scriptOf } from "./recording.ts";
import type { Script } from "./script.ts";

/** The script of one run: the whole one, or that of an agent that the run spawns. */
export interface SubScript {
  script: Script;
  children(): Promise<ChildScript[]>;
}

interface ChildScript {
  agent: string;
  intent: string;
  script(): Promise<SubScript>;
}

/** The script of this process, within the script that it shares with the run it was spawned by. */
export async function subScript(context: OpenContext, whole: SubScript): Promise<SubScript> {
  const { history, process } = context;
  if (history === undefined || process.depth === 0) return whole;
  const self = await runOf(history, process.uuid);
  return self === undefined ? whole : scriptOfRun(history, self, whole);
}

async function scriptOfRun(history: History, self: RunInfo, whole: SubScript): Promise<SubScript> {
  const parent = self.parent_uuid === null ? undefined : await runOf(history, self.parent_uuid);
  // The parent does not play this script.
  if (parent === undefined || parent.provider !== self.provider || parent.model !== self.model) return whole;
  const above = await scriptOfRun(history, parent, whole);
  const children = await above.children();
  // Without `children` in a hand-written script, every child plays it from the beginning.
  if (children.length === 0 && above.script.children === undefined) return above;
  const isAlike = (one: { agent: string; intent: string }): boolean =>
    one.agent === self.agent && one.intent === self.intent;
  const siblings = await history.runs({ parent: parent.uuid, limit: 1000 });
  const before = siblings.filter((one) => isAlike(one) && one.uuid < self.uuid).length;
  const child = children.filter(isAlike)[before];
  if (child === undefined) throw noScript(above.script, self, before, children);
  return child.script();
}

export function subScriptFile(script: Script): SubScript {
  return {
    script,
    children: async () =>
      (script.children ?? []).map(({ agent, intent, responses, children = [] }) => ({
        agent,
        intent,
        script: async () => subScriptFile({ ...script, agent, intent, responses, children }),
      })),
  };
}

export async function recordedSubScript(history: History, run: RunInfo): Promise<SubScript> {
  return {
    // A record is complete: without children it has none.
    script: { ...(await scriptOf(history, run)), children: [] },
    async children() {
      const runs = await history.runs({ parent: run.uuid, limit: 1000 });
      return runs
        .filter(({ kind }) => kind === "agent")
        .map((child) => ({
          agent: child.agent,
          intent: child.intent,
          script: () => recordedSubScript(history, child),
        }));
    },
  };
}

async function runOf(history: History, uuid: string): Promise<RunInfo | undefined> {
  return (await history.runs({ uuid, limit: 1 }))[0];
}

function noScript(
  script: Script,
  { agent, intent }: RunInfo,
  before: number,
  children: ChildScript[],
): SyscallError {
  const known = children.map((one) => `  ${one.agent}: ${JSON.stringify(one.intent)}`).join("\n");
  const nth = before === 0 ? "" : ` (number ${before + 1} of it)`;
  const message = `${script.name} diverges: the run has spawned an agent that has no script${nth}\nexpected one of\n${known || "  none"}\nactual\n  ${agent}: ${JSON.stringify(intent)}`;
  return new SyscallError("INVALID", message, { retryable: false });
}
