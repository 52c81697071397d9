/** The questions that wait for their first decision, and how the last ones ended. */

import { SyscallError } from "../../plugin/index.ts";
import type { OpenAsk } from "../../run/ask-schema.ts";
import type { FileGrant } from "../permission/file-grant.ts";
import type { Process } from "../process/process.ts";
import { endText, type Settled } from "./verdict.ts";

/** Maximum ended questions that are remembered, so that a late answer fails with the reason. */
const MAX_REMEMBERED = 1_000;

/** An open question. */
export interface Waiting {
  proc: Process;
  ask: OpenAsk;
  grant: FileGrant | null;
  /** How it ended; the first decision counts. */
  settled: PromiseWithResolvers<Settled>;
  isSettled: boolean;
}

export class OpenQuestions {
  readonly #open = new Map<string, Waiting>();
  /** How the last questions ended, by id. */
  readonly #ended = new Map<string, string>();

  get size(): number {
    return this.#open.size;
  }

  add(waiting: Waiting): void {
    this.#open.set(waiting.ask.id, waiting);
  }

  get(id: string): Waiting | undefined {
    return this.#open.get(id);
  }

  all(): Waiting[] {
    return [...this.#open.values()];
  }

  /** Nothing waits for the question any more. */
  delete(id: string): void {
    this.#open.delete(id);
  }

  /** The first decision counts. */
  settle(waiting: Waiting, settled: Settled): void {
    if (waiting.isSettled) return;
    waiting.isSettled = true;
    this.end(waiting.ask.id, endText(waiting.ask, settled));
    waiting.settled.resolve(settled);
  }

  /** Remembers how a question ended. */
  end(id: string, how: string): void {
    this.#ended.set(id, how);
    const [oldest] = this.#ended.keys();
    if (this.#ended.size > MAX_REMEMBERED && oldest !== undefined) this.#ended.delete(oldest);
  }

  hasEnded(id: string): boolean {
    return this.#ended.has(id);
  }

  overError(id: string): SyscallError {
    const how = this.#ended.get(id) ?? "it was answered";
    return new SyscallError("CLOSED", `Question ${id} is over: ${how}.`);
  }
}
