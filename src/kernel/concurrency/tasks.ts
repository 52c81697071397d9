/** The threads and coroutines of a process, and their table. */

import { onceAborted, orAborted } from "../../lib/cancellation.ts";
import { type Message, SyscallError } from "../../plugin/index.ts";
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

type Outcome = { value: unknown } | { error: unknown };

/** A thread: its work, its signal and its result. */
export class ThreadTask {
  readonly id: TID;
  readonly intent: string;
  readonly #abort = new AbortController();
  readonly #ended = Promise.withResolvers<Outcome>();
  #live = true;
  #wasRead = false;

  constructor(id: TID, intent: string) {
    this.id = id;
    this.intent = intent;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get live(): boolean {
    return this.#live;
  }

  get wasRead(): boolean {
    return this.#wasRead;
  }

  /** Resolves when the work has ended or was given up; it never rejects. */
  get ended(): Promise<unknown> {
    return this.#ended.promise;
  }

  /** The work begins after its maker has got the id, and not at all when it is cancelled before. */
  start(work: ThreadWork, thread: Thread): void {
    Promise.resolve()
      .then(() => {
        this.signal.throwIfAborted();
        return work(thread);
      })
      .then(
        (value) => this.#end({ value }),
        (error: unknown) => this.#end({ error }),
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

  /** Stops waiting for a thread that ignores its cancellation. */
  giveUp(): void {
    const message = `Thread ${this.id} ignored its cancellation and was given up.`;
    this.#end({ error: new SyscallError("CANCELLED", message) });
  }

  #end(outcome: Outcome): void {
    this.#live = false;
    this.#ended.resolve(outcome);
  }
}

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

/** Characters of a value in an error. */
const SHOWN = 200;

/** A coroutine. The coroutine and its caller take turns: while one runs, the other waits. */
export class CoroutineTask {
  readonly id: CoID;
  readonly intent: string;
  readonly #body: CoroutineBody;
  readonly #self: Coroutine;
  readonly #abort = new AbortController();
  readonly #ended = Promise.withResolvers<void>();
  #state: "new" | "waiting" | "running" | "ended" = "new";
  /** The caller that resumed it last, while it runs. */
  #resumer: PromiseWithResolvers<Resumed> | undefined;
  /** Resolves the wait of the coroutine in `yield`. */
  #waiting: PromiseWithResolvers<unknown> | undefined;
  /** The error for resumes after the end. */
  #howItEnded = "";

  constructor(id: CoID, pid: PID, intent: string, body: CoroutineBody) {
    this.id = id;
    this.intent = intent;
    this.#body = body;
    const { signal } = this.#abort;
    this.#self = { coid: id, pid, intent, signal, yield: (value) => this.#yield(value) };
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get live(): boolean {
    return this.#state !== "ended";
  }

  get wasRead(): boolean {
    return !this.live;
  }

  /** Resolves when the body has ended or was given up; it never rejects. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /**
   * Runs it to its next yield or its end. Fails with INVALID while it runs already: from inside of it that would be a
   * deadlock. If the signal aborts first, the coroutine is cancelled, because its answer would have no receiver.
   */
  async resume(value: unknown, signal: AbortSignal): Promise<Resumed> {
    if (this.#state === "ended") {
      throw new SyscallError("CLOSED", `Coroutine ${this.id} has ended: ${this.#howItEnded}.`);
    }
    if (this.signal.aborted) throw this.signal.reason;
    if (this.#state === "running") {
      throw new SyscallError(
        "INVALID",
        `Coroutine ${this.id} runs: it can be resumed when it has yielded, and not by itself.`,
      );
    }
    const resumer = Promise.withResolvers<Resumed>();
    this.#resumer = resumer;
    if (this.#state === "new") this.#start(value);
    else this.#continue(value);
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
  cancel(reason: unknown): void {
    if (!this.live || this.signal.aborted) return;
    this.#abort.abort(reason);
    this.#resumer?.reject(reason);
    this.#resumer = undefined;
    if (this.#state === "new") this.#end("it was cancelled before it began");
    else this.#waiting?.reject(reason);
    this.#waiting = undefined;
  }

  /** Stops waiting for a coroutine that ignores its cancellation. */
  giveUp(): void {
    this.#end("it ignored its cancellation");
  }

  #start(input: unknown): void {
    this.#state = "running";
    Promise.resolve()
      .then(() => {
        this.signal.throwIfAborted();
        return this.#body(this.#self, input);
      })
      .then(
        (value) => this.#finish(value),
        (error: unknown) => this.#fail(error),
      );
  }

  #continue(value: unknown): void {
    this.#state = "running";
    this.#waiting?.resolve(value);
    this.#waiting = undefined;
  }

  #yield(value: unknown): Promise<unknown> {
    const waiting = Promise.withResolvers<unknown>();
    // A body need not await its own yield.
    waiting.promise.catch(() => undefined);
    if (this.signal.aborted) {
      waiting.reject(this.signal.reason);
    } else if (this.#state !== "running") {
      waiting.reject(
        new SyscallError("INVALID", `Coroutine ${this.id} waits in a yield: await it before the next one.`),
      );
    } else {
      this.#state = "waiting";
      this.#waiting = waiting;
      this.#resumer?.resolve({ value, done: false });
      this.#resumer = undefined;
    }
    return waiting.promise;
  }

  #finish(value: unknown): void {
    this.#resumer?.resolve({ value, done: true });
    this.#end(`its result was ${shown(value)}`);
  }

  #fail(error: unknown): void {
    this.#resumer?.reject(error);
    this.#end(`it failed: ${String(error)}`);
  }

  #end(how: string): void {
    if (!this.live) return;
    this.#state = "ended";
    this.#resumer = undefined;
    this.#waiting = undefined;
    this.#howItEnded = how;
    this.#ended.resolve();
  }
}

