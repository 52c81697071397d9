/** Answers a shell's completion script: `rnix __complete WORD…`. */

import { EXIT } from "../exit.ts";
import type { Io } from "../io.ts";
import { candidates } from "./candidates.ts";
import { valuesOf } from "./values.ts";

/** Stands for the files and folders of the shell. */
const FILES = ":files";

/** Prints each candidate with a tab and its meaning, and `:files` where files fit. */
export async function answerCompletion(io: Io, words: readonly string[]): Promise<number> {
  const { words: found, files } = await candidates(words, (kind, typed) => valuesOf(io, kind, typed));
  const lines = found.map(({ word, about }) => `${word}\t${about.replace(/\s+/g, " ")}\n`);
  io.stdout.write(`${lines.join("")}${files ? `${FILES}\n` : ""}`);
  return EXIT.ok;
}
