import { Terminal as Emulator, type IBufferCell, type IBufferLine } from "@xterm/headless";

export interface ScreenOptions {
  columns?: number;
  rows?: number;
  /** false: lines that are wider than a new width are cut, as xterm does; by default they are wrapped again. */
  reflow?: boolean;
}

/** A terminal's screen and scroll-back, as xterm.js has them. */
export class ScreenModel {
  readonly #emulator: Emulator;
  readonly #titles: string[] = [];
  readonly #changed = new Set<() => void>();
  #bells = 0;
  #clipboard = 0;

  constructor({ columns = 80, rows = 24, reflow = true }: ScreenOptions = {}) {
    this.#emulator = new Emulator({
      cols: columns,
      rows,
      scrollback: 5000,
      allowProposedApi: true,
      // As an old Windows console: the one way to turn the wrapping off.
      ...(!reflow && { windowsPty: { backend: "conpty", buildNumber: 19_000 } }),
    });
    this.#emulator.onTitleChange((title) => this.#titles.push(title));
    this.#emulator.onBell(() => this.#bells++);
    this.#emulator.parser.registerOscHandler(52, () => {
      this.#clipboard++;
      return true;
    });
  }

  /** Resolves when the text is on the screen. */
  write(data: string | Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      this.#emulator.write(data, () => {
        resolve();
        for (const changed of this.#changed) changed();
      });
    });
  }

  /** Calls `f` with what the terminal answers to questions. */
  onReply(f: (text: string) => void): void {
    this.#emulator.onData(f);
  }

  /** Calls `f` after each change, until the returned function is called. */
  onChange(f: () => void): () => void {
    this.#changed.add(f);
    return () => void this.#changed.delete(f);
  }

  resize(columns: number, rows: number): void {
    this.#emulator.resize(columns, rows);
    for (const changed of this.#changed) changed();
  }

  get columns(): number {
    return this.#emulator.cols;
  }

  get rows(): number {
    return this.#emulator.rows;
  }

  /** What is visible, without the empty rows at its end. */
  get text(): string {
    return textOf(this.#visible(), this.columns);
  }

  /** What has scrolled off the screen. */
  get scrollback(): string {
    return textOf(this.#lines(0, this.#emulator.buffer.active.baseY), this.columns);
  }

  /** The scroll-back and the screen. */
  get transcript(): string {
    return textOf(this.#lines(0, this.#emulator.buffer.active.length), this.columns);
  }

  /** As `transcript`, with what one line was wrapped to by the terminal in one piece. */
  get unwrapped(): string {
    return unwrapped(this.#lines(0, this.#emulator.buffer.active.length));
  }

  /** What is visible, with styles as text: `<red bold>failed</> at line 3`. */
  get styled(): string {
    return trimEnd(this.#visible().map((line) => styledLine(this.#runs(line)))).join("\n");
  }

  get cursor(): { row: number; column: number; visible: boolean } {
    const { cursorX, cursorY } = this.#emulator.buffer.active;
    return { row: cursorY, column: cursorX, visible: this.#isCursorVisible };
  }

  get title(): string {
    return this.#titles.at(-1) ?? "";
  }

  get titles(): readonly string[] {
    return this.#titles;
  }

  get bells(): number {
    return this.#bells;
  }

  /** How often something was written to the clipboard. */
  get clipboardWrites(): number {
    return this.#clipboard;
  }

  /** The modes that a program may leave behind. */
  get modes(): { bracketedPaste: boolean; autowrap: boolean; mouse: boolean; alternateScreen: boolean } {
    const { bracketedPasteMode, wraparoundMode, mouseTrackingMode } = this.#emulator.modes;
    return {
      bracketedPaste: bracketedPasteMode,
      autowrap: wraparoundMode,
      mouse: mouseTrackingMode !== "none",
      alternateScreen: this.#emulator.buffer.active.type === "alternate",
    };
  }

  /** The whole transcript, or its last rows, as a picture. */
  svg({ rows = Number.POSITIVE_INFINITY, title = "" }: { rows?: number; title?: string } = {}): string {
    const lines = this.#lines(0, this.#emulator.buffer.active.length).map((line) => this.#runs(line));
    while (lines.at(-1)?.every((run) => run.text.trim() === "")) lines.pop();
    return picture(lines.slice(-rows), this.columns, title);
  }

  dispose(): void {
    this.#emulator.dispose();
  }

  get #isCursorVisible(): boolean {
    // The public interface has no word for it.
    const core: unknown = Reflect.get(this.#emulator, "_core");
    if (typeof core !== "object" || core === null) throw new Error("@xterm/headless has changed");
    const service: unknown = Reflect.get(core, "coreService");
    if (typeof service !== "object" || service === null) throw new Error("@xterm/headless has changed");
    return Reflect.get(service, "isCursorHidden") === false;
  }

  #visible(): IBufferLine[] {
    const { baseY } = this.#emulator.buffer.active;
    return this.#lines(baseY, baseY + this.rows);
  }

  #lines(from: number, to: number): IBufferLine[] {
    const buffer = this.#emulator.buffer.active;
    const lines = [];
    for (let y = from; y < to; y++) {
      const line = buffer.getLine(y);
      if (line !== undefined) lines.push(line);
    }
    return lines;
  }

  #runs(line: IBufferLine): Run[] {
    const runs: Run[] = [];
    const cell = this.#emulator.buffer.active.getNullCell();
    for (let x = 0; x < line.length; x++) {
      const found = line.getCell(x, cell);
      if (found === undefined || found.getWidth() === 0) continue;
      const style = styleOf(found);
      const last = runs.at(-1);
      const text = found.getChars() || " ";
      if (last && key(last.style) === key(style)) last.text += text;
      else runs.push({ text, style });
    }
    const last = runs.at(-1);
    if (last && key(last.style) === "") last.text = last.text.trimEnd();
    return runs.filter(({ text }) => text !== "");
  }
}

interface Run {
  text: string;
  style: CellStyle;
}

interface CellStyle {
  names: string[];
  colour: string | null;
  background: string | null;
}

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

function styleOf(cell: IBufferCell): CellStyle {
  const names: [string, number][] = [
    ["bold", cell.isBold()],
    ["dim", cell.isDim()],
    ["italic", cell.isItalic()],
    ["underline", cell.isUnderline()],
    ["inverse", cell.isInverse()],
    ["invisible", cell.isInvisible()],
    ["strike", cell.isStrikethrough()],
  ];
  return {
    names: names.filter(([, on]) => on).map(([name]) => name),
    colour: cell.isFgDefault() ? null : colourName(cell.isFgRGB(), cell.getFgColor()),
    background: cell.isBgDefault() ? null : colourName(cell.isBgRGB(), cell.getBgColor()),
  };
}

function colourName(isRgb: boolean, colour: number): string {
  if (isRgb) return `#${colour.toString(16).padStart(6, "0")}`;
  const name = NAMES[colour % 8] ?? "";
  if (colour < 8) return name;
  return colour < 16 ? `bright-${name}` : `colour-${colour}`;
}

function key({ names, colour, background }: CellStyle): string {
  return [colour, background === null ? null : `on-${background}`, ...names]
    .filter((part) => part !== null)
    .join(" ");
}

function styledLine(runs: readonly Run[]): string {
  return runs
    .map(({ text, style }) => (key(style) === "" ? text : `<${key(style)}>${text}</>`))
    .join("")
    .trimEnd();
}

function textOf(lines: readonly IBufferLine[], columns: number): string {
  return trimEnd(lines.map((line) => line.translateToString(true, 0, columns).trimEnd())).join("\n");
}

function unwrapped(lines: readonly IBufferLine[]): string {
  const whole: string[] = [];
  for (const line of lines) {
    if (line.isWrapped && whole.length > 0) whole.push((whole.pop() ?? "") + line.translateToString(true));
    else whole.push(line.translateToString(true));
  }
  return trimEnd(whole.map((line) => line.trimEnd())).join("\n");
}

function trimEnd(lines: string[]): string[] {
  while (lines.at(-1) === "") lines.pop();
  return lines;
}

const CELL = { width: 8.4, height: 18, size: 14 };
const FOREGROUND = "#d8dee9";
const BACKGROUND = "#14171c";
const COLOURS: Readonly<Record<string, string>> = {
  black: "#3b4252",
  red: "#e0616b",
  green: "#8fbf6f",
  yellow: "#e5c07b",
  blue: "#6ea8e0",
  magenta: "#c08ad0",
  cyan: "#6fc3c9",
  white: "#e5e9f0",
};

function picture(lines: readonly Run[][], columns: number, title: string): string {
  const width = Math.ceil(columns * CELL.width + 24);
  const height = Math.ceil(lines.length * CELL.height + 24);
  const rows = lines.map((runs, y) => {
    let x = 0;
    const spans = runs.map(({ text, style }) => {
      const at = x;
      x += Bun.stringWidth(text);
      return text.trim() === "" && style.background === null ? "" : span(text, style, at, y);
    });
    return spans.join("");
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">`,
    ...(title === "" ? [] : [`<title>${escaped(title)}</title>`]),
    `<rect width="100%" height="100%" rx="8" fill="${BACKGROUND}"/>`,
    `<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="${CELL.size}" fill="${FOREGROUND}" xml:space="preserve">`,
    ...rows.filter((row) => row !== ""),
    "</g>",
    "</svg>",
    "",
  ].join("\n");
}

function span(text: string, style: CellStyle, column: number, row: number): string {
  const x = (12 + column * CELL.width).toFixed(1);
  const y = 12 + row * CELL.height;
  const cells = Bun.stringWidth(text);
  const inverse = style.names.includes("inverse");
  const colour = hex(inverse ? style.background : style.colour) ?? (inverse ? BACKGROUND : null);
  const behind = hex(inverse ? style.colour : style.background) ?? (inverse ? FOREGROUND : null);
  const attributes = [
    colour === null ? "" : ` fill="${colour}"`,
    style.names.includes("bold") ? ' font-weight="bold"' : "",
    style.names.includes("italic") ? ' font-style="italic"' : "",
    style.names.includes("dim") ? ' opacity="0.6"' : "",
    style.names.includes("underline") ? ' text-decoration="underline"' : "",
    style.names.includes("strike") ? ' text-decoration="line-through"' : "",
  ].join("");
  const length = `textLength="${(cells * CELL.width).toFixed(1)}" lengthAdjust="spacingAndGlyphs"`;
  const box =
    behind === null
      ? ""
      : `<rect x="${x}" y="${y}" width="${(cells * CELL.width).toFixed(1)}" height="${CELL.height}" fill="${behind}"/>`;
  return `${box}<text x="${x}" y="${y + CELL.height - 5}" ${length}${attributes}>${escaped(text)}</text>`;
}

function hex(name: string | null): string | null {
  if (name === null || name.startsWith("#")) return name;
  const plain = name.replace(/^bright-/, "");
  const known = COLOURS[plain];
  if (known !== undefined) return known;
  return paletteHex(Number(name.replace("colour-", "")));
}

/** The 6x6x6 cube and the greys of 256 colours. */
function paletteHex(colour: number): string {
  if (colour >= 232) return rgb([8 + (colour - 232) * 10, 8 + (colour - 232) * 10, 8 + (colour - 232) * 10]);
  const at = colour - 16;
  const level = (n: number): number => (n === 0 ? 0 : 55 + n * 40);
  return rgb([level(Math.floor(at / 36)), level(Math.floor(at / 6) % 6), level(at % 6)]);
}

function rgb(parts: number[]): string {
  return `#${parts.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
