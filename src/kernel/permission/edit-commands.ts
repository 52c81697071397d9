/** Shell commands that only change files of the project: the mode `edits` does not ask for them. */

import type { CallView } from "./call-view.ts";
import { isHarmlessScript } from "./harmless-commands.ts";
import { evaluatingBuiltin } from "./shell-builtins.ts";
import type { SimpleCommand } from "./shell-words.ts";

/** Programs with the letters of their known options. A recursive rm is asked for: it takes what no undo brings back. */
const EDITORS: ReadonlyMap<string, RegExp> = new Map([
  ["cp", /^-[aRrfpvn]+$/],
  ["mkdir", /^-[pv]+$/],
  ["mv", /^-[fvn]+$/],
  ["rm", /^-[fvd]+$/],
  ["rmdir", /^-[pv]+$/],
  ["sed", /^-(?:[nErsz]*i|[nErsz]+|-in-place)$/],
  ["touch", /^-[acm]+$/],
]);

/** Commands after which relative paths mean other files. */
const MOVERS: ReadonlySet<string> = new Set(["cd", "pushd", "popd", "chdir"]);

export function changesFolder(line: readonly SimpleCommand[]): boolean {
  return line.some(({ words: [first] }) => first && (first.dynamic || MOVERS.has(first.text)));
}

/** Returns true when each word is known, and each path is below the project's folder and not protected. */
export function isEdit(command: SimpleCommand, view: CallView): boolean {
  if (command.assigns || evaluatingBuiltin(command) !== null) return false;
  const [first, ...args] = command.words;
  const options = first === undefined || first.dynamic ? undefined : EDITORS.get(first.text);
  if (options === undefined) return false;
  const operands = args.filter(({ text }) => !text.startsWith("-"));
  const isKnown = args.every((word) => !word.dynamic && (operands.includes(word) || options.test(word.text)));
  const [script, ...files] = operands;
  const isSed = first?.text === "sed";
  if (isSed && (script === undefined || !isHarmlessScript("sed", script.text))) return false;
  const paths = isSed ? files : operands;
  return isKnown && paths.length > 0 && paths.every(({ text }) => view.isFileOfProject(text));
}
