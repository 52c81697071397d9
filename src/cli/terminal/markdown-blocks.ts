/** Takes streamed Markdown apart into blocks that later text no longer changes. */

/** A finished part. `gap`: an empty line goes before it. */
export type Piece =
  | { kind: "block"; source: string; gap: boolean; number?: number }
  | { kind: "code"; language: string; gap: boolean }
  | { kind: "code-line"; text: string };

interface Fence {
  mark: string;
  indent: number;
}

/** An item of a list, or indented code. */
interface Item {
  lines: string[];
  /** Columns of the marker: lines with this indentation belong to the item. */
  content: number;
  /** `-`, `*`, `+`, `.` or `)`: another one begins another list; "code" for indented code. */
  type: string;
  /** null for a bullet. */
  number: number | null;
  gap: boolean;
  fence: Fence | null;
  /** Empty lines that belong to the item only if more of it follows. */
  blanks: number;
}

type Open =
  | { kind: "nothing" }
  | { kind: "fence"; fence: Fence }
  | { kind: "text"; lines: string[]; isParagraph: boolean; gap: boolean }
  | { kind: "item"; item: Item };

/** Blocks with an empty line around them even where the source has none. */
type Weight = "light" | "heading" | "heavy";

/**
 * The parts depend on the text alone, not on how it was cut in pieces. An item of a list, a line of fenced code and a
 * paragraph are parts; a table and a quote are one part each.
 */
export class MarkdownBlocks {
  #open: Open = { kind: "nothing" };
  #pieces: Piece[] = [];
  /** The line that has no end yet. */
  #line = "";
  #blankBefore = false;
  #before: Weight | null = null;

  push(text: string): void {
    if (!text.includes("\n")) {
      this.#line += text;
      return;
    }
    const lines = (this.#line + text).split("\n");
    this.#line = lines.pop() ?? "";
    for (const line of lines) this.#take(line.endsWith("\r") ? line.slice(0, -1) : line);
  }

  /** The parts that were finished since the last call. */
  take(): Piece[] {
    const pieces = this.#pieces;
    this.#pieces = [];
    return pieces;
  }

  end(): void {
    if (this.#line !== "") this.#take(this.#line);
    this.#line = "";
    this.#finish();
    this.#open = { kind: "nothing" };
  }

  /** The parts that the text would end with if it ended here. At most about `maxLength` characters of an open part. */
  rest(maxLength: number): Piece[] {
    const copy = new MarkdownBlocks();
    copy.#open = shortened(this.#open, maxLength);
    copy.#blankBefore = this.#blankBefore;
    copy.#before = this.#before;
    copy.#line =
      this.#open.kind === "fence" ? withoutFenceStart(this.#line) : shown(this.#line.slice(-maxLength));
    copy.end();
    const last = copy.#pieces.at(-1);
    if (last?.kind === "block") last.source = withEndedMarkup(last.source);
    return copy.#pieces;
  }

  #take(line: string): void {
    if (this.#open.kind === "fence") this.#code(line, this.#open.fence);
    else if (line.trim() === "") this.#blank();
    else if (this.#open.kind === "item") this.#inItem(line, this.#open.item);
    else if (this.#open.kind === "text" && !interrupts(line, this.#open.isParagraph))
      this.#open.lines.push(line);
    else {
      this.#finish();
      this.#start(line);
    }
  }

  #blank(): void {
    const open = this.#open;
    if (open.kind === "item") open.item.blanks++;
    else {
      this.#finish();
      this.#blankBefore = true;
    }
  }

  #code(line: string, fence: Fence): void {
    if (closes(line, fence)) this.#open = { kind: "nothing" };
    else this.#pieces.push({ kind: "code-line", text: withoutIndent(line, fence.indent) });
  }

  #inItem(line: string, item: Item): void {
    const indent = indentOf(line);
    if (indent >= item.content) {
      const content = withoutIndent(line, item.content);
      if (item.fence !== null) item.fence = closes(content, item.fence) ? null : item.fence;
      else if (item.type !== CODE) item.fence = fenceOf(content)?.fence ?? null;
      this.#add(line, item);
      return;
    }
    const takesText = item.type !== CODE && item.fence === null && item.blanks === 0;
    if (takesText && !interrupts(line, true) && markerOf(line) === null) return void this.#add(line, item);
    const gap = item.blanks > 0;
    this.#finish();
    const marker = isRule(line) ? null : markerOf(line);
    if (marker !== null && marker.type === item.type) {
      const number = item.number === null ? null : item.number + 1;
      this.#open = { kind: "item", item: newItem(line, marker, number, gap) };
      return;
    }
    this.#blankBefore = gap;
    this.#start(line);
  }

  #add(line: string, item: Item): void {
    for (; item.blanks > 0; item.blanks--) item.lines.push("");
    item.lines.push(line);
  }

