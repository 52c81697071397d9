/** Coroutines of a process: their types, and one coroutine's task. */

import { onceAborted } from "../../lib/cancellation.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { PID } from "../types.ts";

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

/** One coroutine. It and its resumer take turns: while one runs, the other waits. */
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
  /** Its own wait in `yield`. */
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

  /** It ignored its cancellation: its end is no longer awaited. */
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
