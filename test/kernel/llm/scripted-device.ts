import type { ModelDevice } from "../../../src/kernel/llm/model-device.ts";
import { type LLMAnswer, type LLMEvent, SyscallError } from "../../../src/plugin/index.ts";

/** What one attempt meets, in order: events to read, an error to throw, or a wait without end. */
export type Attempt = (LLMEvent | LLMAnswer | SyscallError | "hang" | "hang-deaf")[];

/** A model device that plays one list per write. After the last list it plays that one again. */
export class ScriptedDevice implements ModelDevice {
  readonly requests: string[] = [];
  readonly #attempts: Attempt[];
  #left: Attempt = [];

  constructor(...attempts: Attempt[]) {
    this.#attempts = attempts;
  }

  async write(data: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#left = [...(this.#attempts[Math.min(this.requests.length, this.#attempts.length - 1)] ?? [])];
    this.requests.push(data);
    const first = this.#left[0];
    if (first instanceof SyscallError) throw first;
  }

  async read(_max: number, signal: AbortSignal): Promise<string> {
    const next = this.#left.shift();
    if (next === undefined) return "";
    if (next instanceof SyscallError) throw next;
    if (next === "hang" || next === "hang-deaf") return await never(next === "hang" ? signal : undefined);
    return JSON.stringify(next);
  }
}

export const USAGE = { input_tokens: 10, output_tokens: 2, cached_tokens: 4 };

export function text(words: string): Attempt {
  return [
    { type: "text_delta", text: words },
    { type: "usage", usage: USAGE },
    { type: "stop", reason: "end_turn" },
  ];
}

function never(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener("abort", () => reject(new SyscallError("CANCELLED", "aborted")), { once: true });
  });
}