  #start(line: string): void {
    const fence = fenceOf(line);
    if (fence !== null) {
      this.#pieces.push({ kind: "code", language: fence.language, gap: this.#gap("heavy") });
      this.#open = { kind: "fence", fence: fence.fence };
      return;
    }
    const marker = isRule(line) ? null : markerOf(line);
    if (marker !== null) {
      const gap = this.#gap("light");
      this.#open = { kind: "item", item: newItem(line, marker, marker.number, gap) };
    } else if (indentOf(line) >= 4) {
      const code = { type: CODE, number: null, content: 4 };
      this.#open = { kind: "item", item: newItem(line, code, null, this.#gap("heavy")) };
    } else if (isHeading(line)) {
      this.#pieces.push({ kind: "block", source: line, gap: this.#gap("heading") });
    } else if (isRule(line)) {
      this.#pieces.push({ kind: "block", source: line, gap: this.#gap("heavy") });
    } else {
      const isParagraph = !/^ {0,3}[<>]/.test(line);
      const gap = this.#gap(/^ {0,3}>/.test(line) ? "heavy" : "light");
      this.#open = { kind: "text", lines: [line], isParagraph, gap };
    }
  }

  /** Ends the open block. The next one decides whether an empty line comes between. */
  #finish(): void {
    const open = this.#open;
    if (open.kind === "fence" || open.kind === "nothing") return;
    this.#open = { kind: "nothing" };
    if (open.kind === "item") {
      const { lines, number, gap } = open.item;
      const source = lines.join("\n");
      this.#pieces.push({ kind: "block", source, gap, ...(number !== null && { number }) });
      return;
    }
    if (open.lines.some(isTableRule)) this.#before = "heavy";
    this.#pieces.push({ kind: "block", source: open.lines.join("\n"), gap: open.gap });
  }

  /** Whether an empty line comes before a block that begins now. */
  #gap(weight: Weight): boolean {
    const before = this.#before;
    const gap = before !== null && (this.#blankBefore || weight !== "light" || before === "heavy");
    this.#before = weight;
    this.#blankBefore = false;
    return gap;
  }
}

const CODE = "code";

function newItem(line: string, { type, content }: Marker, number: number | null, gap: boolean): Item {
  const fence = type === CODE ? null : (fenceOf(withoutIndent(line, content))?.fence ?? null);
  return { lines: [line], content, type, number, gap, fence, blanks: 0 };
}

interface Marker {
  type: string;
  number: number | null;
  content: number;
}

function markerOf(line: string): Marker | null {
  const [, indent = "", bullet, digits, delimiter, space = ""] =
    /^( {0,3})(?:([-*+])|(\d{1,9})([.)]))(\s+|$)/.exec(line) ?? [];
  const type = bullet ?? delimiter;
  if (type === undefined) return null;
  const width = indent.length + (bullet ?? `${digits}${delimiter}`).length;
  // Five spaces begin indented code, and an empty item has its text on the next line.
  const spaces =
    space.length > 4 || space.length === 0 || line.trim().length === width - indent.length ? 1 : space.length;
  return { type, number: digits === undefined ? null : Number(digits), content: width + spaces };
}

