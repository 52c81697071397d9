/** Prints what a command answers. */

import { EXIT } from "../exit.ts";
import type { Io } from "../io.ts";
import { inertJson } from "./pipeline-text.ts";
import { type Style, styleOf } from "./style.ts";

/** Prints an answer on stdout, with --json as JSON. Returns the exit code of success. */
export function print(
  io: Io,
  { json }: { json: boolean },
  answer: unknown,
  text: (style: Style) => string,
): number {
  io.stdout.write(json ? jsonText(answer) : text(styleOf(io, io.stdout)));
  return EXIT.ok;
}

export function jsonText(value: unknown): string {
  return `${inertJson(value, 2)}\n`;
}