/** The beginning of a value as text. */
function shown(value: unknown): string {
  const text = typeof value === "string" ? JSON.stringify(value.slice(0, SHOWN)) : String(value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}

/** What the table needs of a thread or a coroutine. */
interface Task {
  /** The task has not ended. */
  readonly live: boolean;
  /** The task has ended, and its result was read. */
  readonly wasRead: boolean;
}

/** Maximum live tasks of one process. */
const MAX_LIVE = 256;
/** Ended tasks count too: their results can be read until the reap. */
const MAX_KEPT = 1024;

/** The threads or the coroutines of one process, by ids that only grow. */
export class TaskTable<T extends Task> {
  readonly #tasks = new Map<number, T>();
  readonly #what: string;
  #next = 1;

  /** `what` is their name in errors: "thread". */
  constructor(what: string) {
    this.#what = what;
  }

  get size(): number {
    return this.#tasks.size;
  }

  /** Fails with EXHAUSTED if too many run, or too many have ended with unread results. */
  add(make: (id: number) => T): T {
    this.#makeRoom();
    const id = this.#next++;
    const task = make(id);
    this.#tasks.set(id, task);
    return task;
  }

  get(id: number): T {
    const task = this.#tasks.get(id);
    if (task) return task;
    const why =
      id >= 1 && id < this.#next
        ? `is forgotten: only ${MAX_KEPT} are kept, and its result was read`
        : `does not exist; ${this.#next - 1} were made`;
    throw new SyscallError("NOT_FOUND", `In this process ${this.#what} ${id} ${why}.`);
  }

  live(): T[] {
    return [...this.#tasks.values()].filter((task) => task.live);
  }

  #makeRoom(): void {
    if (this.live().length >= MAX_LIVE) {
      throw new SyscallError(
        "EXHAUSTED",
        `The process has ${MAX_LIVE} ${this.#what}s, the maximum. Wait for one to end.`,
      );
    }
    if (this.#tasks.size < MAX_KEPT) return;
    const oldest = [...this.#tasks].find(([, task]) => task.wasRead);
    if (!oldest) {
      throw new SyscallError(
        "EXHAUSTED",
        `The process keeps ${MAX_KEPT} ${this.#what}s, and no result of an ended one was read. Read some results first.`,
      );
    }
    this.#tasks.delete(oldest[0]);
  }
}
