/** What the words of a command line may become: files, options, the values of its variables. */

import { beginsAsOption, MARK, namesIn, type SimpleCommand, type Word } from "./shell-lexer.ts";

const NAME = `${MARK.variable}([^${MARK.variable}]*)${MARK.variable}`;
const LISTED = `${MARK.substitution}(\\d+)${MARK.substitution}`;
const VARIABLE = new RegExp(NAME, "g");
const SUBSTITUTION = new RegExp(LISTED, "g");
const EITHER = new RegExp(`${NAME}|${LISTED}`, "g");
/** A variable that may be empty, so that what follows it begins the word. */
const BEFORE_ROOT = new RegExp(`^(?:${NAME}|${LISTED})+/`);
const ALONE = new RegExp(`^${NAME}(?=[A-Za-z0-9_.]|$)`);
/** Names below the folder: all of them, and those that can't be taken for an option. */
const NAMES = `${MARK.glob}*`;
const NO_OPTIONS = `x${NAMES}`;

/** The variables that a line sets to names of files below its folder. */
export type Variables = ReadonlyMap<string, string>;

export function variablesOf(line: readonly SimpleCommand[]): Variables {
  const known = new Map<string, string>();
  const unknown = new Set<string>();
  for (const word of line.flatMap(({ assigned }) => assigned)) {
    const [, name = "", plus, value = ""] = /^([A-Za-z_][A-Za-z0-9_]*)(\+?)=(.*)$/s.exec(word.form) ?? [];
    const form = resolved({ ...word, form: value }, known);
    if (plus || /\s/.test(form) || form.startsWith("/") || folderOf(form) === null) unknown.add(name);
    const isNoOption = form !== "" && !beginsAsOption(form) && known.get(name) !== NAMES;
    known.set(name, isNoOption ? NO_OPTIONS : NAMES);
  }
  for (const name of unknown) known.delete(name);
  return known;
}

/** Whether it may begin with `-`. */
export function mayBeOption(word: Word, variables: Variables): boolean {
  const name = ALONE.exec(word.form)?.[1];
  if (name !== undefined) return variables.get(name) !== NO_OPTIONS;
  return beginsAsOption(word.form);
}

/** The file that the word names, or the folder of the files that it may name; null when it may be any. */
export function fileOf(word: Word, variables: Variables): string | null {
  const form = resolved(word, variables);
  return form.includes(MARK.glob) ? folderOf(form) : form.includes(MARK.unknown) ? null : form;
}

/** The folder of all files that the form may become. */
function folderOf(form: string): string | null {
  if (form.includes(MARK.unknown)) return null;
  const at = form.indexOf(MARK.glob);
  const plain = form.replaceAll(MARK.glob, "");
  if (/(?:^|[/{,])\.\.(?:[/},]|$)/.test(plain) || (at >= 0 && /(?:^|\/)\.[*?[{]/.test(plain))) return null;
  if (/^[^/]*\{(?:[^}]*,)?[/~]/.test(plain) || /[{,]-/.test(plain)) return null;
  const head = at < 0 ? form : form.slice(0, at);
  return head.slice(0, head.lastIndexOf("/") + 1) || ".";
}

function resolved({ form, runs = [] }: Word, variables: Variables): string {
  if (BEFORE_ROOT.test(form) || form.split("/").some(mayLeadUp)) return MARK.unknown;
  return form
    .replace(VARIABLE, (_, name: string) => variables.get(name) ?? MARK.unknown)
    .replace(SUBSTITUTION, (_, index: string) =>
      isListing(runs[Number(index)] ?? []) ? NAMES : MARK.unknown,
    );
}

/** Whether variables may make `..` of a part of a path, or hide an alternative in braces. */
function mayLeadUp(part: string): boolean {
  const count = part.match(EITHER)?.length ?? 0;
  const rest = part.replace(EITHER, "");
  if (count === 0) return false;
  return rest === "" ? count > 1 : /^\.*$/.test(rest) || /[{,]/.test(rest);
}

const LISTS =
  /^(?:ls|find|fd|rg (?:-l|--files)|grep -[rRinwEFPsvI]*l[rRinwEFPsvI]*|git ls-files|git diff --name-only)(?: |$)/;
const FILTERS = namesIn("grep sort head tail uniq");
/** Options that print something else than the names of files. */
const PRINTS = /^(?:-printf|-exec|-ls$|--label|--format)/;
const CUTS = /^(?:-[a-zA-Z]*[oc]|--only|--bytes)/;

/** Whether the commands print only names of files below the folders that they read. */
export function isListing(commands: readonly SimpleCommand[]): boolean {
  return (
    commands.length > 0 &&
    commands.every(({ words, after }, i) => {
      const texts = words.map(({ text }) => text);
      if (texts.some((text) => PRINTS.test(text))) return false;
      if (i === 0) return LISTS.test(texts.join(" "));
      return after === "|" && FILTERS.has(texts[0] ?? "") && !texts.some((text) => CUTS.test(text));
    })
  );
}