function fenceOf(line: string): { fence: Fence; language: string } | null {
  const [, indent = "", mark, info = ""] = /^( {0,3})(`{3,}|~{3,})(.*)$/.exec(line) ?? [];
  if (mark === undefined || (mark.startsWith("`") && info.includes("`"))) return null;
  const language = info.trim().split(/[\s{,]/)[0] ?? "";
  return { fence: { mark, indent: indent.length }, language };
}

function closes(line: string, { mark }: Fence): boolean {
  const found = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(line)?.[1];
  return found?.startsWith(mark) ?? false;
}

function isHeading(line: string): boolean {
  return /^ {0,3}#{1,6}(?:\s|$)/.test(line);
}

function isRule(line: string): boolean {
  return /^ {0,3}(?:(?:- *){3,}|(?:_ *){3,}|(?:\* *){3,})$/.test(line.trimEnd());
}

function isTableRule(line: string): boolean {
  return (
    /^ {0,3}\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?$/.test(line.trimEnd()) ||
    /^ {0,3}\| *:?-+:? *$/.test(line.trimEnd())
  );
}

/** Whether the line ends a paragraph without an empty line before it. */
function interrupts(line: string, isParagraph: boolean): boolean {
  if (!isParagraph) return false;
  if (isHeading(line) || fenceOf(line) !== null || /^ {0,3}>/.test(line)) return true;
  // Dashes below a paragraph make it a heading.
  if (isRule(line)) return !/^ {0,3}-+\s*$/.test(line);
  const marker = markerOf(line);
  if (marker === null) return false;
  return (marker.number === null || marker.number === 1) && !/^\s*\S+\s*$/.test(line);
}

function indentOf(line: string): number {
  let columns = 0;
  for (const char of line) {
    if (char === " ") columns++;
    else if (char === "\t") columns += 4 - (columns % 4);
    else break;
  }
  return columns;
}

function withoutIndent(line: string, columns: number): string {
  let at = 0;
  for (let used = 0; used < columns && at < line.length; at++) {
    if (line[at] === "\t") used += 4 - (used % 4);
    else if (line[at] === " ") used++;
    else if (columns > 3) used++;
    else break;
  }
  return line.slice(at);
}

/** The beginning of a line that may still become the mark of a block is not shown: it would flicker. */
function shown(line: string): string {
  return /^\s*(?:[-=*_+#>|]+|[`~]+\w*|\d{1,9}[.)]?|[-*+] \[[ xX]?)?\s*$/.test(line) ? "" : line;
}

/** Markup that has begun and not ended yet is ended, so that its marks are not shown until their end arrives. */
function withEndedMarkup(source: string): string {
  const at = source.lastIndexOf("\n\n") + 1;
  const text = source.slice(at);
  const count = (mark: RegExp, within: string) => within.match(mark)?.length ?? 0;
  if (count(/`/g, text) % 2 === 1)
    return /`\s*$/.test(text) ? source.replace(/`\s*$/, "") : `${source.trimEnd()}\``;
  const outside = text.replace(/`[^`]*`/g, "");
  const linked = source.replace(/!?\[([^\]\n]*)\]\([^)\s]*$/, "$1");
  if (count(/\*\*/g, outside) % 2 === 0) return linked;
  return /\*\*\s*$/.test(linked)
    ? linked.replace(/\*\*\s*$/, "")
    : `${linked.trimEnd().replace(/\*$/, "")}**`;
}

function withoutFenceStart(line: string): string {
  return line.length < 40 && /^ {0,3}[`~]+$/.test(line) ? "" : line;
}

function shortened(open: Open, maxLength: number): Open {
  if (open.kind === "text") return { ...open, lines: newest(open.lines, maxLength) };
  if (open.kind !== "item") return open;
  const { item } = open;
  const [first = "", ...rest] = item.lines;
  return { kind: "item", item: { ...item, lines: [first.slice(0, maxLength), ...newest(rest, maxLength)] } };
}

function newest(lines: readonly string[], maxLength: number): string[] {
  let length = 0;
  let from = lines.length;
  while (from > 0 && length <= maxLength) {
    from--;
    length += (lines[from]?.length ?? 0) + 1;
  }
  return lines.slice(from).map((line) => line.slice(-maxLength));
}
