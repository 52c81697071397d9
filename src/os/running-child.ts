/** One program of a kernel, until it and all its descendants have ended. */

import { type Clock, realClock, type Timer } from "../lib/clock.ts";
import { messageOf } from "../lib/error-detail.ts";
import { type Data, type ExitInfo, SyscallError } from "../plugin/index.ts";
import type { Channel } from "./channel.ts";
import { couldNotEnd, countdown, endProcesses } from "./end-processes.ts";
import type { Adopted } from "./orphans.ts";
import type { Output, Piece } from "./output.ts";
import { type Identity, isRunning, type Process, type ProcessTable, type Trace } from "./process-table.ts";
import { childrenOf, terminateNested } from "./program-group.ts";
import { type Exit, pause, settles, signal, terminate } from "./signal.ts";
import type { ByteReader, Spawned } from "./spawn.ts";

interface RunningChildOptions {
  id: string;
  /** null where marks are not supported. */
  mark: string | null;
  output: Output;
  table: ProcessTable;
  graceMs: number;
  quietMs: number;
  timeoutMs: number | undefined;
  /** Set if the program runs in another PID namespace. `init` is the first process of a shared namespace. */
  confined?: { init?: number | undefined } | undefined;
  /** The clock of `timeoutMs`. */
  clock: Pick<Clock, "timer">;
  /** Returns the orphans of this program; null when this process is no subreaper. */
  orphans(child: RunningChild): Adopted | null;
  /** Kills the processes that the program left, each as soon as it is found; see `EndOptions`. */
  killAsFound(child: RunningChild): readonly { pid: number }[];
  onFault(error: SyscallError): void;
}

