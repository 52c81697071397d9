/** Colours, glyphs and line widths of the live view. */

import type { Io } from "../io.ts";
import { printable } from "../output/format.ts";
import { type TerminalStyle, terminalStyleOf } from "./terminal-style.ts";
import { fit, wrap } from "./width.ts";

export interface Look extends TerminalStyle {
  /** Paths below this folder are shown relative to it. */
  cwd: string;
}

export interface BlockSize {
  columns: number;
  /** Results and reasoning in full, as Ctrl+O shows them. */
  full?: boolean;
}

export function lookOf(io: Pick<Io, "env" | "stdout"> & Partial<Pick<Io, "cwd">>): Look {
  const style = terminalStyleOf(io);
  // A comma could be part of a command.
  const dot = io.env.RNIX_ASCII === "1" ? " - " : style.glyph.dot;
  return { ...style, glyph: { ...style.glyph, dot }, cwd: io.cwd ?? "" };
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
