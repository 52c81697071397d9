/** What the user asks of a live process beside messages: a compaction, another model, the end of the chat. */

import type { Effort } from "../../plugin/index.ts";
import type { AppliedCompaction, ProviderChoice } from "../types.ts";

/** A model or effort that the user has chosen. Absent: it stays. */
export interface ModelChoice {
  provider?: ProviderChoice;
  effort?: Effort;
}

interface ModelChange extends ModelChoice {
  done: PromiseWithResolvers<void>;
}

/** The loop takes each request before its next model call, or at once while it waits for a message. */
export class UserRequests {
  #compaction: PromiseWithResolvers<AppliedCompaction> | undefined;
  #model: ModelChange | undefined;
  #chatEnds = false;
  #wake: (() => void) | undefined;

  /** Whether the loop has something to do beside messages. */
  get hasWork(): boolean {
    return this.#compaction !== undefined || this.#model !== undefined;
  }

  get hasModel(): boolean {
    return this.#model !== undefined;
  }

  get compaction(): PromiseWithResolvers<AppliedCompaction> | undefined {
    return this.#compaction;
  }

  /** The user has ended the chat: it ends as soon as it would wait for a message. */
  get chatEnds(): boolean {
    return this.#chatEnds;
  }

  /** `wake` is called by `wake`, while the loop waits for a message; undefined: it waits no more. */
  whileWaiting(wake: (() => void) | undefined): void {
    this.#wake = wake;
  }

  /** Lets the loop look at the requests now, if it waits for a message. */
  wake(): void {
    this.#wake?.();
  }

  /** Resolves when the conversation is compacted. Requests before the next step share one compaction. */
  compact(): Promise<AppliedCompaction> {
    this.#compaction ??= Promise.withResolvers();
    return this.#compaction.promise;
  }

  compacted(): void {
    this.#compaction = undefined;
  }

  /** Resolves when the loop has taken the model, or a later choice has replaced it. */
  changeModel(choice: ModelChoice): Promise<void> {
    this.#model?.done.resolve();
    const done = Promise.withResolvers<void>();
    // It may be rejected when its caller has its answer.
    done.promise.catch(() => undefined);
    this.#model = { ...choice, done };
    return done.promise;
  }

  takeModel(): ModelChange | undefined {
    const change = this.#model;
    this.#model = undefined;
    return change;
  }

  endChat(): void {
    this.#chatEnds = true;
  }
}
