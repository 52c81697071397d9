/** Wraps the library's text editor: gives it keys, and returns its lines and the position of the cursor. */

import { Editor } from "@earendil-works/pi-tui/dist/components/editor.js";
import type { Terminal } from "@earendil-works/pi-tui/dist/terminal.js";
import { CURSOR_MARKER, TuiBase } from "@earendil-works/pi-tui/dist/tui.js";

const nothing = (): void => undefined;

/** What the editor needs of a terminal: its height. It is never started, and writes nothing. */
function noTerminal(rows: () => number): Terminal {
  return {
    start: nothing,
    stop: nothing,
    write: nothing,
    moveBy: nothing,
    hideCursor: nothing,
    showCursor: nothing,
    clearLine: nothing,
    clearFromCursor: nothing,
    clearScreen: nothing,
    setTitle: nothing,
    setProgress: nothing,
    drainInput: () => Promise.resolve(),
    columns: 80,
    kittyProtocolActive: false,
    get rows() {
      return rows();
    },
  };
}

class Host extends TuiBase {
  readonly mode = "regular";
  readonly #redraw: () => void;

  constructor(rows: () => number, redraw: () => void) {
    super(noTerminal(rows));
    this.#redraw = redraw;
  }

  override requestRender(): void {
    this.#redraw();
  }

  protected override doRender(): void {}
}

interface FieldView {
  lines: string[];
  cursor: { row: number; column: number };
  /** Lines of the text above and below what is shown. */
  above: number;
  below: number;
}

const plain = (text: string): string => text;

export class EditorField extends Editor {
  #above = 0;
  #below = 0;

  constructor(rows: () => number, redraw: () => void) {
    const selectList = {
      selectedPrefix: plain,
      selectedText: plain,
      description: plain,
      scrollInfo: plain,
      noMatch: plain,
    };
    super(new Host(rows, redraw), { borderColor: plain, selectList });
    this.focused = true;
  }

  protected override renderTopBorder(_width: number, hidden: number): string {
    this.#above = hidden;
    return "";
  }

  protected override renderBottomBorder(_width: number, hidden: number): string {
    this.#below = hidden;
    return "";
  }

  /** At most a third of the terminal's rows. */
  view(columns: number): FieldView {
    const rendered = this.render(Math.max(2, columns)).slice(1, -1);
    const row = Math.max(
      0,
      rendered.findIndex((line) => line.includes(CURSOR_MARKER)),
    );
    const [before = "", after = ""] = (rendered[row] ?? "").split(CURSOR_MARKER);
    const lines = rendered.map((line) => line.trimEnd());
    lines[row] = before + withoutDrawnCursor(after).trimEnd();
    return {
      lines,
      cursor: { row, column: Bun.stringWidth(before) },
      above: this.#above,
      below: this.#below,
    };
  }
}

/** The editor draws its cursor by inverting a character; the terminal's own is used instead. */
function withoutDrawnCursor(text: string): string {
  const [on, off] = ["\x1b[7m", "\x1b[0m"];
  if (!text.startsWith(on)) return text;
  const end = text.indexOf(off);
  return text.slice(on.length, end) + text.slice(end + off.length);
}
