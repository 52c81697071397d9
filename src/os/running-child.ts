import { type Data, type ExitInfo, SyscallError } from "../plugin/index.ts";
import type { Adopted } from "./adopted-processes.ts";
import { countdown, endProcesses, wouldNotGo } from "./end-processes.ts";
import type { Output } from "./output.ts";
import type { Piece } from "./output-ring.ts";
import type { ByteReader } from "./pipe-reader.ts";
import { type Identity, isRunning, type Process, type ProcessTable, type Trace } from "./process-table.ts";
import { signal, terminate } from "./signal.ts";
import type { Exit, Spawned } from "./spawn.ts";
import { type Alarm, alarm, pause, settles } from "./wait.ts";

interface RunningChildOptions {
  id: string;
  /** Null where marks can't be had. */
  mark: string | null;
  output: Output;
  table: ProcessTable;
  graceMs: number;
  quietMs: number;
  timeoutMs: number | undefined;
  /** What `timeoutMs` is counted in: the system's time when there is none. */
  clock: { timer(ms: number, ring: () => void): Alarm } | undefined;
  /** Orphans that belong to this program, as a subreaper sees them; null when this process is none. */
  orphans(child: RunningChild): Adopted | null;
  /** Kills at sight what it has left; see `EndOptions`. */
  strike(child: RunningChild): readonly { pid: number }[];
  onFault(error: SyscallError): void;
}

/** One program from its start until nothing of it is left. Its owner calls `end` and waits for `gone`. */
export class RunningChild {
  readonly pid: number;
  /** What started, null when it was gone before one could look. On Linux it is there from the beginning. */
  readonly identity: Promise<Identity | null>;
  /** True when nothing of it is left; false when something would not go. Never rejects. */
  readonly gone: Promise<boolean>;
  readonly #o: RunningChildOptions;
  readonly #spawned: Spawned;
  readonly #exit: Promise<Exit>;
  /** Bun has not yet reported the program's end: until then its PID, and so its group, is surely its own. */
  #leads = true;
  readonly #closed: Promise<void>;
  /** Everybody had closed its pipes when its output was taken. */
  #eof = false;
  readonly #info: Promise<ExitInfo>;
  #pieces = 0;
  #inputEnded = false;
  #timer: Alarm | undefined;
  #timedOut = false;
  #ending: Promise<void> | undefined;
  /** Its group was asked to end, and has so many ms left. */
  #asked: (() => number) | undefined;
  /** No grace any more. */
  #hurried = false;
  readonly #hurry = Promise.withResolvers<void>();
  /** Everything below it when it did not react to TERM. */
  #seen: Process[] = [];
  #stuck: (exit: Exit) => void = () => {};

  constructor(spawned: Spawned, options: RunningChildOptions) {
    this.#o = options;
    this.#spawned = spawned;
    this.pid = spawned.pid;
    this.identity = this.#identify();
    this.#exit = this.#watch();
    this.#closed = this.#pump();
    this.#info = this.#finish();
    this.gone = this.#clear();
    if (options.timeoutMs !== undefined) {
      const ring = (): void => {
        this.#timedOut = true;
        void this.end();
      };
      this.#timer = options.clock?.timer(options.timeoutMs, ring) ?? alarm(options.timeoutMs, ring);
    }
  }

  get id(): string {
    return this.#o.id;
  }

  get mark(): string | null {
    return this.#o.mark;
  }

  /** False as soon as the program itself has ended, whatever it left. */
  get runs(): boolean {
    return this.#leads;
  }

  /** It runs, and is not being ended. */
  get stays(): boolean {
    return this.#leads && this.#ending === undefined;
  }

