/** Colours, glyphs and links of the live view. */

import type { Io } from "../io.ts";
import { type Style, styleOf } from "../output/style.ts";
import { link } from "./safe-text.ts";

export interface TerminalStyle extends Style {
  italic(text: string): string;
  underline(text: string): string;
  strike(text: string): string;
  blue(text: string): string;
  magenta(text: string): string;
  /** A link to an address that the caller has checked; the text alone where links are not shown. */
  link(text: string, address: string): string;
  /** Links are shown as links. */
  links: boolean;
  box: Box;
}

/** Lines and marks that only Unicode has, and what stands for them. */
export interface Box {
  line: string;
  heavyLine: string;
  bar: string;
  cross: string;
  crossTop: string;
  crossBottom: string;
  bullets: readonly string[];
  done: string;
  open: string;
  quote: string;
  ellipsis: string;
}

export function terminalStyleOf(io: Pick<Io, "env" | "stdout">): TerminalStyle {
  const { env } = io;
  const style = styleOf(io, io.stdout);
  const colour = style.bold("x") !== "x";
  const paint = (on: number, off: number) => (text: string) =>
    colour && text !== "" ? `\u001b[${on}m${text}\u001b[${off}m` : text;
  const links = colour && env.RNIX_ASCII !== "1" && env.TERM !== "linux";
  return {
    ...style,
    italic: paint(3, 23),
    underline: paint(4, 24),
    strike: paint(9, 29),
    blue: paint(34, 39),
    magenta: paint(35, 39),
    links,
    link: (text, address) => (links ? link(text, address) : text),
    box: env.RNIX_ASCII === "1" ? ASCII : UNICODE,
  };
}

const UNICODE: Box = {
  line: "─",
  heavyLine: "━",
  bar: "│",
  cross: "┼",
  crossTop: "┬",
  crossBottom: "┴",
  bullets: ["•", "◦", "▪"],
  done: "☑",
  open: "☐",
  quote: "▎",
  ellipsis: "…",
};

const ASCII: Box = {
  line: "-",
  heavyLine: "=",
  bar: "|",
  cross: "+",
  crossTop: "+",
  crossBottom: "+",
  bullets: ["*", "-", "+"],
  done: "[x]",
  open: "[ ]",
  quote: ">",
  ellipsis: "...",
};
