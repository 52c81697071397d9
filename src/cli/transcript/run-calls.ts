/** The tool calls of a run that are shown: those that run, and the files that the present answer has read. */

import type { AskClosed, AskUser } from "../../protocol/methods.ts";
import type { CallBlock, LoggedCall } from "./transcript.ts";

/** Characters kept of the output of a running call. */
const TAIL_CHARS = 8 * 1024;
/** Tools whose result a person seldom reads: several of one answer share a line. */
const GROUPED: ReadonlySet<string> = new Set(["Read"]);

export class RunCalls {
  /** In the order of their start. */
  readonly running = new Map<string, CallBlock>();
  /** Files read by the present answer, not in the transcript yet. */
  reads: CallBlock[] = [];
  readonly #groups: boolean;
  /** The calls of the present step, in the order of their start. */
  readonly #order = new Map<string, number>();
  /** The calls that a person is asked about, by question. */
  readonly #asked = new Map<string, { callId: string; sinceMs: number }>();

  /** `groups`: several of GROUPED share a block. */
  constructor(groups: boolean) {
    this.#groups = groups;
  }

  stepped(): void {
    this.#order.clear();
  }

  /** `isPlayed`: it is shown later than it happened. */
  started(call: LoggedCall, now: number, isPlayed: boolean): void {
    this.#order.set(call.id, this.#order.size);
    if (this.running.has(call.id)) return;
    const block = callBlock(call, now);
    if (isPlayed) block.startedMs = now;
    const asked = [...this.#asked.values()].find(({ callId }) => callId === call.id);
    if (asked !== undefined) block.askedMs = Math.max(block.startedMs, asked.sinceMs);
    this.running.set(call.id, block);
  }

  /** Returns the ended call; null for a file that was read, which waits in `reads`. */
  ended(call: LoggedCall, now: number): CallBlock | null {
    this.running.delete(call.id);
    const block = callBlock(call, now);
    if (!this.#groups || !GROUPED.has(call.name) || call.state !== "done") return block;
    this.reads.push(block);
    this.reads.sort((a, b) => (this.#order.get(a.id) ?? 0) - (this.#order.get(b.id) ?? 0));
    return null;
  }

  /** While a file is still read, those read so far wait for it. */
  get isReading(): boolean {
    return [...this.running.values()].some(({ name }) => GROUPED.has(name));
  }

  takeReads(): CallBlock[] {
    const { reads } = this;
    this.reads = [];
    return reads;
  }

  /** Calls that the end of the run cut off: they have no result. */
  cutOff(now: number): CallBlock[] {
    const open = [...this.running.values()];
    this.running.clear();
    return open.map((call) => ({ ...call, state: "cancelled", duration_ms: runningMs(call, now) }));
  }

  output(id: string, text: string, lines: number): void {
    const call = this.running.get(id);
    if (call === undefined) return;
    call.tail = (call.tail + text).slice(-TAIL_CHARS);
    call.lines = lines;
  }

  /** The clock of a call stands still while a person is asked about it. */
  asks({ request_id, call_id, asked_at_ms }: AskUser): void {
    if (call_id === null) return;
    this.#asked.set(request_id, { callId: call_id, sinceMs: asked_at_ms });
    const call = this.running.get(call_id);
    if (call !== undefined) call.askedMs = Math.max(call.startedMs, asked_at_ms);
  }

  answered({ request_id }: AskClosed, now: number): void {
    const call = this.running.get(this.#asked.get(request_id)?.callId ?? "");
    this.#asked.delete(request_id);
    if (call === undefined || call.askedMs === null) return;
    call.startedMs += now - call.askedMs;
    call.askedMs = null;
  }
}

export function callBlock(call: LoggedCall, now: number): CallBlock {
  const started = Date.parse(call.started_at);
  const startedMs = Number.isNaN(started) ? now : Math.min(started, now);
  return { ...call, startedMs, askedMs: null, tail: "", lines: 0 };
}

/** How long a call has run, without the time it waits for a person. */
export function runningMs({ startedMs, askedMs }: CallBlock, now: number): number {
  return Math.max(0, (askedMs ?? now) - startedMs);
}