  async write(data: Data): Promise<void> {
    const { stdin } = this.#spawned;
    if (!stdin) {
      throw new SyscallError(
        "INVALID",
        'This program has no stdin to write to. Start it with stdin: "pipe".',
      );
    }
    if (this.#inputEnded || !this.#leads) throw this.#inputClosed();
    let failure: unknown;
    const written = stdin.write(data).then(
      () => true,
      (cause: unknown) => {
        failure = cause;
        return false;
      },
    );
    // Something it left may hold the pipe and never read it.
    const done = await Promise.race([written, this.#exit.then(() => false)]);
    if (!done) throw this.#inputClosed(failure);
  }

  async endInput(): Promise<void> {
    if (this.#inputEnded) return;
    this.#inputEnded = true;
    await this.#spawned.stdin?.end();
  }

  /** What came from its terminal. */
  fromTerminal(data: Uint8Array): void {
    this.#pieces += 1;
    this.#o.output.pushNow(1, data);
  }

  read(): Promise<Piece | null> {
    return this.#o.output.read();
  }

  exited(): Promise<ExitInfo> {
    this.#o.output.readerNotExpected();
    return this.#info;
  }

  /** TERM to the group, grace, KILL to the group, then whoever is left of it. Safe to call again. */
  end(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  /** From now on its end has no grace, also one that is under way. It does not begin one. */
  hurry(): void {
    this.#hurried = true;
    this.#hurry.resolve();
  }

  async #end(): Promise<void> {
    if (this.#leads) {
      this.#asked = countdown(this.#o.graceMs);
      terminate(-this.pid);
      await settles(Promise.race([this.#exit, this.#hurry.promise]), this.#o.graceMs);
      if (this.#leads) {
        // Seen while they still hang together: a kernel below this one marks its programs as its own.
        this.#seen = await this.#lookFor();
        if (this.#leads) signal(-this.pid, "SIGKILL");
        if (!(await settles(this.#exit, STUCK_MS))) this.#stuck({ code: null, signal: null });
      }
    }
    await this.gone;
  }

  async #identify(): Promise<Identity | null> {
    try {
      const found = await this.#o.table.find(this.pid);
      return found && { pid: found.pid, start: found.start, boot: this.#o.table.boot() };
    } catch (cause) {
      this.#fault(`Program ${this.pid} cannot be looked up`, cause);
      return null;
    }
  }

  async #watch(): Promise<Exit> {
    const stuck = new Promise<Exit>((resolve) => {
      this.#stuck = resolve;
    });
    const exit = await Promise.race([this.#spawned.exited, stuck]);
    this.#leads = false;
    this.#timer?.cancel();
    return exit;
  }

  async #pump(): Promise<void> {
    const streams = this.#spawned.streams.map(({ fd, reader }) => this.#take(fd, reader));
    await Promise.all([...streams, this.#spawned.terminalClosed]);
  }

  async #take(fd: 1 | 2, reader: ByteReader): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        this.#pieces += 1;
        if (value) await this.#o.output.push(fd, value);
        // Of one that prints without end the next piece is always there: everything else must have its turn.
        await new Promise((resolve) => setImmediate(resolve));
      }
    } catch (cause) {
      this.#fault(`The output of program ${this.pid} cannot be read any further`, cause);
    }
  }

  /** The exit as its owner hears of it: when the output that belongs to it was taken. */
  async #finish(): Promise<ExitInfo> {
    const exit = await this.#exit;
    this.#o.output.drain();
    this.#eof = await this.#silence();
    await Promise.all(this.#spawned.streams.map(({ reader }) => reader.cancel()));
    await this.#o.output.finish();
    await this.endInput();
    this.#spawned.release();
    return { ...exit, timedOut: this.#timedOut, ...this.#o.output.summary() };
  }

  /**
   * Until everybody has closed its pipes, or nothing came for a short while: one that it left behind may hold
   * them for ever. The thread may have been busy, so a last look is taken before silence counts, and what lies in its
   * pipes is none.
   */
  async #silence(): Promise<boolean> {
    const end = performance.now() + this.#o.quietMs * LONGEST_DRAIN + DISK_MS;
    for (let rounds = 0; ; ) {
      const before = this.#pieces;
      if (await settles(this.#closed, this.#o.quietMs)) return true;
      if (await settles(this.#closed, 0)) return true;
      // A slow disk is not silence: what came is still on its way there. Nor is a thread that has not come to it.
      const quiet = this.#pieces === before;
      const busy = this.#o.output.writing || (quiet && this.#unread());
      if (busy && performance.now() < end) continue;
      if (quiet || ++rounds > LONGEST_DRAIN) return false;
    }
  }

  #unread(): boolean {
    return this.#spawned.streams.some(({ reader }) => reader.unread?.() === true);
  }

  async #clear(): Promise<boolean> {
    await this.#info;
    try {
      const left = await this.#endTheRest();
      if (left.length > 0) this.#o.onFault(wouldNotGo(left));
      return left.length === 0;
    } catch (cause) {
      this.#fault(`What program ${this.pid} left behind cannot be looked for`, cause);
      return false;
    }
  }

  async #endTheRest(): Promise<{ pid: number }[]> {
    // What ends by itself right after the program may do so: the `tee` of a redirection, for one. With an
    // open pipe that time has passed already.
    if (await (this.#eof ? this.#endsByItself() : this.#nothingLeft())) return [];
    const left = this.#asked ?? countdown(this.#o.graceMs);
    return endProcesses({
      table: this.#o.table,
      find: () => this.#members(),
      group: this.pid,
      groupAsked: this.#asked !== undefined,
      graceLeft: () => (this.#hurried ? 0 : left()),
      reap: () => this.#o.orphans(this),
      strike: () => this.#o.strike(this),
    });
  }

  async #endsByItself(): Promise<boolean> {
    const end = performance.now() + this.#o.quietMs;
    while (!(await this.#nothingLeft())) {
      if (this.#ending || performance.now() >= end) return false;
      await pause(LOOK_MS);
    }
    return true;
  }

  /** Cheap where a subreaper sees every orphan: then only an open pipe or a living group needs the long way. */
  async #nothingLeft(): Promise<boolean> {
    const orphans = this.#o.orphans(this);
    if (signal(-this.pid, 0)) return false;
    if (orphans && this.mark && this.#eof) return orphans.running.length === 0 && orphans.settled;
    return (await this.#members()).length === 0 && orphans?.settled !== false;
  }

  async #members(): Promise<Process[]> {
    const found = new Map((await this.#lookFor()).map((member) => [member.pid, member]));
    for (const orphan of this.#o.orphans(this)?.running ?? []) found.set(orphan.pid, orphan);
    for (const seen of this.#seen) {
      if (await isRunning(this.#o.table, { ...seen, boot: this.#o.table.boot() })) found.set(seen.pid, seen);
    }
    return [...found.values()];
  }

  async #lookFor(): Promise<Process[]> {
    const trace: Trace = {
      id: this.#o.id,
      leader: await this.identity,
      mark: this.mark,
      pipes: this.#spawned.pipes,
    };
    return (await this.#o.table.members([trace])).get(trace.id) ?? [];
  }

  #fault(what: string, cause: unknown): void {
    const why = cause instanceof Error ? cause.message : String(cause);
    this.#o.onFault(new SyscallError("INTERNAL", `${what}: ${why}`, { cause }));
  }

  #inputClosed(cause?: unknown): SyscallError {
    const why = this.#leads ? "has closed its input, or it was ended" : "has ended";
    return new SyscallError("CLOSED", `Program ${this.pid} takes no more input: it ${why}.`, { cause });
  }
}

/** After KILL; beyond it the program is stuck in the system, and a later sweep has to end it. */
const STUCK_MS = 5000;
/** So many times nearly as long as a silence the output is drained at most, when something left behind goes on printing. */
const LONGEST_DRAIN = 10;
/** On top of it, for a disk that does not keep up. */
const DISK_MS = 10_000;
const LOOK_MS = 5;
