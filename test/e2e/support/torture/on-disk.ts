import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { JournalEntry, ProcInfo, StepRecord } from "../../../../src/store/runs/schema.ts";
import { textOf } from "../leftovers.ts";

/** A run on disk, read without the code under test. */
export interface OnDisk {
  uuid: string;
  /** null: it was cut off before its first record. */
  info: ProcInfo | null;
  /** The whole lines of steps.jsonl. */
  stepLines: string;
  steps: StepRecord[];
  /** Of the step that has no record. */
  journal: JournalEntry[];
}

export function runsOnDisk(dataDir: string): OnDisk[] {
  const folder = join(dataDir, "steps");
  return existsSync(folder) ? readdirSync(folder).map((uuid) => runOnDisk(dataDir, uuid)) : [];
}

function runOnDisk(dataDir: string, uuid: string): OnDisk {
  const folder = join(dataDir, "steps", uuid);
  const record = join(folder, "proc-info.json");
  // A kill may come between the removal of the old version and the rename of the new one. A live writer may
  // rename it between our two reads.
  const info = textOf(record) ?? textOf(`${record}.before`) ?? textOf(record) ?? null;
  const stepLines = wholeLines(textOf(join(folder, "steps.jsonl")) ?? "");
  const steps = parsed(stepLines).map((line) => StepRecord.parse(line));
  const recorded = steps.at(-1)?.step ?? 0;
  const journal = parsed(wholeLines(textOf(join(folder, "step.journal")) ?? ""))
    .map((line) => JournalEntry.parse(line))
    .filter(({ step }) => step > recorded);
  return { uuid, info: info === null ? null : ProcInfo.parse(JSON.parse(info)), stepLines, steps, journal };
}

/** Where a run was when it was cut off. */
export function phaseOf({ info, steps, journal }: OnDisk): string {
  if (!info) return "being spawned";
  if (info.state === "suspended") return "suspended";
  if (info.ended_at_ms !== null) return "ended";
  const [answer] = journal;
  if (answer?.t !== "answer") {
    const last = steps.at(-1);
    if (!last) return "before its first answer";
    return last.tool_calls.length === 0 ? "ending" : "asking its model";
  }
  const last = journal.at(-1);
  if (last?.t === "call_start") return `in ${last.name}`;
  const asked = answer.message.tool_calls?.length ?? 0;
  const ended = journal.filter(({ t }) => t === "call_end").length;
  if (ended === 0) return "answer recorded, nothing begun";
  return ended < asked ? "between two calls" : "calls made, step not recorded";
}

function wholeLines(text: string): string {
  return text.slice(0, text.lastIndexOf("\n") + 1);
}

function parsed(lines: string): unknown[] {
  return lines
    .split("\n")
    .filter((line) => line !== "")
    .map((line): unknown => JSON.parse(line));
}
