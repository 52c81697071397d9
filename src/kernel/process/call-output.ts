/** The end of a running call's output, for clients that attach later. */

import { countLines, TextTail } from "../../lib/text-tail.ts";

/** Characters kept of a running call's output, for clients that attach. */
const TAIL_CHARS = 8 * 1024;

/** The output of a running call: its end, and the number of its lines. Keys are redacted before any of it is shown. */
export class CallOutput {
  readonly #redact: () => { push(piece: string): string };
  /** Made by the first text: most calls show none. */
  #redactor: { push(piece: string): string } | undefined;
  readonly #shown = new TextTail(TAIL_CHARS);
  readonly #fresh = new TextTail(TAIL_CHARS);
  #lines = 0;

  /** `redact` makes a redactor of a text that comes in pieces. */
  constructor(redact: () => { push(piece: string): string }) {
    this.#redact = redact;
  }

  /** Whole lines so far, also lines that are no longer kept. */
  get lines(): number {
    return this.#lines;
  }

  /** The end of what was shown. */
  get tail(): string {
    return this.#shown.text;
  }

  add(text: string, skipped = 0): void {
    this.#lines += skipped + countLines(text);
    this.#fresh.add(text);
  }

  /** What was added since the last call, redacted: of much text, its end. */
  take(): string {
    if (this.#fresh.isEmpty) return "";
    this.#redactor ??= this.#redact();
    const text = this.#redactor.push(this.#fresh.take());
    this.#shown.add(text);
    return text;
  }
}
