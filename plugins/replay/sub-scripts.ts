import { type History, type OpenContext, type RunInfo, SyscallError } from "rnix/plugin";
import { scriptOf } from "./recording.ts";
import type { Script } from "./script.ts";

/** A part that one run plays: the script's own, or that of an agent which the run spawns. */
export interface SubScript {
  script: Script;
  children(): Promise<ChildPart[]>;
}

interface ChildPart {
  agent: string;
  intent: string;
  part(): Promise<SubScript>;
}

/** The part of the process in the script that it was given, which is that of the run it was spawned by as well. */
export async function subScript(context: OpenContext, whole: SubScript): Promise<SubScript> {
  const { history, process } = context;
  if (history === undefined || process.depth === 0) return whole;
  const self = await runOf(history, process.uuid);
  return self === undefined ? whole : partOfRun(history, self, whole);
}

async function partOfRun(history: History, self: RunInfo, whole: SubScript): Promise<SubScript> {
  const parent = self.parent_uuid === null ? undefined : await runOf(history, self.parent_uuid);
  // Spawned by a run that does not play this.
  if (parent === undefined || parent.provider !== self.provider || parent.model !== self.model) return whole;
  const above = await partOfRun(history, parent, whole);
  const cast = await above.children();
  // A hand-written script that says nothing of children is played by each from its beginning.
  if (cast.length === 0 && above.script.children === undefined) return above;
  const alike = (one: { agent: string; intent: string }): boolean =>
    one.agent === self.agent && one.intent === self.intent;
  const siblings = await history.runs({ parent: parent.uuid, limit: 1000 });
  const before = siblings.filter((one) => alike(one) && one.uuid < self.uuid).length;
  const part = cast.filter(alike)[before];
  if (part === undefined) throw noPart(above.script, self, before, cast);
  return part.part();
}

export function subScriptFile(script: Script): SubScript {
  return {
    script,
    children: async () =>
      (script.children ?? []).map(({ agent, intent, responses, children = [] }) => ({
        agent,
        intent,
        part: async () => subScriptFile({ ...script, agent, intent, responses, children }),
      })),
  };
}

export async function recordedSubScript(history: History, run: RunInfo): Promise<SubScript> {
  return {
    // It has children or it has none: the record says which.
    script: { ...(await scriptOf(history, run)), children: [] },
    async children() {
      const runs = await history.runs({ parent: run.uuid, limit: 1000 });
      return runs
        .filter(({ kind }) => kind === "agent")
        .map((child) => ({
          agent: child.agent,
          intent: child.intent,
          part: () => recordedSubScript(history, child),
        }));
    },
  };
}

async function runOf(history: History, uuid: string): Promise<RunInfo | undefined> {
  return (await history.runs({ uuid, limit: 1 }))[0];
}

function noPart(script: Script, { agent, intent }: RunInfo, before: number, cast: ChildPart[]): SyscallError {
  const known = cast.map((one) => `  ${one.agent}: ${JSON.stringify(one.intent)}`).join("\n");
  const nth = before === 0 ? "" : ` (number ${before + 1} of it)`;
  return new SyscallError(
    "INVALID",
    `${script.name} diverges: the run has spawned an agent that nothing is written for${nth}\nexpected one of\n${known || "  none"}\ncame\n  ${agent}: ${JSON.stringify(intent)}`,
    { retryable: false },
  );
}
