/** Colours, glyphs and links of the live view. */

import type { Io } from "../io.ts";
import { type Paint, painter, type Style, styleOf } from "../output/style.ts";
import { link } from "./safe-text.ts";

export interface TerminalStyle
  extends Style,
    Record<"italic" | "underline" | "strike" | "blue" | "magenta", Paint> {
  /** A link to an address that the caller has checked; the text alone where links are not shown. */
  link(text: string, address: string): string;
  mark: ReturnType<typeof marksOf>;
}

export function terminalStyleOf(io: Pick<Io, "env" | "stdout">): TerminalStyle {
  const { env } = io;
  const style = styleOf(io, io.stdout);
  const colour = style.bold("x") !== "x";
  const paint = painter(colour);
  const links = colour && env.RNIX_ASCII !== "1" && env.TERM !== "linux";
  return {
    ...style,
    italic: paint(3, 23),
    underline: paint(4, 24),
    strike: paint(9, 29),
    blue: paint(34, 39),
    magenta: paint(35, 39),
    link: (text, address) => (links ? link(text, address) : text),
    mark: marksOf(env.RNIX_ASCII !== "1"),
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
