/** What a process works on now, which its user can interrupt. */

import { Abort } from "../../lib/cancellation.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { PID } from "../types.ts";
import type { UserMessage } from "./event.ts";

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
  readonly #stop: AbortSignal;
  /** Made at its first use after the start or an interruption. */
  #abort: Abort | undefined;
  #interruption: PromiseWithResolvers<readonly number[]> | undefined;

  constructor(pid: PID, stop: AbortSignal) {
    this.#pid = pid;
    this.#stop = stop;
  }

  /** Aborted when the process must stop, and when the user interrupts this work. */
  get signal(): AbortSignal {
    return this.#made().signal;
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
