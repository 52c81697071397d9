/** stderr while the live view is open: its lines go above the live region. */

import type { Output } from "../io.ts";

export class CommittedOutput implements Output {
  readonly isTTY = true;
  readonly #output: Output;
  readonly #say: (text: string) => void;

  constructor(output: Output, say: (text: string) => void) {
    this.#output = output;
    this.#say = say;
  }

  get columns(): number {
    return this.#output.columns;
  }

  get closed(): boolean {
    return this.#output.closed;
  }

  write(text: string): void {
    this.#say(text.replace(/\n$/, ""));
  }

  writeBytes(bytes: Uint8Array): void {
    this.#output.writeBytes(bytes);
  }

  drained(): Promise<void> {
    return this.#output.drained();
  }
}
