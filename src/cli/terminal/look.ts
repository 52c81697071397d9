/** Colours, glyphs and line widths of the live view. */

import type { Io } from "../io.ts";
import { printable } from "../output/format.ts";
import { type Paint, painter, type Style, styleOf } from "../output/style.ts";
import { link } from "./safe-text.ts";
import { fit, wrap } from "./width.ts";

export interface Look extends Style, Record<"italic" | "underline" | "strike" | "blue" | "magenta", Paint> {
  /** A link to an address that the caller has checked; the text alone where links are not shown. */
  link(text: string, address: string): string;
  mark: ReturnType<typeof marksOf>;
  /** Paths below this folder are shown relative to it. */
  cwd: string;
}

export interface BlockSize {
  columns: number;
  /** Results and reasoning in full, as Ctrl+O shows them. */
  full?: boolean;
}

export function lookOf(io: Pick<Io, "env" | "stdout"> & Partial<Pick<Io, "cwd">>): Look {
  const { env, stdout, cwd = "" } = io;
  const style = styleOf(io, stdout);
  const colour = style.bold("x") !== "x";
  const paint = painter(colour);
  const isAscii = env.RNIX_ASCII === "1";
  const links = colour && !isAscii && env.TERM !== "linux";
  return {
    ...style,
    italic: paint(3, 23),
    underline: paint(4, 24),
    strike: paint(9, 29),
    blue: paint(34, 39),
    magenta: paint(35, 39),
    link: (text, address) => (links ? link(text, address) : text),
    mark: marksOf(!isAscii),
    // A comma could be part of a command.
    glyph: { ...style.glyph, dot: isAscii ? " - " : style.glyph.dot },
    cwd,
  };
}

/** Characters that only Unicode has, and what stands for them with `RNIX_ASCII=1`. */
function marksOf(unicode: boolean) {
  const either = (mark: string, ascii: string): string => (unicode ? mark : ascii);
  return {
    /** One per frame of the spinner. */
    spinner: [...either("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\")],
    done: either("●", "*"),
    failed: either("✖", "x"),
    waiting: either("○", "o"),
    thought: either("∴", "~"),
    /** Left of the lines that belong to the line above, and between the columns of a table. */
    bar: either("│", "|"),
    branch: either("├", "|-"),
    lastBranch: either("└", "`-"),
    message: either("›", ">"),
    ellipsis: either("…", "..."),
    rule: either("─", "-"),
    cross: either("┼", "+"),
    bullets: [...either("•◦▪", "*-+")],
    checked: either("☑", "[x]"),
    unchecked: either("☐", "[ ]"),
    quote: either("▎", ">"),
  };
}

/** The frame of the spinner at a time: ten a second. */
export function spinnerAt(look: Look, now: number): string {
  const { spinner } = look.mark;
  return spinner[Math.floor(now / 100) % spinner.length] ?? "";
}

/** Text cut to `width` columns, with an ellipsis where something is missing. */
export function cutTo(text: string, width: number, look: Look): string {
  return fit(text, width, look.mark.ellipsis);
}

/** Text wrapped at words to lines of at most `width` columns; its own lines and their indent stay. */
export function wrapTo(text: string, width: number): string[] {
  const lines = text.replace(/\t/g, "    ").split("\n");
  return lines.flatMap((line) => wrap(line, Math.max(2, width)));
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
