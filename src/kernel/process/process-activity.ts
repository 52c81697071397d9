/** What a process is doing, its clock, and its watchers. */

import { callsTitle } from "../../lib/call-title.ts";
import { Channel } from "../../lib/channel.ts";
import { Abort, type Clock, type Timer } from "../../lib/clock.ts";
import { countLines, TextTail } from "../../lib/text-tail.ts";
import { SyscallError, type ToolCall } from "../../plugin/index.ts";
import type { Activity, LiveEvent, UserMessage } from "../../run/live-event.ts";
import type { PID } from "../types.ts";

/** A tool call that runs. */
export interface RunningCall extends Pick<ToolCall, "id" | "name" | "input"> {
  /** The path that it opens. */
  path: string;
  /** The number of its event; undefined if it is not recorded. */
  n: number | undefined;
  step: number;
  startedAtMs: number;
  output: CallOutput;
}

/**
 * What a process does now: the phase that it is in, and its running tool calls. How it stands (paused, stopping, waiting
 * for a person) is known to the process itself.
 */
export class ProcessActivity {
  #phase: Activity;
  /** What the watchers were sent last. */
  #sent: Activity | undefined;
  /** Made by the first call. */
  #calls: Map<string, RunningCall> | undefined;

  constructor(sinceMs: number) {
    this.#phase = { kind: "start", text: "starting", since_ms: sinceMs, until_ms: null };
  }

