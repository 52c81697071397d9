/** Takes pasted texts out of what a terminal sends. */

const BEGINS = "\u001b[200~";
const ENDS = "\u001b[201~";
/** A sequence that may still become the beginning of a paste: no key alone is sent so. */
const MAY_BEGIN = /\u001b\[2(?:00?)?$/;

/** More than any input takes: the rest of a longer paste is dropped. */
export const MAX_PASTE = 16 * 1024 * 1024;

interface PasteHandlers {
  keys(text: string): void;
  paste(text: string): void;
  /** While a long paste comes: its characters until now. */
  pasting?(length: number): void;
}

/** A paste beyond this length is announced while it comes. */
const LONG = 32 * 1024;

/** Each character is looked at once, also in a paste of many pieces. */
export class PasteSplitter {
  readonly #on: PasteHandlers;
  /** null while no text is pasted. */
  #parts: string[] | null = null;
  #length = 0;
  /** What may be the beginning of a mark whose end has not come yet. */
  #held = "";

  constructor(on: PasteHandlers) {
    this.#on = on;
  }

  take(text: string): void {
    let rest = this.#held + text;
    this.#held = "";
    while (rest !== "") rest = this.#parts === null ? this.#keys(rest) : this.#pasted(rest, this.#parts);
  }

  clear(): void {
    this.#parts = null;
    this.#held = "";
  }

  /** Returns what follows the beginning of a paste. */
  #keys(text: string): string {
    const at = text.indexOf(BEGINS);
    const keys = at < 0 ? text.replace(MAY_BEGIN, "") : text.slice(0, at);
    if (at < 0) this.#held = text.slice(keys.length);
    else this.#parts = [];
    this.#length = 0;
    if (keys !== "") this.#on.keys(keys);
    return at < 0 ? "" : text.slice(at + BEGINS.length);
  }

  /** Returns what follows the end of the paste. */
  #pasted(text: string, parts: string[]): string {
    const at = text.indexOf(ENDS);
    const end = at < 0 ? Math.max(0, text.length - ENDS.length + 1) : at;
    const part = text.slice(0, Math.min(end, MAX_PASTE - this.#length));
    this.#length += part.length;
    parts.push(part);
    if (at < 0) {
      this.#held = text.slice(end);
      if (this.#length > LONG) this.#on.pasting?.(this.#length);
      return "";
    }
    this.#parts = null;
    this.#on.paste(parts.join(""));
    return text.slice(at + ENDS.length);
  }
}
