/** Colours, glyphs and line widths of the live view. */

import type { Io } from "../io.ts";
import { printable } from "../output/format.ts";
import { type Style, styleOf } from "../output/style.ts";

export interface Look extends Style {
  italic(text: string): string;
  mark: Marks;
}

interface Marks {
  /** One per frame of the spinner. */
  spinner: readonly string[];
  done: string;
  failed: string;
  waiting: string;
  thought: string;
  /** Left of the lines that belong to the line above. */
  bar: string;
  branch: string;
  lastBranch: string;
  trunk: string;
  message: string;
  retry: string;
  ellipsis: string;
  rule: string;
}

/** What a block needs to become lines. */
export interface BlockSize {
  columns: number;
  /** Results and reasoning in full, as Ctrl+O shows them. */
  full?: boolean;
}

export function lookOf(io: Pick<Io, "env" | "stderr">): Look {
  const style = styleOf(io, io.stderr);
  const isPainted = style.bold("x") !== "x";
  const isAscii = io.env.RNIX_ASCII === "1";
  return {
    ...style,
    // A comma could be part of a command.
    glyph: isAscii ? { ...style.glyph, dot: " - " } : style.glyph,
    italic: (text) => (isPainted && text !== "" ? `\x1b[3m${text}\x1b[23m` : text),
    mark: isAscii ? ASCII : UNICODE,
  };
}

const UNICODE: Marks = {
  spinner: [..."⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"],
  done: "●",
  failed: "✖",
  waiting: "○",
  thought: "∴",
  bar: "│",
  branch: "├",
  lastBranch: "└",
  trunk: "│",
  message: "›",
  retry: "↻",
  ellipsis: "…",
  rule: "─",
};

const ASCII: Marks = {
  spinner: [..."|/-\\"],
  done: "*",
  failed: "x",
  waiting: "o",
  thought: "~",
  bar: "|",
  branch: "|-",
  lastBranch: "`-",
  trunk: "|",
  message: ">",
  retry: "!",
  ellipsis: "...",
  rule: "-",
};

/** The frame of the spinner at a time: ten a second. */
export function spinnerAt(look: Look, now: number): string {
  const { spinner } = look.mark;
  return spinner[Math.floor(now / 100) % spinner.length] ?? "";
}

/** Plain text cut to `width` columns, with an ellipsis where something is missing. */
export function cutTo(text: string, width: number, look: Look): string {
  if (width <= 0) return "";
  if (Bun.stringWidth(text) <= width) return text;
  const { ellipsis } = look.mark;
  return `${Bun.sliceAnsi(text, 0, Math.max(0, width - ellipsis.length)).trimEnd()}${ellipsis}`;
}

/** Plain text wrapped at words to lines of at most `width` columns; its own lines and their indent stay. */
export function wrapTo(text: string, width: number): string[] {
  const wrap = (line: string): string[] => {
    const wrapped = Bun.wrapAnsi(line, Math.max(1, width), { hard: true, wordWrap: true, trim: false });
    return wrapped.split("\n").map((part, i) => (i === 0 ? part : part.trimStart()).trimEnd());
  };
  return text.split("\n").flatMap(wrap);
}

/** Text of models and programs as lines: without control characters, tabs as spaces, no empty lines at its ends. */
export function plainLines(text: string): string[] {
  return printable(afterReturns(text))
    .replace(/\t/g, "    ")
    .replace(/^(?:[^\S\n]*\n)+|\s+$/g, "")
    .split("\n");
}

/** What a carriage return lets a terminal show of each line, such as the last state of a progress bar. */
function afterReturns(text: string): string {
  return text.includes("\r") ? text.replace(/\r+(?=\n|$)/g, "").replace(/^.*\r/gm, "") : text;
}