  /** A new phase. The same phase again keeps its beginning; returns false then. */
  enter(phase: Activity): boolean {
    if (isEqual(this.#phase, { ...phase, since_ms: this.#phase.since_ms })) return false;
    this.#phase = phase;
    return true;
  }

  /** Returns false if the watchers know this activity. */
  send(activity: Activity): boolean {
    const isKnown = this.#sent !== undefined && isEqual(this.#sent, activity);
    this.#sent = activity;
    return !isKnown;
  }

  begin(call: RunningCall): void {
    this.#calls ??= new Map();
    this.#calls.set(call.id, call);
  }

  end(id: string): RunningCall | undefined {
    const call = this.#calls?.get(id);
    this.#calls?.delete(id);
    return call;
  }

  call(id: string): RunningCall | undefined {
    return this.#calls?.get(id);
  }

  /** The running calls, oldest first. */
  get calls(): RunningCall[] {
    return [...(this.#calls?.values() ?? [])];
  }

  /** The running calls, or else the phase. `cwd`: for the titles of calls. */
  now(cwd: string): Activity {
    return this.#ofCalls(cwd) ?? this.#phase;
  }

  #ofCalls(cwd: string): Activity | undefined {
    if (this.#calls === undefined || this.#calls.size === 0) return undefined;
    const calls = this.calls;
    const since_ms = Math.min(...calls.map(({ startedAtMs }) => startedAtMs));
    return { kind: "tool", text: callsTitle(calls, cwd), since_ms, until_ms: null };
  }
}

function isEqual(a: Activity, b: Activity): boolean {
  return a.kind === b.kind && a.text === b.text && a.since_ms === b.since_ms && a.until_ms === b.until_ms;
}

/** The step that a process makes now. Written by the loop, model calls and the chat. */
export class PresentWork {
  /** What an interruption would cancel now. */
  underway: "model" | "tools" | null = null;
  /** Text of the answer to the present request, as far as it has arrived. */
  arriving = "";
  /** The user's messages in the present step, until it has a record. */
  reading: readonly UserMessage[] = [];
  readonly #pid: PID;
  /** Aborted when the process must stop. */
  readonly #stop: Abort;
  /** Made at its first use after the start or an interruption. */
  #abort: Abort | undefined;
  #interruption: PromiseWithResolvers<readonly number[]> | undefined;

  constructor(pid: PID, stop: Abort) {
    this.#pid = pid;
    this.#stop = stop;
  }

  /** Aborted when the process must stop, and when the user interrupts this work. */
  get signal(): AbortSignal {
    return this.#made().signal;
  }

  /** The same, without a signal of the runtime. */
  get cancellation(): Abort {
    return this.#made();
  }

  /** The user has interrupted it, and the loop has not ended it yet. */
  get interrupted(): boolean {
    return this.#interruption !== undefined;
  }

  /** Cancels it. Resolves when it has ended, with the messages that were put back into the inbox. */
  interrupt(): Promise<readonly number[]> {
    if (this.#interruption) return this.#interruption.promise;
    this.#interruption = Promise.withResolvers();
    this.#made().abort(new SyscallError("CANCELLED", INTERRUPTED, { pid: this.#pid }));
    return this.#interruption.promise;
  }

  /** The loop has ended the work that was interrupted. */
  endInterruption(putBack: readonly number[]): void {
    const interruption = this.#interruption;
    this.#interruption = undefined;
    this.#abort = undefined;
    interruption?.resolve(putBack);
  }

  /** The process must stop. */
  cancel(reason: SyscallError): void {
    this.#abort?.abort(reason);
  }

  #made(): Abort {
    if (!this.#abort) {
      this.#abort = new Abort();
      if (this.#stop.aborted) this.#abort.abort(this.#stop.reason);
    }
    return this.#abort;
  }
}

/** Why a call was cancelled. The model reads it. */
const INTERRUPTED = "The user interrupted this call. It was cancelled, and may have taken effect in part.";

/** Characters kept of a running call's output, for clients that attach. */
const TAIL_CHARS = 8 * 1024;

/** The output of a running call: its end, and the number of its lines. Keys are redacted before any of it is shown. */
export class CallOutput {
  readonly #redact: () => { push(piece: string): string };
  /** Made by the first text: most calls show none. */
  #text: { redactor: { push(piece: string): string }; shown: TextTail; fresh: TextTail } | undefined;
  #lines = 0;

  /** `redact` makes a redactor of a text that comes in pieces. */
  constructor(redact: () => { push(piece: string): string }) {
    this.#redact = redact;
  }

  /** Whole lines so far, also lines that are no longer kept. */
  get lines(): number {
    return this.#lines;
  }

  /** The end of what was shown. */
  get tail(): string {
    return this.#text?.shown.text ?? "";
  }

  add(text: string, skipped = 0): void {
    this.#lines += skipped + countLines(text);
    this.#text ??= {
      redactor: this.#redact(),
      shown: new TextTail(TAIL_CHARS),
      fresh: new TextTail(TAIL_CHARS),
    };
    this.#text.fresh.add(text);
  }

  /** What was added since the last call, redacted: of much text, its end. */
  take(): string {
    if (!this.#text || this.#text.fresh.isEmpty) return "";
    const { redactor, shown, fresh } = this.#text;
    const text = redactor.push(fresh.take());
    shown.add(text);
    return text;
  }
}

/**
 * The clock of one process: it and its timers stop while the process is paused (design §2, "Paused and suspended time
 * counts towards no deadline"). The caller that sets a timer cancels it. Deadlines that also apply to a paused process,
 * such as a kill's grace, use the kernel's clock.
 */
export class ProcessClock implements Clock {
  readonly #real: Clock;
  /** The real time at this clock's zero; each pause moves it. */
  #zero: number;
  /** The time of this clock when it was stopped. */
  #stoppedAt: number | undefined;
  #isPaused = false;
  /** Holds that are not released. */
  #holds = 0;
  /** Few. A set takes a quarter of a KiB, also for one. */
  #timers: readonly HeldTimer[] = NO_TIMERS;

  /** `ranMs`: running time before the run was suspended. */
  constructor(real: Clock, ranMs = 0) {
    this.#real = real;
    this.#zero = real.monotonic() - ranMs;
  }

  /** The date does not stop. */
  now(): number {
    return this.#real.now();
  }

  /** Ms that the process has run. */
  monotonic(): number {
    return this.#stoppedAt ?? this.#real.monotonic() - this.#zero;
  }

  timer(ms: number, f: () => void): Timer {
    const held: HeldTimer = { dueMs: this.monotonic() + ms, f, armed: undefined };
    this.#timers = [...this.#timers, held];
    if (this.#stoppedAt === undefined) this.#arm(held);
    return {
      cancel: () => {
        this.#drop(held);
        held.armed?.cancel();
      },
    };
  }

  /** Timers that have neither fired nor been cancelled. */
  get pending(): number {
    return this.#timers.length;
  }

  /** Stops it for the pause of its process. */
  stop(): void {
    this.#isPaused = true;
    this.#stop();
  }

  /** Ends the pause. It continues from where it was stopped, unless it is held. */
  run(): void {
    this.#isPaused = false;
    this.#runUnlessHeld();
  }

  /** Stops it until the returned function is called, whatever else stops it. */
  hold(): () => void {
    this.#holds++;
    this.#stop();
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#holds--;
      this.#runUnlessHeld();
    };
  }

  #stop(): void {
    if (this.#stoppedAt !== undefined) return;
    this.#stoppedAt = this.monotonic();
    for (const held of this.#timers) held.armed?.cancel();
  }

  #runUnlessHeld(): void {
    if (this.#stoppedAt === undefined || this.#isPaused || this.#holds > 0) return;
    this.#zero = this.#real.monotonic() - this.#stoppedAt;
    this.#stoppedAt = undefined;
    for (const held of this.#timers) this.#arm(held);
  }

  #arm(held: HeldTimer): void {
    held.armed = this.#real.timer(held.dueMs - this.monotonic(), () => {
      this.#drop(held);
      held.f();
    });
  }

  #drop(held: HeldTimer): void {
    this.#timers = this.#timers.filter((one) => one !== held);
  }
}

const NO_TIMERS: readonly HeldTimer[] = [];

interface HeldTimer {
  /** On this clock. */
  readonly dueMs: number;
  readonly f: () => void;
  /** The real clock's timer; cancelled while this clock is stopped. */
  armed: Timer | undefined;
}

/** Which events a client gets: all, those of the log, or questions, notices and the end. */
export type Watched = "all" | "log" | "end";
type EventType = LiveEvent["event"];

const TYPES: Record<Watched, ReadonlySet<EventType> | undefined> = {
  all: undefined,
  log: new Set<EventType>(["log", "retry", "unit"]),
  end: new Set<EventType>(["spawn", "notice", "ask", "ask_closed"]),
};

export class Watcher extends Channel<LiveEvent> {
  readonly #types: ReadonlySet<EventType> | undefined;
  override readonly isPassive: boolean;

  constructor(watched: Watched, ...options: ConstructorParameters<typeof Channel<LiveEvent>>) {
    super(...options);
    this.#types = TYPES[watched];
    this.isPassive = watched === "log";
  }

  takes(type: EventType): boolean {
    return this.#types?.has(type) ?? true;
  }

  override push(event: LiveEvent): void {
    if (this.takes(event.event)) super.push(event);
  }
}

/** The channels of attached clients. */
export class Watchers extends Set<Watcher> {
  /** Called after each change. */
  onChange: (() => void) | undefined;

  /** Whether a client gets events of this type. Others need not be made. */
  takes(type: EventType): boolean {
    for (const watcher of this) if (watcher.takes(type)) return true;
    return false;
  }

  /** Whether a client follows the run that may send something; not one that reads the log or waits for its end. */
  get isAttended(): boolean {
    return [...this].some(({ isPassive }) => !isPassive);
  }

  override add(channel: Watcher): this {
    super.add(channel);
    this.onChange?.();
    return this;
  }

  override delete(channel: Watcher): boolean {
    const had = super.delete(channel);
    this.onChange?.();
    return had;
  }
}
