/** Colours and glyphs of plain output. */

import type { Io, Output } from "../io.ts";

/** Colours and glyphs for one output: plain text unless it is a terminal. */
export interface Style extends Record<"bold" | "dim" | "red" | "green" | "yellow" | "cyan", Paint> {
  glyph: ReturnType<typeof glyphsOf>;
}

export type Paint = (text: string) => string;

export function styleOf(io: Pick<Io, "env">, output: Pick<Output, "isTTY">): Style {
  const { env } = io;
  const paint = painter(output.isTTY && !env.NO_COLOR && env.TERM !== "dumb");
  return {
    bold: paint(1, 22),
    dim: paint(2, 22),
    red: paint(31, 39),
    green: paint(32, 39),
    yellow: paint(33, 39),
    cyan: paint(36, 39),
    glyph: glyphsOf(output.isTTY && env.RNIX_ASCII !== "1"),
  };
}

/** Makes a style of the codes that turn it on and off; without colours the text stays as it is. */
export function painter(colour: boolean): (on: number, off: number) => Paint {
  return (on, off) => (text) => (colour && text !== "" ? `\x1b[${on}m${text}\x1b[${off}m` : text);
}

function glyphsOf(unicode: boolean) {
  const either = (glyph: string, ascii: string): string => (unicode ? glyph : ascii);
  return {
    ok: either("✔", "ok"),
    failed: either("✖", "FAILED"),
    note: either("•", "note"),
    step: either("●", "*"),
    tool: either("→", ">"),
    dot: either(" · ", ", "),
    prompt: either("❯", ">"),
    branch: either("├─ ", "|- "),
    lastBranch: either("└─ ", "`- "),
    trunk: either("│  ", "|  "),
  };
}
