/** A unit that is a command: `local_bash`, and `monitor`, whose lines are events. */

import type { Clock, Timer } from "../lib/clock.ts";
import type { Daemon, DaemonSnapshot, DaemonStatus, UnitRequest } from "../plugin/index.ts";
import type { OutputFile } from "./output-file.ts";
import { newEventSignal, newLifecycleSignal, type Signal } from "./signal.ts";
import { isTerminal } from "./snapshot.ts";

/** The program of a unit: started by this kernel, or adopted from one that has crashed. */
export interface UnitProgram {
  /** Resolves when nothing of it runs any more. `code` null: a signal ended it. `killed`: it was ended with its kernel. */
  exited(): Promise<{ code: number | null; killed?: boolean }>;
  /** TERM, the grace, KILL, to the whole group. */
  kill(): Promise<void>;
}

export interface CommandUnitFacts {
  id: string;
  agentId: string;
  request: Pick<UnitRequest, "kind" | "command" | "description" | "persistent" | "timeoutMs" | "stallMs">;
  startedAtMs: number;
  /** Of an adopted unit: what is reported already, and how many lines that was. */
  reported?: { upTo: number; events: number };
}

interface CommandUnitOptions extends CommandUnitFacts {
  program: UnitProgram;
  file: OutputFile;
  clock: Clock;
  emit(signal: Signal): void;
  /** Removes keys from what is shown. */
  hide(text: string): string;
  onFault(what: string, thrown: unknown): void;
}

const NEWLINE = 10;
/** How often the file is looked at. */
const LOOK_MS = 100;
/** Lines that `output` of a monitor shows. */
const RECENT_LINES = 200;
/** Characters of each: a snapshot has all of them. */
const MAX_RECENT_LINE = 500;
/** Characters of a line that is not finished yet. */
const MAX_OPEN_LINE = 64 * 1024;

export class CommandUnit implements Daemon {
  /** Resolves when its lifecycle signal was emitted. Never rejects. */
  readonly done: Promise<void>;
  readonly #o: CommandUnitOptions;
  readonly #decoder = new TextDecoder();
  readonly #batcher: EventBatcher | undefined;
  readonly #recent: string[] = [];
  #openLine = "";
  #events = 0;
  /** The end of the last whole line that was read. */
  #lineEnd = 0;
  #status: DaemonStatus = "running";
  #exitCode: number | null = null;
  #endedAtMs: number | null = null;
  #killed: "asked" | "timeout" | "disk" | null = null;
  #look: Timer | undefined;
  /** A look has failed; that is reported once. */
  #faulted = false;
  readonly #deadline: Timer | undefined;

  constructor(o: CommandUnitOptions) {
    this.#o = o;
    const { clock, request, reported } = o;
    if (reported) {
      this.#events = reported.events;
      this.#lineEnd = reported.upTo;
      o.file.seek(reported.upTo);
    }
    if (request.kind === "monitor") {
      const emit: EventBatcherOptions["emit"] = (text, hasLines) => this.#event(text, false, hasLines);
      this.#batcher = new EventBatcher({ clock, stallMs: request.stallMs, emit });
    }
    if (request.timeoutMs !== undefined) {
      const left = o.startedAtMs + request.timeoutMs - clock.now();
      this.#deadline = clock.timer(Math.max(0, left), () => void this.#end("timeout"));
    }
    this.#watch();
    this.done = this.#finish().catch((thrown) => o.onFault(`The end of unit ${o.id}`, thrown));
  }

