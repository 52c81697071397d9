/** The suggestions below the input line: which one is selected, and their lines, drawn by the library. */

import { SelectList } from "@earendil-works/pi-tui/dist/components/select-list.js";
import { cut } from "../output/format.ts";
import type { Style } from "../output/style.ts";
import type { Suggestion, Suggestions } from "./completion.ts";

/** Rows of suggestions that are visible at once. */
const ROWS = 7;

export class SuggestionMenu {
  readonly kind: Suggestions["kind"];
  /** Where the typed part begins, in the line; it ends at the cursor. */
  readonly from: number;
  readonly items: readonly Suggestion[];
  /** The text and the cursor that it is an answer to. */
  readonly state: string;
  #selected = 0;
  /** The user has moved to an item. */
  isMoved = false;

  /** `items` is not empty. */
  constructor({ kind, from, items }: Suggestions, state: string) {
    this.kind = kind;
    this.from = from;
    this.items = items;
    this.state = state;
  }

  get selected(): Suggestion | undefined {
    return this.items[this.#selected];
  }

  move(by: number): void {
    this.isMoved = true;
    this.#selected = (this.#selected + this.items.length + by) % this.items.length;
  }

  lines(columns: number, style: Style): string[] {
    const items = this.items.map(({ text, label, about }) => ({ value: text, label, description: about }));
    const theme = {
      selectedPrefix: plain,
      // The library knows one arrow.
      selectedText: (line: string) => style.cyan(line.replace("→", style.glyph.prompt)),
      description: style.dim,
      scrollInfo: style.dim,
      noMatch: plain,
    };
    const list = new SelectList(items, ROWS, theme, {
      minPrimaryColumnWidth: 1,
      maxPrimaryColumnWidth: Math.floor(columns / 2),
      truncatePrimary: ({ text, maxWidth }) => cut(text, maxWidth),
    });
    list.setSelectedIndex(this.#selected);
    return list.render(columns);
  }
}

const plain = (text: string): string => text;
