/** Shell commands that only change files of the project: the mode `edits` does not ask for them. */

import { lstatSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { beginsAsOption, MARK, namesIn, type Word } from "../../shell/lexer.ts";
import type { CallView } from "./call-view.ts";
import { sweepingOption } from "./command-kinds.ts";
import { isHarmlessScript } from "./harmless-commands.ts";
import { linksBelow } from "./links-below.ts";
import type { Rule } from "./rule.ts";
import { evaluatingBuiltin } from "./shell-builtins.ts";
import type { SimpleCommand } from "./shell-words.ts";
import { fileOf } from "./word-values.ts";

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
  if (!isKnown || paths.length === 0 || !paths.every(({ text }) => view.isFileOfProject(text))) return false;
  const moved = /^(?:mv|cp)$/.test(first?.text ?? "") ? paths.slice(0, -1) : [];
  return !moved.some(({ text }) => holdsLinks(resolve(view.cwd, text)));
}

/** Programs whose operands are files that they change. */
const FILE_PROGRAMS = namesIn("rm rmdir mv cp ln touch mkdir chmod chown tee truncate shred unlink find");

/**
 * Whether a rule of an "always" covers the files that the command changes in each of these folders: those of the project,
 * unless the rule itself names a path from the root. `-r` of `rm` must be in the rule, too.
 */
export function coversFiles(
  rule: Rule,
  { words: [first, ...args] }: SimpleCommand,
  folders: readonly string[] | null,
  view: CallView,
): boolean {
  const program = basename(first?.text ?? "");
  if (program === "xargs") return !args.some(({ text }) => FILE_PROGRAMS.has(basename(text)));
  if (!FILE_PROGRAMS.has(program) || / \//.test(rule.text)) return true;
  const sweeping = sweepingOption(program, args);
  if (sweeping && !rule.text.split(/[ ()]/).some((word) => sweeping.test(word))) return false;
  return args.every((word) =>
    /^-/.test(word.form)
      ? /^--?[\w-]*$/.test(word.form)
      : folders?.every((folder) => isOfProject(word, program, view.forFile("Write", "", folder))),
  );
}

/** A pattern may name files of one folder. Only `rm` has no option with a path, which a file's name could be. */
function isOfProject(word: Word, program: string, view: CallView): boolean {
  const { form } = word;
  const isNames = form.includes(MARK.glob) && !form.includes("/", form.indexOf(MARK.glob));
  const folder = isNames && (program === "rm" || !beginsAsOption(form)) ? fileOf(word, new Map()) : null;
  const path = word.dynamic ? folder && join(folder, "x") : word.text;
  if (path === null || !view.isFileOfProject(path)) return false;
  return !/^(?:mv|cp)$/.test(program) || !holdsLinks(resolve(view.cwd, word.dynamic ? dirname(path) : path));
}

/** In another folder, a relative link leads elsewhere. */
function holdsLinks(path: string): boolean {
  const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink();
  return isLink === true || linksBelow(path, ["*"], true)?.length !== 0;
}