  snapshot(): DaemonSnapshot {
    const ended_at = this.#endedAtMs === null ? null : new Date(this.#endedAtMs).toISOString();
    const now = { ...firstSnapshot(this.#o), status: this.#status, ended_at };
    if (now.kind === "monitor") {
      const said = { event_count: this.#events, recent_lines: [...this.#recent] };
      return { ...now, metadata: { ...now.metadata, ...said } };
    }
    const output = isTerminal(this.#status) ? this.#tail() : "";
    return { ...now, metadata: { ...now.metadata, exit_code: this.#exitCode, output } };
  }

  async kill(): Promise<void> {
    await this.#end("asked");
  }

  output(): string {
    return this.#o.request.kind === "monitor" ? this.#recent.join("\n") : this.#tail();
  }

  async #end(why: "asked" | "timeout" | "disk"): Promise<void> {
    this.#killed ??= why;
    await this.#o.program.kill();
  }

  #tail(): string {
    try {
      return this.#o.hide(this.#o.file.tail());
    } catch (thrown) {
      this.#o.onFault(`The output of unit ${this.#o.id}`, thrown);
      return "";
    }
  }

  #watch(): void {
    this.#look = this.#o.clock.timer(LOOK_MS, () => {
      try {
        this.#take();
        if (!this.#o.file.bound()) void this.#end("disk");
      } catch (thrown) {
        if (!this.#faulted) this.#o.onFault(`The output of unit ${this.#o.id}`, thrown);
        this.#faulted = true;
      }
      this.#watch();
    });
  }

  /** Reads what the program has printed since the last look. */
  #take(): void {
    if (!this.#batcher) return;
    const { data, skipped } = this.#o.file.look();
    const newline = data.lastIndexOf(NEWLINE);
    if (newline >= 0) this.#lineEnd = this.#o.file.position - data.length + newline + 1;
    if (skipped > 0) this.#line(`[${skipped} bytes skipped]`);
    const text = this.#decoder.decode(data, { stream: true });
    const lines = (this.#openLine + text).split("\n");
    // A key may come in pieces: the line is hidden again when it is complete.
    this.#openLine = this.#o.hide(lines.pop() ?? "").slice(-MAX_OPEN_LINE);
    for (const line of lines) this.#line(this.#o.hide(line));
  }

  #line(line: string): void {
    this.#events++;
    this.#recent.push(line.slice(0, MAX_RECENT_LINE));
    if (this.#recent.length > RECENT_LINES) this.#recent.shift();
    this.#batcher?.add(line);
  }

  #event(text: string, closing: boolean, hasLines = true): void {
    const upTo = hasLines ? this.#lineEnd : undefined;
    this.#o.emit(newEventSignal(this, text, closing, this.#o.clock.now(), upTo));
  }

  /** The output is durable before the end is announced. */
  async #finish(): Promise<void> {
    const { clock, emit, file, program } = this.#o;
    const { code, killed } = await program.exited();
    this.#look?.cancel();
    this.#deadline?.cancel();
    this.#attempt(() => this.#takeRest());
    this.#attempt(() => file.finish());
    this.#exitCode = code;
    this.#endedAtMs = clock.now();
    this.#status = killed || this.#killed !== null ? "killed" : code === 0 ? "completed" : "failed";
    emit(newLifecycleSignal(this, this.#status, clock.now()));
  }

  #takeRest(): void {
    this.#take();
    if (!this.#batcher) return;
    if (this.#openLine !== "") this.#line(this.#o.hide(this.#openLine));
    this.#openLine = "";
    this.#lineEnd = this.#o.file.position;
    this.#event(this.#batcher.close() ?? "", true);
  }

  #attempt(part: () => void): void {
    try {
      part();
    } catch (thrown) {
      this.#o.onFault(`The output of unit ${this.#o.id}`, thrown);
    }
  }
}

export function firstSnapshot({ id, agentId, request, startedAtMs }: CommandUnitFacts) {
  const { command, description, persistent = false } = request;
  const status = "running" as const;
  const started_at = new Date(startedAtMs).toISOString();
  const common = { id, status, description, agent_id: agentId, started_at, ended_at: null };
  if (request.kind === "monitor") {
    const metadata = { command, event_count: 0, persistent, recent_lines: [] };
    return { ...common, kind: "monitor" as const, metadata };
  }
  return { ...common, kind: "local_bash" as const, metadata: { command, exit_code: null, output: "" } };
}

/** Lines that come within this time are one event. */
const QUIET_MS = 200;
/** Characters of a line, and of an event. */
const MAX_LINE = 500;
const MAX_EVENT = 3000;
/** Wakes that may follow each other at once, the time until there is one more, and the most in an hour. */
const BURST = 10;
const REFILL_MS = 2000;
const PER_HOUR = 120;
const HOUR_MS = 3_600_000;

interface EventBatcherOptions {
  clock: Pick<Clock, "monotonic" | "timer">;
  /** `hasLines`: every line that was added so far is in it, or counted by it. */
  emit(text: string, hasLines: boolean): void;
  /** A silence of this length is one event. Absent: none is. */
  stallMs?: number;
}

/** Owned by one monitor, which calls `close` at its end. */
export class EventBatcher {
  readonly #o: EventBatcherOptions;
  #lines: string[] = [];
  #chars = 0;
  /** Lines that no event will show. */
  #suppressed = 0;
  #timer: Timer | undefined;
  #stall: Timer | undefined;
  #tokens = BURST;
  #refilledAt: number;
  /** When the wakes of the last hour were. */
  #wakes: number[] = [];

  constructor(o: EventBatcherOptions) {
    this.#o = o;
    this.#refilledAt = o.clock.monotonic();
    this.#watchSilence();
  }

  add(line: string): void {
    const text = line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line;
    this.#lines.push(text);
    this.#chars += text.length + 1;
    // The newest lines are shown: they say how things are now.
    while (this.#chars > MAX_EVENT && this.#lines.length > 1) {
      this.#chars -= (this.#lines.shift()?.length ?? 0) + 1;
      this.#suppressed++;
    }
    this.#timer ??= this.#o.clock.timer(QUIET_MS, () => this.#flush());
    this.#watchSilence();
  }

  /** Ends the timers and returns what no event has shown yet; null when there is nothing. */
  close(): string | null {
    this.#timer?.cancel();
    this.#stall?.cancel();
    return this.#lines.length === 0 && this.#suppressed === 0 ? null : this.#take();
  }

  #flush(): void {
    this.#timer = undefined;
    const wait = this.#waitMs();
    if (wait > 0) {
      this.#timer = this.#o.clock.timer(wait, () => this.#flush());
      return;
    }
    this.#tokens--;
    this.#wakes.push(this.#o.clock.monotonic());
    this.#o.emit(this.#take(), true);
  }

  /** Ms until the next wake is allowed. */
  #waitMs(): number {
    const now = this.#o.clock.monotonic();
    const refills = Math.floor((now - this.#refilledAt) / REFILL_MS);
    this.#tokens = Math.min(BURST, this.#tokens + refills);
    this.#refilledAt += refills * REFILL_MS;
    this.#wakes = this.#wakes.filter((at) => now - at < HOUR_MS);
    const [oldest = now] = this.#wakes;
    if (this.#wakes.length >= PER_HOUR) return Math.max(1, oldest + HOUR_MS - now);
    return this.#tokens > 0 ? 0 : Math.max(1, this.#refilledAt + REFILL_MS - now);
  }

  #take(): string {
    const before = this.#suppressed > 0 ? [`[${this.#suppressed} events suppressed]`] : [];
    const text = [...before, ...this.#lines].join("\n");
    this.#lines = [];
    this.#chars = 0;
    this.#suppressed = 0;
    return text;
  }

  #watchSilence(): void {
    const { clock, stallMs, emit } = this.#o;
    if (stallMs === undefined) return;
    this.#stall?.cancel();
    this.#stall = clock.timer(stallMs, () => emit(`[no output for ${Math.round(stallMs / 1000)} s]`, false));
  }
}
