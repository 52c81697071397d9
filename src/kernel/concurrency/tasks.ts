/** The threads and coroutines of processes. */

import { onceAborted, orAborted, withTimeout } from "../../lib/clock.ts";
import { type Message, SyscallError } from "../../plugin/index.ts";
import type { Process } from "../process/process.ts";
import type { ResourceHolder } from "../process/resource-holder.ts";
import type { Core } from "../tiers/core.ts";
import type { PID } from "../types.ts";

export type TID = number;

/** A thread as its own work sees it. */
export interface Thread {
  readonly tid: TID;
  readonly pid: PID;
  readonly intent: string;
  /** Aborted with the process's, and at its reap. A thread that ignores it is given up after the grace. */
  readonly signal: AbortSignal;
  /**
   * Appends a message to the conversation of the process; it is on disk with the record of the next step.
   * INVALID for a message with calls or of role "tool": a turn is appended whole, by the process alone.
   */
  append(message: Message): Promise<void>;
  /** The CtxRead of the process's conversation: JSON of `length` messages from `offset`; 0 and 0 are all. */
  read(offset: number, length: number): Promise<string>;
}

export type ThreadWork = (thread: Thread) => unknown;

export type CoID = number;

/** A coroutine as its own body sees it. */
export interface Coroutine {
  readonly coid: CoID;
  readonly pid: PID;
  readonly intent: string;
  /** Aborted when it will not be resumed any more. */
  readonly signal: AbortSignal;
  /**
   * Passes the value to the resumer, and waits for the value of the next Resume. Throws CANCELLED when none will
   * follow: the body may then clean up, but not wait again.
   */
  yield(value: unknown): Promise<unknown>;
}

/** `input` is the value of the first Resume, which starts the body. */
export type CoroutineBody = (coroutine: Coroutine, input: unknown) => unknown;

/** The result of a Resume: a yielded value, or with `done` the value that the body returned. */
export interface Resumed {
  value: unknown;
  done: boolean;
}

type Outcome = { value: unknown } | { error: unknown };

/** Work of a process that ends by itself, after its cancellation, or when it is given up: a thread. */
export class Task {
  readonly id: number;
  readonly intent: string;
  readonly #abort = new AbortController();
  readonly #ended = Promise.withResolvers<Outcome>();
  live = true;
  #wasRead = false;

