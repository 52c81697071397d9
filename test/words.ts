/** The word list of `npm run check`: retired phrases in names, comments and messages of sources, in documents and in help. */

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dir, "..");

/** Retired phrases, with the words to use (docs/glossary.md). Only phrases without a plain meaning are listed. */
const RETIRED: readonly [RegExp, string][] = [
  [/\bwho(?:m)?ever\b/, "a named subject: the caller, the user, the model, the daemon"],
  [/\b(?:no|some|any|every)body(?:'s)?\b/, "a named subject: the caller, the user, the model, the daemon"],
  [/\b(?:go|goes|gone|going|went) on with\b/, "resume, continue"],
  [/\b(?:lay|lays|laid|laying) down\b/, "suspend"],
  [/\bcomes? to rest\b/, "stop, suspend"],
  [/\btold\b/, "notify (the model), emit (events), log (the daemon), print (the command)"],
  [/\bso many\b|\bbeyond these\b/, "at most N, up to N, more than N"],
  [/\bso long(?= as\b|[,.;:])/, "while, for N ms"],
  [/\bthose (?:that are|who)\b/, "the noun: the runs that …"],
  [/\bkeyless\b/, "redacted"],
  [/\benvelopes?\b/, "budget"],
  [/\b(?:in|into|at|out of) (?:\w+ )?sight\b/, "visible"],
  [/\b(?:let|lets|letting) go\b/, "release"],
  [/\banew\b/, "again"],
  [/\bmade again\b/, "repeated (a call), retried (a change), rebuilt (an index)"],
];

/** Files that people and models read. */
const READ = ["{src,plugins}/**/*.ts", "*.{ts,md}", "{docs,bench}/*.md", "{agents,skills}/**/*.{md,yaml}"];

/** Tests and benchmarks. */
const TESTS = ["test/{kernel,store,os,config,plugin,vfs,lib,support}/**/*.ts", "bench/**/*.ts"];

/** Returns a line for each retired phrase in the name and the text of a file. */
export function retiredIn(file: string, content: string): string[] {
  const text = file.endsWith(".ts") ? joined(content) : content;
  return RETIRED.flatMap(([phrase, instead]) => {
    const pattern = new RegExp(phrase.source.replaceAll(" ", "\\s+"), "gi");
    const inName = file.replaceAll("-", " ").match(pattern)
      ? [`${file}: its name has a retired word: say ${instead}.`]
      : [];
    const inText = [...text.matchAll(pattern)].map(({ 0: found, index }) => {
      const lines = text.slice(0, index).split("\n");
      const at = `${lines.length}:${(lines.at(-1)?.length ?? 0) + 1}`;
      return `${file}:${at}: "${found.replaceAll(/\s+/g, " ")}" is retired: say ${instead}.`;
    });
    return [...inName, ...inText];
  });
}

/** Replaces the stars and slashes of comments by spaces, so that phrases are found over line breaks. */
function joined(text: string): string {
  return text.replaceAll(/^\s*(?:\*|\/\/)/gm, (begin) => begin.replaceAll(/[*/]/g, " "));
}

if (import.meta.main) {
  const files = [...READ, ...TESTS].flatMap((glob) => [...new Bun.Glob(glob).scanSync(ROOT)].sort());
  const problems = files.flatMap((file) => retiredIn(file, readFileSync(join(ROOT, file), "utf8")));
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  if (problems.length > 0) process.exitCode = 1;
}
