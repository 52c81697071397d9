/** Calls across a Worker's border that wait for their answer. */

import type { SyscallError } from "../index.ts";
import type { Answer } from "./wire.ts";

/** `Answers`: the answer type of each call. */
export class PendingCalls<Answers> {
  readonly #waiting = new Map<number, { answer(value: unknown): void; fail(error: SyscallError): void }>();
  #next = 1;

  begin<M extends keyof Answers>(): { id: number; answer: Promise<Answer<Answers, M>> } {
    const id = this.#next++;
    const answer = new Promise<Answer<Answers, M>>((resolve, fail) => {
      // Both sides belong to this program and answer by `Answers`. A driver's values are checked in the Worker.
      this.#waiting.set(id, { answer: (value) => resolve(value as Answer<Answers, M>), fail });
    });
    return { id, answer };
  }

  /** Ignores the answer to a call that no longer waits. */
  answer(id: number, value: unknown): void {
    this.#take(id)?.answer(value);
  }

  fail(id: number, error: SyscallError): void {
    this.#take(id)?.fail(error);
  }

  failAll(error: SyscallError): void {
    for (const id of [...this.#waiting.keys()]) this.fail(id, error);
  }

  get size(): number {
    return this.#waiting.size;
  }

  #take(id: number): { answer(value: unknown): void; fail(error: SyscallError): void } | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }
}