/** The owner calls `end` and waits for `gone`. */
export class RunningChild {
  readonly pid: number;
  /** Identity of the program; null when it ended too early to read it. On Linux it is set from the start. */
  readonly identity: Promise<Identity | null>;
  /** Resolves to true when no process of it is left, to false when one did not end. Never rejects. */
  readonly gone: Promise<boolean>;
  readonly #o: RunningChildOptions;
  readonly #spawned: Spawned;
  readonly #exit: Promise<Exit>;
  /**
   * False once the program itself has ended, even if descendants run. Until Bun has reported its end, its PID and its
   * group are its own.
   */
  runs = true;
  readonly #closed: Promise<void>;
  /** All its pipes were closed when its output had been read. */
  #eof = false;
  readonly #info: Promise<ExitInfo>;
  #pieces = 0;
  #inputEnded = false;
  #timer: Timer | undefined;
  #background: PromiseWithResolvers<boolean> | undefined;
  #timedOut = false;
  #ending: Promise<void> | undefined;
  /** Ms left until KILL, after its group was asked to end. */
  #asked: (() => number) | undefined;
  /** The grace period is cancelled. */
  #hurried = false;
  readonly #hurry = Promise.withResolvers<void>();
  /** The program's descendants, found before KILL: afterwards they have other parents. */
  #seen: Process[] = [];
  readonly #stuck = Promise.withResolvers<Exit>();

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
      this.#timer = options.clock.timer(options.timeoutMs, () => {
        this.#timedOut = true;
        void this.end();
      });
    }
  }

  get id(): string {
    return this.#o.id;
  }

  get mark(): string | null {
    return this.#o.mark;
  }

  /** True while it runs and is not being ended. */
  get stays(): boolean {
    return this.runs && this.#ending === undefined;
  }

  async write(data: Data): Promise<void> {
    const { stdin } = this.#spawned;
    if (!stdin) {
      const message = 'This program has no stdin to write to. Start it with stdin: "pipe".';
      throw new SyscallError("INVALID", message);
    }
    if (this.#inputEnded || !this.runs) throw this.#inputClosed();
    let failure: unknown;
    const written = stdin.write(data).then(
      () => true,
      (cause: unknown) => {
        failure = cause;
        return false;
      },
    );
    // A descendant may hold the pipe and never read it.
    const done = await Promise.race([written, this.#exit.then(() => false)]);
    if (!done) throw this.#inputClosed(failure);
  }

  async endInput(): Promise<void> {
    if (this.#inputEnded) return;
    this.#inputEnded = true;
    await this.#spawned.stdin?.end();
  }

  fromTerminal(data: Uint8Array): void {
    this.#pieces += 1;
    this.#o.output.pushNow(1, data);
  }

  /** Resolves to true when it is asked to go to the background, to false when it has exited. */
  toBackground(): Promise<boolean> {
    this.#background ??= Promise.withResolvers<boolean>();
    void this.#exit.then(() => this.#background?.resolve(false));
    return this.#background.promise;
  }

  /** Returns false if its driver does not move it, or it has exited. */
  askToBackground(): boolean {
    if (!this.#background || !this.stays) return false;
    this.#background.resolve(true);
    return true;
  }

  get channel(): Channel | undefined {
    return this.#spawned.channel;
  }

  /** Our ends of its output pipes. */
  get outputs(): readonly number[] {
    return this.#spawned.outputs;
  }

  /** It continues without its time limit, and prints into `sink`. */
  move(sink: (data: Uint8Array) => void): void {
    this.#timer?.cancel();
    this.#o.output.divert(sink);
  }

  read(): Promise<Piece | null> {
    return this.#o.output.read();
  }

  exited(): Promise<ExitInfo> {
    this.#o.output.readerNotExpected();
    return this.#info;
  }

  /** Sends TERM to the group, waits for the grace period, kills the group, then ends what is left. Safe to call again. */
  end(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  /** Cancels the grace period, also one that has begun. Does not end the program. */
  hurry(): void {
    this.#hurried = true;
    this.#hurry.resolve();
  }

  async #end(): Promise<void> {
    if (this.runs) {
      this.#asked = countdown(this.#o.graceMs);
      if (this.#o.confined) terminateNested(this.pid);
      else terminate(-this.pid);
      await settles(Promise.race([this.#exit, this.#hurry.promise]), this.#o.graceMs);
      if (this.runs) {
        // Look before they lose their parents: a kernel below this one gives its programs its own marks.
        this.#seen = await this.#lookFor();
        if (this.runs) signal(-this.pid, "SIGKILL");
        if (!(await settles(this.#exit, STUCK_MS))) this.#stuck.resolve({ code: null, signal: null });
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
    const exit = await Promise.race([this.#spawned.exited, this.#stuck.promise]);
    this.runs = false;
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
        // A program that prints endlessly always has a next piece: let other work run in between.
        await new Promise((resolve) => setImmediate(resolve));
      }
    } catch (cause) {
      this.#fault(`The rest of the output of program ${this.pid} cannot be read`, cause);
    }
  }

  /** Reports the exit to the owner, after its output has been read. */
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
   * Waits until all its pipes are closed, or no output came for a short while: a descendant may hold them open for
   * ever. The thread may have been busy, so it checks the pipes for unread output before it stops waiting.
   */
  async #silence(): Promise<boolean> {
    const end = performance.now() + this.#o.quietMs * MAX_DRAIN_ROUNDS + DISK_MS;
    for (let rounds = 0; ; ) {
      const before = this.#pieces;
      if (await settles(this.#closed, this.#o.quietMs)) return true;
      if (await settles(this.#closed, 0)) return true;
      // Output that waits for a slow disk or a busy thread does not count as silence.
      const quiet = this.#pieces === before;
      const busy = this.#o.output.writing || (quiet && this.#unread());
      if (busy && performance.now() < end) continue;
      if (quiet || ++rounds > MAX_DRAIN_ROUNDS) return false;
    }
  }

  #unread(): boolean {
    return this.#spawned.streams.some(({ reader }) => reader.hasUnread?.() === true);
  }

  async #clear(): Promise<boolean> {
    await this.#info;
    try {
      const left = await this.#endTheRest();
      if (left.length > 0) this.#o.onFault(couldNotEnd(left));
      return left.length === 0;
    } catch (cause) {
      this.#fault(`Processes left by program ${this.pid} cannot be found`, cause);
      return false;
    }
  }

  async #endTheRest(): Promise<{ pid: number }[]> {
    // Give descendants time to end by themselves, such as the `tee` of a redirection. With an open pipe, that
    // time has already passed.
    if (await (this.#eof ? this.#endsByItself() : this.#nothingLeft())) return [];
    const left = this.#asked ?? countdown(this.#o.graceMs);
    return endProcesses({
      table: this.#o.table,
      find: () => this.#members(),
      group: this.pid,
      groupAsked: this.#asked !== undefined,
      graceLeft: () => (this.#hurried ? 0 : left()),
      reap: () => this.#o.orphans(this),
      killAsFound: () => this.#o.killAsFound(this),
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

  /** Cheap with a subreaper, which sees every orphan: only an open pipe or a living group needs a full scan. */
  async #nothingLeft(): Promise<boolean> {
    const orphans = this.#o.orphans(this);
    if (signal(-this.pid, 0)) return false;
    // Its orphans are children of the first process there, which starts none itself.
    const { init } = this.#o.confined ?? {};
    const isSeen = init === undefined || childrenOf(init).length === 0;
    if (isSeen && orphans && this.mark && this.#eof) return orphans.running.length === 0 && orphans.settled;
    return (await this.#members()).length === 0 && orphans?.settled !== false;
  }

  async #members(): Promise<Process[]> {
    const found = new Map((await this.#lookFor()).map((member) => [member.pid, member]));
    for (const orphan of this.#o.orphans(this)?.running ?? []) found.set(orphan.pid, orphan);
    for (const seen of this.#seen) {
      if (await isRunning(this.#o.table, seen)) found.set(seen.pid, seen);
    }
    return [...found.values()];
  }

  async #lookFor(): Promise<Process[]> {
    const { id, mark, table } = this.#o;
    const trace: Trace = { id, leader: await this.identity, mark, pipes: this.#spawned.pipes };
    return (await table.members([trace])).get(id) ?? [];
  }

  #fault(what: string, cause: unknown): void {
    this.#o.onFault(new SyscallError("INTERNAL", `${what}: ${messageOf(cause)}`, { cause }));
  }

  #inputClosed(cause?: unknown): SyscallError {
    const why = this.runs ? "has closed its input, or it was ended" : "has ended";
    return new SyscallError("CLOSED", `Program ${this.pid} takes no more input: it ${why}.`, { cause });
  }
}

/** Maximum wait after KILL. A process that outlives it is stuck in the system, and a later sweep ends it. */
const STUCK_MS = 5000;
/** Maximum time to drain output, as a multiple of `quietMs`, when a descendant keeps printing. */
const MAX_DRAIN_ROUNDS = 10;
/** Additional time for a slow disk. */
const DISK_MS = 10_000;
const LOOK_MS = 5;

interface Shared {
  child: RunningChild;
  idleMs: number;
  users: Set<string>;
  idle: Timer | undefined;
}

/** A use ends with its tool call, or with its process outside a call. A program without users ends after its idle time. */
export class SharedChildren {
  readonly #byKey = new Map<string, Shared>();

  /** Returns the running program of this key and adds this user. */
  use(key: string, idleMs: number, user: { uuid: string; call?: string }): RunningChild | undefined {
    const shared = this.#byKey.get(key);
    if (!shared?.child.stays) return undefined;
    shared.idle?.cancel();
    shared.idle = undefined;
    shared.idleMs = idleMs;
    shared.users.add(userKey(user.uuid, user.call));
    return shared.child;
  }

  add(key: string, idleMs: number, user: { uuid: string; call?: string }, child: RunningChild): void {
    const users = new Set([userKey(user.uuid, user.call)]);
    const shared: Shared = { child, idleMs, users, idle: undefined };
    this.#byKey.set(key, shared);
    void child.gone.then(() => {
      shared.idle?.cancel();
      if (this.#byKey.get(key) === shared) this.#byKey.delete(key);
    });
  }

  /** Ends the uses of one call; without `call`, all uses of a process. */
  leave(uuid: string, call?: string): void {
    for (const shared of this.#byKey.values()) {
      const isLeft = (user: string): boolean =>
        call === undefined ? user.startsWith(userKey(uuid)) : user === userKey(uuid, call);
      const left = [...shared.users].filter(isLeft);
      for (const user of left) shared.users.delete(user);
      if (left.length > 0 && shared.users.size === 0)
        shared.idle = realClock.timer(shared.idleMs, () => void shared.child.end());
    }
  }
}

function userKey(uuid: string, call = ""): string {
  return `${uuid} ${call}`;
}
