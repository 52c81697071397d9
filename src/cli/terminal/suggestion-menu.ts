/** The suggestions below the input line: which one is selected, and how they are drawn. */

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
    const { items } = this;
    const selected = this.#selected;
    const first = Math.max(0, Math.min(selected - ROWS + 3, items.length - ROWS));
    const shown = items.slice(first, first + ROWS);
    const most = shown.some(({ about }) => about !== "") ? Math.floor(columns / 2) : columns - 3;
    const width = Math.min(Math.max(...shown.map(({ label }) => Bun.stringWidth(label))), most);
    const lines = shown.map((item, at) =>
      itemLine(item, { columns, width, style, isSelected: first + at === selected }),
    );
    if (items.length > ROWS) lines.push(style.dim(`  ${selected + 1} of ${items.length}`));
    return lines;
  }
}

function itemLine(
  { label, about }: Suggestion,
  o: { columns: number; width: number; style: Style; isSelected: boolean },
): string {
  const { style } = o;
  const name = cut(label, o.width);
  const left = o.columns - o.width - 6;
  const text = about === "" || left < 10 ? "" : `  ${cut(about.replaceAll(/\s+/g, " "), left)}`;
  const padding = text === "" ? "" : " ".repeat(Math.max(0, o.width - Bun.stringWidth(name)));
  if (o.isSelected) return style.cyan(`${style.glyph.prompt} ${name}${padding}${text}`);
  return `  ${name}${padding}${style.dim(text)}`;
}
