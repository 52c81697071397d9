/** Colours and glyphs of plain output. */

import type { Io, Output } from "../io.ts";

/** Colours and glyphs for one output: plain text unless it is a terminal. */
export interface Style {
  bold(text: string): string;
  dim(text: string): string;
  red(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  cyan(text: string): string;
  glyph: Glyphs;
}

interface Glyphs {
  ok: string;
  failed: string;
  note: string;
  step: string;
  tool: string;
  dot: string;
  prompt: string;
  branch: string;
  lastBranch: string;
  trunk: string;
}

export function styleOf(io: Pick<Io, "env">, output: Pick<Output, "isTTY">): Style {
  const { env } = io;
  const colour = output.isTTY && !env.NO_COLOR && env.TERM !== "dumb";
  const paint = (on: number, off: number) => (text: string) =>
    colour && text !== "" ? `\x1b[${on}m${text}\x1b[${off}m` : text;
  return {
    bold: paint(1, 22),
    dim: paint(2, 22),
    red: paint(31, 39),
    green: paint(32, 39),
    yellow: paint(33, 39),
    cyan: paint(36, 39),
    glyph: output.isTTY && env.RNIX_ASCII !== "1" ? UNICODE : ASCII,
  };
}

const UNICODE: Glyphs = {
  ok: "✔",
  failed: "✖",
  note: "•",
  step: "●",
  tool: "→",
  dot: " · ",
  prompt: "❯",
  branch: "├─ ",
  lastBranch: "└─ ",
  trunk: "│  ",
};

const ASCII: Glyphs = {
  ok: "ok",
  failed: "FAILED",
  note: "note",
  step: "*",
  tool: ">",
  dot: ", ",
  prompt: ">",
  branch: "|- ",
  lastBranch: "`- ",
  trunk: "|  ",
};
