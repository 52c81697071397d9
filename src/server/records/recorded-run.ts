/** A recorded run, and its steps as they are shown. */

import type { ProcInfo } from "../../kernel/types.ts";
import type { FaultCollector } from "../../store/runs/run-records.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import type { StepRecord } from "../../store/runs/schema.ts";

/** The reading methods of one data folder's store. */
export type RunReader = Pick<
  RunStore,
  | "dataDir"
  | "dir"
  | "checkBlob"
  | "readBlob"
  | "index"
  | "collected"
  | "info"
  | "meta"
  | "find"
  | "steps"
  | "units"
  | "events"
  | "inbox"
  | "story"
  | "everyStep"
  | "everyEvent"
  | "linked"
  | "claimant"
>;

/** A run and its records. */
export interface Run {
  info: ProcInfo;
  records: RunReader;
}

/** Every recorded step with its action as the next step shows it: an answer that a check rejected is `text`. */
export async function* stepsWithAction(
  records: Pick<RunStore, "everyStep">,
  uuid: string,
  damage?: FaultCollector,
): AsyncGenerator<StepRecord> {
  let held: StepRecord | undefined;
  for await (const step of records.everyStep(uuid, damage)) {
    if (held) yield step.after_check ? { ...held, action: rejected(held) } : held;
    held = step;
  }
  if (held) yield held;
}

function rejected({ action, tool_calls }: StepRecord): StepRecord["action"] {
  if (action !== "complete") return action;
  return tool_calls.length === 0 ? "text" : "tool_call";
}
