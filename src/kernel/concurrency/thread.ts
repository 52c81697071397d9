/** Threads of a process: their types, and one thread's task. */

import { orAborted } from "../../lib/cancellation.ts";
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

/** One thread: its work, its signal and its result. */
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

  /** It ignored its cancellation: its end is no longer awaited. */
  giveUp(): void {
    const message = `Thread ${this.id} ignored its cancellation and was given up.`;
    this.#end({ error: new SyscallError("CANCELLED", message) });
  }

  #end(outcome: Outcome): void {
    this.#live = false;
    this.#ended.resolve(outcome);
  }
}
