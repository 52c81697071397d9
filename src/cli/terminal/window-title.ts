/** The title of the terminal's window: the one that is wanted, and the one that the terminal has. */

import { safeLine } from "./safe-text.ts";

const SAVE = "\u001b[22;0t";
const RESTORE = "\u001b[23;0t";
const MAX_CHARS = 200;

export class WindowTitle {
  #wanted: string | null = null;
  #shown: string | null = null;

  /** null: the one before. Returns whether it is another one. */
  want(text: string | null): boolean {
    const title = text === null ? null : Bun.stripANSI(safeLine(text)).slice(0, MAX_CHARS);
    if (title === this.#wanted) return false;
    this.#wanted = title;
    return true;
  }

  /** What is to be written so that the terminal has the wanted title. */
  change(): string {
    if (this.#wanted === this.#shown) return "";
    if (this.#wanted === null) return this.restore();
    const save = this.#shown === null ? SAVE : "";
    this.#shown = this.#wanted;
    return `${save}\u001b]0;${this.#wanted}\u0007`;
  }

  /** What is to be written so that the terminal has the title that it had before. */
  restore(): string {
    if (this.#shown === null) return "";
    this.#shown = null;
    return RESTORE;
  }
}
