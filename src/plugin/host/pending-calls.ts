import type { SyscallError } from "../index.ts";
import type { Answer } from "./wire.ts";

/** Calls to the other side of a Worker that wait for their answer. `Answers` names each call's answer. */
export class PendingCalls<Answers> {
  readonly #waiting = new Map<number, { answer(value: unknown): void; fail(error: SyscallError): void }>();
  #next = 1;

  begin<M extends keyof Answers>(): { id: number; answer: Promise<Answer<Answers, M>> } {
    const id = this.#next++;
    const answer = new Promise<Answer<Answers, M>>((resolve, fail) => {
      // Both sides are this program's own and answer by `Answers`; what a driver hands over is checked
      // in the Worker before it is sent.
      this.#waiting.set(id, { answer: (value) => resolve(value as Answer<Answers, M>), fail });
    });
    return { id, answer };
  }

  /** An answer nobody waits for is left alone. */
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