  constructor(id: number, intent: string) {
    this.id = id;
    this.intent = intent;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get wasRead(): boolean {
    return this.#wasRead;
  }

  /** Resolves when the work has ended or was given up; it never rejects. */
  get ended(): Promise<unknown> {
    return this.#ended.promise;
  }

  /** The work begins after its maker has got the id, and not at all when it is cancelled before. */
  start(work: () => unknown): void {
    Promise.resolve()
      .then(() => {
        this.signal.throwIfAborted();
        return work();
      })
      .then(
        (value) => this.end({ value }),
        (error: unknown) => this.end({ error }),
      );
  }

  /** The result of the work, for any number of joiners; rejects with the signal's reason if that comes first. */
  async join(signal: AbortSignal): Promise<unknown> {
    const outcome = await orAborted(this.#ended.promise, signal);
    this.#wasRead = true;
    if ("error" in outcome) throw outcome.error;
    return outcome.value;
  }

  cancel(reason: unknown): void {
    if (this.live) this.#abort.abort(reason);
  }

  end(outcome: Outcome): void {
    this.live = false;
    this.#ended.resolve(outcome);
  }
}

/** A coroutine. It and its resumers take turns: it runs from a resume to its next yield. */
export class CoroutineTask extends Task {
  readonly #body: CoroutineBody;
  readonly #self: Coroutine;
  #hasBegun = false;
  /** The caller that gets its next value. */
  #resumer: PromiseWithResolvers<Resumed> | undefined;
  /** Its wait in `yield`. */
  #waiting: PromiseWithResolvers<unknown> | undefined;
  #howItEnded = "";

  constructor(id: CoID, pid: PID, intent: string, body: CoroutineBody) {
    super(id, intent);
    this.#body = body;
    this.#self = { coid: id, pid, intent, signal: this.signal, yield: (value) => this.#yield(value) };
  }

  override get wasRead(): boolean {
    return !this.live;
  }

  /**
   * Runs it to its next yield or its end. Fails with INVALID while it runs already: from inside of it that would be a
   * deadlock. If the signal aborts first, the coroutine is cancelled, because its answer would have no receiver.
   */
  async resume(value: unknown, signal: AbortSignal): Promise<Resumed> {
    if (!this.live) throw new SyscallError("CLOSED", `Coroutine ${this.id} has ended: ${this.#howItEnded}.`);
    this.signal.throwIfAborted();
    const waiting = this.#waiting;
    if (this.#hasBegun && !waiting) {
      const message = `Coroutine ${this.id} runs: it can be resumed when it has yielded, and not by itself.`;
      throw new SyscallError("INVALID", message);
    }
    const resumer = Promise.withResolvers<Resumed>();
    this.#resumer = resumer;
    this.#waiting = undefined;
    if (waiting) waiting.resolve(value);
    else this.start(() => this.#body(this.#self, value));
    this.#hasBegun = true;
    const ignore = onceAborted(signal, () => {
      if (this.#resumer === resumer) this.cancel(signal.reason);
    });
    try {
      return await resumer.promise;
    } finally {
      ignore();
    }
  }

  /** Ends it because it will not be resumed any more: its wait and its resumer's fail with the reason. */
  override cancel(reason: unknown): void {
    if (this.signal.aborted) return;
    super.cancel(reason);
    this.#resumer?.reject(reason);
    this.#resumer = undefined;
    this.#waiting?.reject(reason);
    this.#waiting = undefined;
    if (!this.#hasBegun) this.end({ error: reason });
  }

  override end(outcome: Outcome): void {
    if ("error" in outcome) this.#resumer?.reject(outcome.error);
    else this.#resumer?.resolve({ value: outcome.value, done: true });
    this.#resumer = undefined;
    this.#howItEnded =
      "error" in outcome ? `it failed: ${String(outcome.error)}` : `its result was ${shown(outcome.value)}`;
    super.end(outcome);
  }

  #yield(value: unknown): Promise<unknown> {
    const waiting = Promise.withResolvers<unknown>();
    // A body need not await its own yield.
    waiting.promise.catch(() => undefined);
    if (this.signal.aborted) waiting.reject(this.signal.reason);
    else if (this.#waiting || !this.live) {
      const message = `Coroutine ${this.id} waits in a yield: await it before the next one.`;
      waiting.reject(new SyscallError("INVALID", message));
    } else {
      this.#waiting = waiting;
      this.#resumer?.resolve({ value, done: false });
      this.#resumer = undefined;
    }
    return waiting.promise;
  }
}

/** Characters of a value in an error. */
const SHOWN = 200;

function shown(value: unknown): string {
  const text = typeof value === "string" ? JSON.stringify(value.slice(0, SHOWN)) : String(value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}

/** Maximum live tasks of one process. */
const MAX_LIVE = 256;
/** Ended tasks count too: their results can be read until the reap. */
const MAX_KEPT = 1024;

/** The threads, or the coroutines, of each process, by ids that only grow. */
export class Tasks<T extends Task> implements ResourceHolder {
  readonly #what: string;
  readonly #parts: Pick<Core, "clock" | "warn">;
  readonly #of = new Map<Process, { last: number; tasks: Map<number, T> }>();

  /** `what` is their name in errors: "thread". */
  constructor(what: string, parts: Pick<Core, "clock" | "warn">) {
    this.#what = what;
    this.#parts = parts;
  }

  get size(): number {
    return this.#of.values().reduce((sum, { tasks }) => sum + tasks.size, 0);
  }

  /** Fails with EXHAUSTED if too many run, or too many have ended with unread results. */
  add(proc: Process, make: (id: number) => T): T {
    const own = this.#of.get(proc) ?? { last: 0, tasks: new Map() };
    this.#of.set(proc, own);
    this.#makeRoom(own.tasks);
    const task = make(++own.last);
    own.tasks.set(task.id, task);
    return task;
  }

  get(proc: Process, id: number): T {
    const { last, tasks } = this.#of.get(proc) ?? { last: 0, tasks: undefined };
    const task = tasks?.get(id);
    if (task) return task;
    const why =
      id >= 1 && id <= last
        ? `is forgotten: only ${MAX_KEPT} are kept, and its result was read`
        : `does not exist; ${last} were made`;
    throw new SyscallError("NOT_FOUND", `In this process ${this.#what} ${id} ${why}.`);
  }

  /** Cancels those of a process and waits for their end, at most for the grace. */
  async clear(proc: Process): Promise<void> {
    const live = liveOf(this.#of.get(proc)?.tasks);
    if (live.length > 0) await this.#end(proc, live);
    this.#of.delete(proc);
  }

  async #end(proc: Process, live: readonly T[]): Promise<void> {
    const { clock, warn } = this.#parts;
    const { grace } = proc.spec.opts.limits;
    const reason = new SyscallError("CANCELLED", `Process ${proc.pid} has ended.`);
    for (const task of live) task.cancel(reason);
    await withTimeout(clock, grace, Promise.all(live.map((task) => task.ended)));
    const deaf = live.filter((task) => task.live);
    if (deaf.length === 0) return;
    const names = deaf.map(({ intent }) => JSON.stringify(intent.slice(0, SHOWN))).join(", ");
    warn(
      `PID ${proc.pid}`,
      `${deaf.length} of its ${this.#what}s did not end within ${grace} ms of their cancellation and were given up: ${names}`,
    );
    for (const task of deaf) {
      const message = `The ${this.#what} ${task.id} ignored its cancellation and was given up.`;
      task.end({ error: new SyscallError("CANCELLED", message) });
    }
  }

  #makeRoom(tasks: Map<number, T>): void {
    if (liveOf(tasks).length >= MAX_LIVE) {
      const message = `The process has ${MAX_LIVE} ${this.#what}s, the maximum. Wait for one to end.`;
      throw new SyscallError("EXHAUSTED", message);
    }
    if (tasks.size < MAX_KEPT) return;
    const oldest = tasks.values().find((task) => task.wasRead);
    if (oldest) return void tasks.delete(oldest.id);
    const message = `The process keeps ${MAX_KEPT} ${this.#what}s, and no result of an ended one was read. Read some results first.`;
    throw new SyscallError("EXHAUSTED", message);
  }
}

function liveOf<T extends Task>(tasks: ReadonlyMap<number, T> = new Map()): T[] {
  return [...tasks.values()].filter((task) => task.live);
}
