/** The log of a run as its story has it, from any entry on. */

import { entriesOf, resultEntry, switchEntry, unitEntry, wordsOf } from "../../../kernel/events/log-entry.ts";
import type { SyscallEvent } from "../../../kernel/types.ts";
import type { Channel } from "../../../lib/channel.ts";
import type { StreamEvent } from "../../../protocol/methods.ts";
import type { RunEvent } from "../../../run/events.ts";
import type { LogEntry } from "../../../run/live-event.ts";
import { callsSoFar } from "../../../run/open-step.ts";
import type { DamageCollector } from "../../../store/files/damaged-lines.ts";
import type { ProcInfo } from "../../../store/runs/schema.ts";
import { type StoryEvent, StoryReader } from "../../../store/runs/story.ts";
import type { Run } from "../../records/recorded-run.ts";
import { receiptOf } from "./receipt.ts";
import { until } from "./stream-events.ts";

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

/**
 * The log of a supervisor. It has no steps, so its events are logged: the recorded ones, then those of `live`, each
 * once.
 */
export async function* supervisorLog(
  { info, records }: Run,
  live: Channel<SyscallEvent> | undefined,
  gone: AbortSignal,
  damage?: DamageCollector,
): AsyncGenerator<LogEntry> {
  const reported = new Set<string>();
  const entryOf = (event: SyscallEvent): LogEntry | undefined => {
    const text = words(event);
    const ts = new Date(info.created_at_ms + event.timestamp_ms + event.duration_ms).toISOString();
    return text === undefined ? undefined : { ts, step: 0, kind: "unit", text };
  };
  for await (const event of records.everyEvent(info.uuid, damage)) {
    const entry = entryOf(event);
    if (entry) yield entry;
    // The latest event of a live supervisor may arrive twice.
    if (live && entry) reported.add(key(event));
  }
  if (!live) return;
  for await (const event of until<SyscallEvent>(live, gone)) {
    const entry = reported.delete(key(event)) ? undefined : entryOf(event);
    if (entry) yield entry;
  }
}

function key({ timestamp_ms, duration_ms, syscall, args }: SyscallEvent): string {
  return `${timestamp_ms} ${duration_ms} ${syscall} ${JSON.stringify(args)}`;
}

/** Undefined for what every process does. */
function words({ syscall, args, result, error }: SyscallEvent): string | undefined {
  const child = String(args.child);
  const pid = args.pid === null ? "" : ` (PID ${String(args.pid)})`;
  const done = error ?? String(result);
  switch (syscall) {
    case "SpawnSupervisor":
      return error ?? `supervises ${listed(args.children)} (${String(args.strategy)})`;
    case "SupervisorStart":
      return error ?? `${child} runs as PID ${done}`;
    case "SupervisorExit": {
      const ended = `ended: ${String(args.exit_reason)} (exit ${String(args.exit_code)})`;
      return `${child}${pid} ${args.exit_reason === null ? "did not start" : ended}; ${done}`;
    }
    case "SupervisorStop":
      return `${child}${pid} was stopped: ${done}`;
    case "SupervisorRestart":
      return `starting ${listed(args.children)}`;
    case "SupervisorGiveUp":
      return `gave up: more than ${String(args.intensity)} restarts in ${String(args.period_ms)} ms`;
    default:
      return undefined;
  }
}

function listed(names: unknown): string {
  return Array.isArray(names) ? names.join(", ") : "";
}
