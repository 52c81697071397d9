/** A list to choose from, in the place of the input line: arrows move, letters filter, Enter takes, Esc leaves it. */

import { matchesKey } from "@earendil-works/pi-tui/dist/keys.js";
import { cut } from "../output/format.ts";
import type { Style } from "../output/style.ts";
import { fuzzyScore } from "../terminal/fuzzy.ts";

const MAX_ROWS = 10;

export interface Choice<T> {
  value: T;
  label: string;
  /** Right of the label, dim. */
  about: string;
}

export const YES_NO: readonly Choice<boolean>[] = [
  { value: true, label: "yes", about: "" },
  { value: false, label: "no", about: "" },
];

interface PickerOptions<T> {
  title: string;
  choices: readonly Choice<T>[];
  style: Style;
  /** `value`: null when the list was left. `words`: what was typed then, if it fits no choice. */
  done(value: T | null, words?: string): void;
}

export class Picker<T> {
  readonly #o: PickerOptions<T>;
  #query = "";
  #selected = 0;

  constructor(o: PickerOptions<T>) {
    this.#o = o;
  }

  key(data: string): void {
    const shown = this.#shown();
    if (matchesKey(data, "escape")) this.#o.done(null, shown.length === 0 ? this.#query : "");
    else if (matchesKey(data, "enter")) {
      const choice = shown[this.#selected];
      if (choice !== undefined) this.#o.done(choice.value);
    } else if (matchesKey(data, "up") && shown.length > 0)
      this.#selected = (this.#selected + shown.length - 1) % shown.length;
    else if (matchesKey(data, "down") && shown.length > 0)
      this.#selected = (this.#selected + 1) % shown.length;
    else if (matchesKey(data, "backspace")) this.#filter([...this.#query].slice(0, -1).join(""));
    else if (!/[\p{Cc}]/u.test(data)) this.#filter(this.#query + data);
  }

  lines(columns: number): string[] {
    const { glyph, dim, cyan, bold } = this.#o.style;
    const shown = this.#shown();
    const first = Math.max(0, Math.min(this.#selected - MAX_ROWS + 3, shown.length - MAX_ROWS));
    const width = Math.max(10, columns - 4);
    const rows = shown.slice(first, first + MAX_ROWS).map(({ label, about }, at) => {
      const side = cut(about, Math.floor(width / 2));
      const name = cut(label, width - Bun.stringWidth(side) - 2);
      const gap = " ".repeat(Math.max(2, width - Bun.stringWidth(name) - Bun.stringWidth(side)));
      return first + at === this.#selected
        ? cyan(`${glyph.prompt} ${name}${gap}${side}`)
        : `  ${name}${dim(gap + side)}`;
    });
    const filter =
      this.#query === "" ? dim("  type to filter, enter to choose, esc to leave") : `  ${this.#query}`;
    const none = shown.length === 0 ? [dim("  nothing fits")] : [];
    const count = shown.length > MAX_ROWS ? [dim(`  ${this.#selected + 1} of ${shown.length}`)] : [];
    return [bold(cut(this.#o.title, columns)), cut(filter, columns), ...rows, ...none, ...count];
  }

  #filter(query: string): void {
    this.#query = query;
    this.#selected = 0;
  }

  #shown(): Choice<T>[] {
    const query = this.#query.toLowerCase();
    if (query === "") return [...this.#o.choices];
    return this.#o.choices
      .flatMap((choice) => {
        const score = fuzzyScore(query, choice.label);
        return score === null ? [] : [{ choice, score }];
      })
      .toSorted((a, b) => b.score - a.score)
      .map(({ choice }) => choice);
  }
}
