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
  mark: Marks;
}

/** Characters that only Unicode has, and what stands for them with `RNIX_ASCII=1`. */
interface Marks {
  /** One per frame of the spinner. */
  spinner: readonly string[];
  done: string;
  failed: string;
  waiting: string;
  thought: string;
  /** Left of the lines that belong to the line above, and between the columns of a table. */
  bar: string;
  branch: string;
  lastBranch: string;
  message: string;
  ellipsis: string;
  rule: string;
  cross: string;
  bullets: readonly string[];
  checked: string;
  unchecked: string;
  quote: string;
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
    link: (text, address) => (links ? link(text, address) : text),
    mark: env.RNIX_ASCII === "1" ? ASCII : UNICODE,
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
  message: "›",
  ellipsis: "…",
  rule: "─",
  cross: "┼",
  bullets: ["•", "◦", "▪"],
  checked: "☑",
  unchecked: "☐",
  quote: "▎",
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
  message: ">",
  ellipsis: "...",
  rule: "-",
  cross: "+",
  bullets: ["*", "-", "+"],
  checked: "[x]",
  unchecked: "[ ]",
  quote: ">",
};
