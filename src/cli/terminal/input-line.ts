/** The line a person types into: several lines, history and its search, long pastes as markers, suggestions below it. */

import { isKeyRelease, type KeyId, matchesKey } from "@earendil-works/pi-tui/dist/keys.js";
import { countLines } from "../../lib/text-tail.ts";
import type { Style } from "../output/style.ts";
import { type Completer, droppedImage, fileMention, type Suggestions } from "./completion.ts";
import { type Draft, expanded, PASTE_MARKER } from "./draft.ts";
import { EditorField } from "./editor-field.ts";
import { type History, searchHistory } from "./history.ts";
import { SuggestionMenu } from "./suggestion-menu.ts";

/** Keys that mean nothing to the text. */
const UNUSED: readonly KeyId[] = [
  ...(["escape", "tab", "shift+tab", "alt+up"] as const),
  ...(["ctrl+c", "ctrl+g", "ctrl+o", "ctrl+s", "ctrl+v"] as const),
];
/** The library shows a paste of more lines as a marker. */
const MARKER_LINES = 10;
const PROMPT_WIDTH = 2;
const SEARCH_KEYS = "  past messages: ctrl-r older, enter takes it, esc ends";
const NOTHING_FOUND = "  no past message has these words";

interface InputOptions {
  style: Style;
  rows(): number;
  redraw(): void;
  completer: Completer;
  history: Pick<History, "load" | "add">;
  /** Whether a path names a file, for a path that was dropped on the terminal. */
  isFile(path: string): boolean;
  closed?(): void;
}

interface InputView {
  lines: string[];
  cursor: { row: number; column: number };
}

/** "unused": the key means nothing here, and the caller may use it. */
export type KeyOutcome = "used" | "submit" | "unused";

export class InputLine {
  readonly #o: InputOptions;
  readonly #typed: string[];
  #field: EditorField;
  #pastes = new Map<number, string>();
  #menu: SuggestionMenu | null = null;
  /** Ctrl-R was pressed: past messages with the words of the line are offered. */
  #isSearching = false;
  /** The text for which the menu was closed by hand. */
  #dismissed: string | null = null;
  #asked: AbortController | undefined;
  /** What the last key led to, for which suggestions were asked. */
  #state = "";

  constructor(o: InputOptions) {
    this.#o = o;
    this.#typed = [...o.history.load()];
    this.#field = this.#newField();
  }

  get isEmpty(): boolean {
    return this.#field.getText() === "";
  }

  /** A key such as Escape closes the suggestions or the search first. */
  get hasMenu(): boolean {
    return this.#menu !== null || this.#isSearching;
  }

