/** Threads of a process: their types, and one thread's task. */

import { onceAborted } from "../../lib/cancellation.ts";
import { type Message, SyscallError } from "../../plugin/index.ts";
import type { PID } from "../types.ts";

export type TID = number;

/** A thread as its own work sees it (seeds 2.6). */
export interface Thread {
  readonly tid: TID;
  readonly pid: PID;
  readonly intent: string;
  /** Aborted with the process's, and at its reap. A thread that does not heed it is given up after the grace. */
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
  readonly tid: TID;
  readonly intent: string;
  readonly #abort = new AbortController();
  readonly #ended = Promise.withResolvers<void>();
  readonly #joiners = new Set<(outcome: Outcome) => void>();
  #outcome: Outcome | undefined;
  #wasRead = false;

  constructor(tid: TID, intent: string) {
    this.tid = tid;
    this.intent = intent;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get live(): boolean {
    return this.#outcome === undefined;
  }

  get wasRead(): boolean {
    return this.#wasRead;
  }

  /** Resolves when the work has ended or was given up; it never rejects. */
  get ended(): Promise<void> {
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
    const outcome = this.#outcome ?? (await this.#nextOutcome(signal));
    this.#wasRead = true;
    if ("error" in outcome) throw outcome.error;
    return outcome.value;
  }

  cancel(reason: unknown): void {
    if (this.live) this.#abort.abort(reason);
  }

  /** It ignored its cancellation: its end is no longer awaited. */
  giveUp(): void {
    const message = `Thread ${this.tid} did not heed its cancellation and was given up.`;
    this.#end({ error: new SyscallError("CANCELLED", message) });
  }

  /** A joiner that stops waiting is removed, because a thread may outlive many of them. */
  async #nextOutcome(signal: AbortSignal): Promise<Outcome> {
    const joined = Promise.withResolvers<Outcome>();
    const tell = (outcome: Outcome): void => joined.resolve(outcome);
    this.#joiners.add(tell);
    const ignore = onceAborted(signal, () => joined.reject(signal.reason));
    try {
      return await joined.promise;
    } finally {
      ignore();
      this.#joiners.delete(tell);
    }
  }

  #end(outcome: Outcome): void {
    if (this.#outcome) return;
    this.#outcome = outcome;
    for (const tell of this.#joiners) tell(outcome);
    this.#ended.resolve();
  }
}
