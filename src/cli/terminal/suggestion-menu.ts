/** The suggestions below the input line: which one is selected, and their lines, drawn by the library. */

import { SelectList } from "@earendil-works/pi-tui/dist/components/select-list.js";
import { cut } from "../output/format.ts";
import type { Style } from "../output/style.ts";
import type { Suggestion, Suggestions } from "./completion.ts";

const ROWS = 7;

export class SuggestionMenu {
  readonly found: Suggestions;
  /** The text and the cursor that it is an answer to. */
  readonly state: string;
  #selected = 0;
  isMoved = false;

  /** `found` has items. */
  constructor(found: Suggestions, state: string) {
    this.found = found;
    this.state = state;
  }

  get selected(): Suggestion | undefined {
    return this.found.items[this.#selected];
  }

  move(by: number): void {
    this.isMoved = true;
    const { length } = this.found.items;
    this.#selected = (this.#selected + length + by) % length;
  }

  lines(columns: number, style: Style): string[] {
    const items = this.found.items.map(({ text, label, about }) => ({
      value: text,
      label,
      description: about,
    }));
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