  /** Ends a search of past messages; what was typed stays. Returns false if there is none. */
  endSearch(): boolean {
    if (!this.#isSearching) return false;
    this.#dismiss();
    this.#o.redraw();
    return true;
  }

  /** The whole text, pastes included. */
  get text(): string {
    return expanded({ shown: this.#field.getText(), pastes: this.#pastes });
  }

  get draft(): Draft {
    return { shown: this.#field.getText(), pastes: new Map(this.#pastes) };
  }

  /** Empties the line and returns what was in it. `remember`: Up offers it again, also in a later conversation. */
  take(remember: boolean): Draft {
    const draft = this.draft;
    const text = expanded(draft).trim();
    if (remember && text !== "" && this.#typed.at(-1) !== text) {
      this.#typed.push(text);
      this.#o.history.add(text);
    }
    this.#reset();
    this.#o.redraw();
    return draft;
  }

  put(draft: Draft): void {
    this.#reset();
    this.#insert(draft);
    this.#o.redraw();
  }

  /** Puts text before what is typed already; null: there is none. */
  putBefore(draft: Draft | null): void {
    if (draft === null) return;
    const typed = this.draft;
    this.#reset();
    this.#insert(draft);
    if (typed.shown !== "") {
      this.#field.insertTextAtCursor("\n");
      this.#insert(typed);
    }
    this.#o.redraw();
  }

  setText(text: string): void {
    this.put({ shown: text, pastes: new Map() });
  }

  insert(text: string): void {
    this.#field.insertTextAtCursor(text);
    this.#changed();
  }

  paste(text: string): void {
    const content = text.replace(/\r\n?/g, "\n");
    const image = droppedImage(content, this.#o.isFile);
    if (image === null) this.#paste(content);
    else this.insert(`${/\S$/.test(this.#beforeCursor()) ? " " : ""}${fileMention(image)} `);
    this.#changed();
  }

  key(data: string): KeyOutcome {
    if (isKeyRelease(data)) return "used";
    if (isOneOf(data, ["escape", "ctrl+g"]) && this.endSearch()) return "used";
    const outcome = (this.#menu && this.#menuKey(data, this.#menu)) ?? this.#fieldKey(data);
    if (outcome === "used") this.#changed();
    return outcome;
  }

  view(columns: number): InputView {
    const { style } = this.#o;
    const field = this.#field.view(columns - PROMPT_WIDTH);
    const prompt = style.glyph.prompt;
    const lines = field.lines.map((line, row) => `${row === 0 ? style.cyan(prompt) : " "} ${line}`);
    const cursor = { row: field.cursor.row, column: field.cursor.column + PROMPT_WIDTH };
    if (field.above > 0) {
      lines.unshift(style.dim(`  … ${field.above} more above`));
      cursor.row++;
    }
    if (field.below > 0) lines.push(style.dim(`  … ${field.below} more below`));
    lines.push(...(this.#menu?.lines(columns, style) ?? []));
    if (this.#isSearching) lines.push(style.dim(this.#menu === null ? NOTHING_FOUND : SEARCH_KEYS));
    return { lines, cursor };
  }

  close(): void {
    this.#asked?.abort();
    this.#o.closed?.();
  }

  #fieldKey(data: string): KeyOutcome {
    const field = this.#field;
    if (isOneOf(data, ["shift+enter", "alt+enter", "ctrl+j"]) || data === "\n" || data === "\x1b\r") {
      field.handleInput("\n");
      return "used";
    }
    if (isOneOf(data, ["enter"])) {
      if (!this.#beforeCursor().endsWith("\\")) return "submit";
      field.handleInput(data);
      return "used";
    }
    if (matchesKey(data, "ctrl+r")) {
      this.#isSearching = true;
      this.#suggest(this.#stateNow());
      return "used";
    }
    if (isOneOf(data, UNUSED)) return "unused";
    if (matchesKey(data, "ctrl+d") && this.isEmpty) return "unused";
    field.handleInput(data);
    return "used";
  }

  /** undefined: the key is for the text. */
  #menuKey(data: string, menu: SuggestionMenu): KeyOutcome | undefined {
    if (isOneOf(data, ["up", "ctrl+p"])) menu.move(-1);
    else if (isOneOf(data, ["down", "ctrl+n"])) menu.move(1);
    else if (menu.found.kind === "history" && matchesKey(data, "ctrl+r")) menu.move(1);
    else if (matchesKey(data, "escape")) this.#dismiss();
    else if (matchesKey(data, "tab")) this.#accept(menu);
    else if (matchesKey(data, "enter")) return this.#enter(menu);
    else return undefined;
    this.#o.redraw();
    return "used";
  }

  /** Enter takes the selected suggestion, and sends what is complete. */
  #enter(menu: SuggestionMenu): KeyOutcome {
    const typed = this.#beforeCursor().slice(menu.found.from);
    const item = menu.selected;
    const isStale = menu.state !== this.#stateNow();
    const isWhole =
      menu.found.kind !== "history" && menu.found.items.some(({ text }) => text.trim() === typed);
    // Behind "/agent " and before any letter, no value is meant yet.
    const isUnmeant = menu.found.kind === "argument" && typed === "" && !menu.isMoved;
    if (item === undefined || isStale || isWhole || isUnmeant) {
      this.#menu = null;
      return "submit";
    }
    this.#accept(menu);
    if (menu.found.kind === "file" || menu.found.kind === "history" || item.needsMore) return "used";
    return "submit";
  }

  #accept(menu: SuggestionMenu): void {
    const item = menu.selected;
    if (item === undefined || menu.state !== this.#stateNow()) return;
    if (menu.found.kind === "history") {
      this.setText(item.text);
      this.#dismiss();
      return;
    }
    const typed = this.#beforeCursor().length - menu.found.from;
    for (let i = 0; i < typed; i++) this.#field.handleInput("\x7f");
    this.#field.insertTextAtCursor(item.text);
    this.#menu = null;
    // A folder's entries are offered next.
    if (!item.goesOn) this.#dismissed = this.#stateNow();
  }

  #dismiss(): void {
    this.#menu = null;
    this.#isSearching = false;
    this.#dismissed = this.#stateNow();
    this.#asked?.abort();
  }

  /** Asks for suggestions for the text as it is now. */
  #changed(): void {
    const state = this.#stateNow();
    if (state !== this.#state) {
      this.#state = state;
      this.#suggest(state);
    }
    this.#o.redraw();
  }

  #suggest(state: string): void {
    const { completer } = this.#o;
    this.#asked?.abort();
    if (this.#isSearching) return void this.#show(searchHistory(this.#typed, this.#field.getText()), state);
    if (state === this.#dismissed) return;
    this.#dismissed = null;
    const before = this.#beforeCursor();
    const isFirst = this.#field.getCursor().line === 0;
    const now = completer.now(before, isFirst);
    if (now !== null) return void this.#show(now, state);
    const asked = new AbortController();
    this.#asked = asked;
    const isSame =
      this.#menu !== null && this.#menu.found.kind !== "command" && before.length > this.#menu.found.from;
    if (!isSame) this.#menu = null;
    completer.soon(before, isFirst, asked.signal).then(
      (found) => {
        if (!asked.signal.aborted) this.#show(found, state);
      },
      // A folder that can't be read: nothing is offered.
      () => this.#show(null, state),
    );
  }

  #show(found: Suggestions | null, state: string): void {
    this.#menu = found === null || found.items.length === 0 ? null : new SuggestionMenu(found, state);
    this.#o.redraw();
  }

  #insert({ shown, pastes }: Draft): void {
    let at = 0;
    for (const match of shown.matchAll(PASTE_MARKER)) {
      const content = pastes.get(Number(match[1]));
      if (content === undefined) continue;
      this.#field.insertTextAtCursor(shown.slice(at, match.index));
      this.#paste(content);
      at = match.index + match[0].length;
    }
    this.#field.insertTextAtCursor(shown.slice(at));
    this.#changed();
  }

  /** The library makes a marker of a long text, and tells its number only there. */
  #paste(content: string): void {
    const lines = countLines(content);
    // The library looks at each character; of a paste that becomes a marker it needs the count of lines only.
    const given = lines > MARKER_LINES ? "\n".repeat(lines) : content.replaceAll("\x1b", "");
    this.#field.handleInput(`\x1b[200~${given}\x1b[201~`);
    const marker = /\[paste #(\d+) (?:\+\d+ lines|\d+ chars)\]$/.exec(this.#beforeCursor());
    if (marker !== null) this.#pastes.set(Number(marker[1]), content);
  }

  #beforeCursor(): string {
    const { line, col } = this.#field.getCursor();
    return (this.#field.getLines()[line] ?? "").slice(0, col);
  }

  #stateNow(): string {
    const { line, col } = this.#field.getCursor();
    return `${line}:${col}:${this.#field.getText()}`;
  }

  /** A new field, because the old one keeps a copy of the text for each undo. */
  #reset(): void {
    this.#asked?.abort();
    this.#menu = null;
    this.#isSearching = false;
    this.#dismissed = null;
    this.#pastes = new Map();
    this.#field = this.#newField();
    this.#state = this.#stateNow();
  }

  #newField(): EditorField {
    const field = new EditorField(
      () => this.#o.rows(),
      () => this.#o.redraw(),
    );
    for (const text of this.#typed) field.addToHistory(text);
    return field;
  }
}

function isOneOf(data: string, keys: readonly KeyId[]): boolean {
  return keys.some((key) => matchesKey(data, key));
}
