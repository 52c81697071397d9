/** Reads a recorded run page by page. */

import type { ProcInfo } from "../../kernel/types.ts";
import type { LogPage } from "../../store/files/read-log.ts";
import { EVENTS, STEPS } from "../../store/runs/run-files.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import type { StepRecord, SyscallEventWire } from "../../store/runs/schema.ts";

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
  | "journal"
  | "linked"
  | "claimant"
>;

/** A run and its records. */
export interface Run {
  info: ProcInfo;
  records: RunReader;
}

/** Collects what of a page can't be read (damage.ts). */
interface Finder {
  add(file: string, page: Pick<LogPage<unknown>, "damaged" | "damagedLines" | "torn" | "foreign">): void;
}

const PAGE = 500;

/** Every recorded step, a page at a time. */
export function allSteps(
  records: Pick<RunStore, "steps">,
  uuid: string,
  damage?: Finder,
): AsyncGenerator<StepRecord> {
  return allOf(STEPS, (page) => records.steps(uuid, page), damage);
}

/** Every recorded syscall event, a page at a time. */
export function allEvents(
  records: Pick<RunStore, "events">,
  uuid: string,
  damage?: Finder,
): AsyncGenerator<SyscallEventWire> {
  return allOf(EVENTS, (page) => records.events(uuid, page), damage);
}

async function* allOf<T>(
  file: string,
  read: (page: { after: number; limit: number }) => Promise<LogPage<T>>,
  damage: Finder | undefined,
): AsyncGenerator<T> {
  for (let after = 0; ; ) {
    const page = await read({ after, limit: PAGE });
    damage?.add(file, page);
    yield* page.records;
    if (page.next === after) return;
    after = page.next;
  }
}

/** Every recorded step with its action as the next step shows it: an answer that a check rejected is `text`. */
export async function* stepsWithAction(
  records: Pick<RunStore, "steps">,
  uuid: string,
  damage?: Finder,
): AsyncGenerator<StepRecord> {
  let held: StepRecord | undefined;
  for await (const step of allSteps(records, uuid, damage)) {
    if (held) yield step.after_check ? { ...held, action: rejected(held) } : held;
    held = step;
  }
  if (held) yield held;
}

function rejected({ action, tool_calls }: StepRecord): StepRecord["action"] {
  if (action !== "complete") return action;
  return tool_calls.length === 0 ? "text" : "tool_call";
}
