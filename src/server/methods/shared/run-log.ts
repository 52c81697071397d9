/** The log of a run as its story has it, from any entry on. */

import { entriesOf, resultEntry, switchEntry, unitEntry, wordsOf } from "../../../kernel/events/log-entry.ts";
import type { StreamEvent } from "../../../protocol/methods.ts";
import type { RunEvent } from "../../../run/events.ts";
import type { LogEntry } from "../../../run/live-event.ts";
import { callsSoFar } from "../../../run/open-step.ts";
import type { DamageCollector } from "../../../store/files/damaged-lines.ts";
import type { ProcInfo } from "../../../store/runs/schema.ts";
import { type StoryEvent, StoryReader } from "../../../store/runs/story.ts";
import type { Run } from "../../records/recorded-run.ts";
import { receiptOf } from "./receipt.ts";

/** Reads the log of a run, live or ended. Each recorded entry comes once, in the order in which it was recorded. */
export class RunLog {
  readonly #reader: StoryReader;
  #after: number;
  #step: number;
  /** Of the open step, as far as they were read. */
  #open: RunEvent[] = [];

  /** `after`: the `n` of the last entry that is known. */
  constructor({ records, info }: Run, after = 0, damage?: DamageCollector) {
    this.#reader = new StoryReader(records, info.uuid, Math.floor(after), damage, true);
    this.#after = after;
    this.#step = after > 0 ? info.steps : 1;
  }

  /** The number of the last event that was read. */
  get last(): number {
    return this.#reader.after;
  }

  /** The next entries that are recorded now; `end`: up to this number. */
  async *recorded(end?: number): AsyncGenerator<LogEntry> {
    for (;;) {
      const events = await this.#reader.next(end);
      if (events.length === 0) return;
      for (const entry of events.flatMap((event) => this.#entriesOf(event))) {
        if (entry.n !== undefined && entry.n <= this.#after) continue;
        this.#after = entry.n ?? this.#after;
        yield entry;
      }
    }
  }

  /** What is in no event of a run that is not live: how its last calls ended, and a model that was chosen since. */
  rest({ ended_at_ms, steps, switches }: ProcInfo): LogEntry[] {
    this.#reader.end();
    const chosen = switches.filter(
      ({ step, ts }) => step > steps && !this.#open.some((one) => one.ts === ts),
    );
    return [
      ...chosen.map(switchEntry),
      ...(ended_at_ms === null ? [] : unknownCalls(this.#open, this.#step)),
    ];
  }

  #entriesOf(event: StoryEvent): LogEntry[] {
    if (event.t === "unit") {
      const { line, n } = event;
      if (line.t !== "started" && line.t !== "ended") return [];
      const entry = unitEntry(
        line.t === "started" ? "added" : line.snapshot.status,
        line.snapshot,
        this.#step,
      );
      return entry ? [{ n, ...entry }] : [];
    }
    if (!("step" in event)) return [];
    if (event.step !== this.#step) this.#open = [];
    this.#step = event.step;
    // A call that was repeated after a restart has a second start.
    const isAgain =
      event.t === "call_start" && this.#open.some((one) => one.t === "call_start" && one.id === event.id);
    if (event.t === "step") this.#open = [];
    else this.#open.push(event);
    return isAgain ? [] : entriesOf(event);
  }
}

/** Calls whose end is unknown. Waiting calls and read-only calls are resumed, so they are left out. */
function unknownCalls(events: readonly RunEvent[], step: number): LogEntry[] {
  const unknown = [...callsSoFar(events).settled.values()].filter(({ state }) => state === "unknown");
  return unknown.map((call) => resultEntry({ ts: call.started_at, step }, call));
}

/** The last output of a program, as far as it is recorded, and how it ended. */
export function entriesOfProgram(info: ProcInfo): LogEntry[] {
  const at = { ts: new Date(info.ended_at_ms ?? info.created_at_ms).toISOString(), step: 0 };
  if (info.exit_reason === null) {
    return [{ ...at, kind: "unit", text: "it is running: its last output is shown when it has ended" }];
  }
  const ended = `ended: ${info.exit_reason} (exit ${info.exit_code})`;
  return [...wordsOf(at, "text", info.result ?? ""), { ...at, kind: "unit", text: ended }];
}

/** How the run ended or why it was suspended: its last entry. None while it lives. */
export function endEntries(info: ProcInfo): Extract<StreamEvent, { type: "log_entry" }>["payload"][] {
  if (info.exit_reason === null) return [];
  const { result: _, output: __, ...end } = receiptOf(info);
  const ts = new Date(info.ended_at_ms ?? info.created_at_ms).toISOString();
  const why = end.error?.message ?? end.suspended?.reason;
  const text = `${end.exit_reason} (exit ${end.exit_code})${why === undefined ? "" : `: ${why}`}`;
  return [{ ts, step: info.steps, kind: "end", text, end }];
}
