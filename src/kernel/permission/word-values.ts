/** What the words of a command line may become: files, options, the values of its variables. */

import { beginsAsOption, isExpanded, MARK, type SimpleCommand, type Word } from "../../shell/lexer.ts";
import { readOf } from "./shell-words.ts";

const NAME = `${MARK.variable}([^${MARK.variable}]*)${MARK.variable}`;
const LISTED = `${MARK.substitution}(\\d+)${MARK.substitution}`;
const VARIABLE = new RegExp(NAME, "g");
const SUBSTITUTION = new RegExp(LISTED, "g");
const EITHER = new RegExp(`${NAME}|${LISTED}`, "g");
const FIRST = new RegExp(EITHER, "");
/** A variable that may be empty, so that what follows it begins the word. */
const BEFORE_ROOT = new RegExp(`^(?:${NAME}|${LISTED})+/`);
const WHOLE = new RegExp(`^${NAME}$`);
const ALONE = new RegExp(`^${NAME}(?=[A-Za-z0-9_.]|$)`);
/** Names below the folder: all of them, and those that can't be taken for an option. */
const NAMES = `${MARK.glob}*`;
const NO_OPTIONS = `x${NAMES}`;
/** The same if the shell makes exactly one word of the value. */
const ONE_WORD = `xx${NAMES}`;
const SEVERAL = new RegExp(`[${MARK.variable}${MARK.substitution}${MARK.unknown}]`);

/** The variables that a line sets to names of files below its folder. */
export type Variables = ReadonlyMap<string, string>;

/** A command may run again with what later ones set, so what is known only shrinks until nothing changes. */
export function variablesOf(line: readonly SimpleCommand[]): Variables {
  if (line.length > MAX_COMMANDS) return new Map();
  const known = new Map<string, string>();
  const unknown = new Set<string>();
  for (let pass = 0, before = ""; pass < MAX_PASSES; pass++) {
    addAssigned(line, known, unknown);
    addRead(line, known, unknown);
    for (const name of unknown) known.delete(name);
    const after = [...known, ...unknown].join();
    if (after === before) return known;
    before = after;
  }
  return new Map();
}

const MAX_PASSES = 8;
/** A longer line takes too long to be judged. */
export const MAX_COMMANDS = 500;

function addAssigned(line: readonly SimpleCommand[], known: Map<string, string>, unknown: Set<string>): void {
  for (const word of line.flatMap(({ assigned }) => assigned)) {
    const [, name = "", plus, value = ""] = /^([A-Za-z_][A-Za-z0-9_]*)(\+?)=(.*)$/s.exec(word.form) ?? [];
    const form = resolved({ ...word, form: value }, known);
    if (plus || /\s/.test(form) || form.startsWith("/") || folderOf(form) === null) unknown.add(name);
    const before = known.get(name);
    // A name that is an option is asked for where a pattern lists it.
    const isListed = beginsAsName(form) && !value.startsWith(MARK.variable);
    const isNamed = isListed || (form !== "" && !beginsAsOption(form));
    const isNoOption = isNamed && before !== NAMES;
    const isOne = isNoOption && !isExpanded(form) && !/[*?[\\]/.test(form) && before !== NO_OPTIONS;
    if (!unknown.has(name)) known.set(name, isOne ? ONE_WORD : isNoOption ? NO_OPTIONS : NAMES);
  }
}

function addRead(line: readonly SimpleCommand[], known: Map<string, string>, unknown: Set<string>): void {
  for (const command of line) {
    const { names, isWhole } = readOf(command) ?? { names: [], isWhole: false };
    const list = isWhole ? listBefore(line, command) : null;
    for (const name of names) {
      const isNoOption = names.length === 1 && list !== null && beginsWithFolder(list);
      if (list === null) unknown.add(name);
      else known.set(name, isNoOption && known.get(name) !== NAMES ? NO_OPTIONS : NAMES);
    }
  }
}

/** The commands before it in its pipe, when they print only names of files; else null. */
export function listBefore(
  all: readonly SimpleCommand[],
  command: SimpleCommand,
): readonly SimpleCommand[] | null {
  const line = all.filter(({ inner }) => inner === command.inner);
  const end = line.indexOf(command);
  let first = end;
  while (line[first]?.after === "|") first--;
  const list = line.slice(first, end);
  return isListing(list) ? list : null;
}

/** Whether it prints names of files to the words of a command, to `xargs` or to `read`. */
export function handsNames(all: readonly SimpleCommand[], command: SimpleCommand): boolean {
  if (!isListing([command])) return false;
  const line = all.filter(({ inner }) => inner === command.inner);
  const start = line.indexOf(command);
  let end = start + 1;
  while (line[end]?.after === "|") end++;
  const [, ...others] = line.slice(start, end);
  const takes = others.some(({ words }) => words.some(({ text }) => text === "xargs" || text === "read"));
  return takes || (command.inner > 0 && isListing([command, ...others]));
}

/** Whether each name begins with the folder in which `find` looks. */
function beginsWithFolder([first]: readonly SimpleCommand[]): boolean {
  const [program, folder] = first?.words ?? [];
  return program?.text === "find" && folder !== undefined && !beginsAsOption(folder.form);
}

/** Whether it may begin with `-`. */
export function mayBeOption(word: Word, variables: Variables): boolean {
  const name = ALONE.exec(word.form)?.[1];
  if (name !== undefined) return (variables.get(name) ?? NAMES) === NAMES;
  return beginsAsOption(word.form);
}

/** Whether it becomes names of files of which none is an option: a pattern, which begins with one or with itself, or a variable. */
export function isNames({ form }: Word, variables: Variables): boolean {
  const name = WHOLE.exec(form)?.[1];
  return name === undefined ? beginsAsName(form) : (variables.get(name) ?? NAMES) !== NAMES;
}

/** Braces may begin with anything. */
function beginsAsName(form: string): boolean {
  return form.startsWith(MARK.glob) && /[*?[]/.test(form[1] ?? "");
}

/** Whether the shell may make several words of it, each of any beginning: by more than a pattern of file names. */
export function maySplit({ form, splits }: Word, variables: Variables): boolean {
  const isOne = (name: string): boolean => variables.get(name) === ONE_WORD;
  return splits && SEVERAL.test(form.replace(VARIABLE, (all, name: string) => (isOne(name) ? "" : all)));
}

/** The file that the word names, or the folder of the files that it may name; null when it may be any. */
export function fileOf(word: Word, variables: Variables): string | null {
  const form = resolved(word, variables);
  return form.includes(MARK.glob) ? folderOf(form) : form.includes(MARK.unknown) ? null : form;
}

/** The names on each level below its folder that the form may become; null for one without a pattern. */
export function namesBelow({ form }: Word): string[] | null {
  const value = form.replace(/^[A-Za-z_]\w*\+?=/, "");
  const plain = value.replaceAll(MARK.glob, "");
  if (!/[*?[{]/.test(plain)) return null;
  const parts = plain.split("/").slice((fileHead(value).match(/\//g) ?? []).length);
  return plain.includes("{") || SEVERAL.test(value) ? parts.map(() => "*") : parts;
}

/** Whether variables or lists of names are a part of the word. */
export function isComposed({ form }: Word): boolean {
  return SEVERAL.test(form) && form.replace(FIRST, "") !== "";
}

function fileHead(form: string): string {
  const at = form.indexOf(MARK.glob);
  const head = at < 0 ? form : form.slice(0, at);
  return head.slice(0, head.lastIndexOf("/") + 1);
}

/** The folder of all files that the form may become. */
function folderOf(form: string): string | null {
  if (form.includes(MARK.unknown)) return null;
  const plain = form.replaceAll(MARK.glob, "");
  if (/(?:^|[/{,])\.\.(?:[/},]|$)/.test(plain) || /(?:^|\/)\.[*?[{]/.test(plain)) return null;
  if (/^[^/]*\{(?:[^}]*,)?[/~]/.test(plain) || /[{,]-/.test(plain)) return null;
  return fileHead(form) || ".";
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

/** By program: options with which it prints nothing but the names of files below its operands. */
const LISTS: readonly (readonly [command: RegExp, options: RegExp])[] = [
  [/^ls\n?/, /^-[1ARrtSUdh]+$/],
  [/^find\n?/, /^-(?!printf|exec|ls$)/],
  [/^fd(?:find)?\n/, /^-/],
  [
    /^rg\n(?=(?:.*\n)*(?:-l|--files)(?:\n|$))/,
    /^(?:-[lniwFPsSuv.gtT]|--(?:files|hidden|no-ignore|i?glob=.*|type=.*))$/,
  ],
  [/^grep\n(?=(?:.*\n)*-\w*l)/, /^(?:-[rRinwEFPsvIle]+|--(?:include|exclude|exclude-dir)=.*)$/],
  [/^git\nls-files\n?/, /^(?:-[cdmo]+|--(?:cached|others|modified|deleted|exclude-standard))$/],
  [/^git\ndiff\n--name-only(?=(?:\n--.*)*$)/, /^--(?:cached|staged|diff-filter=.*)$/],
];
/** What prints some of its lines, whole: no operand is a file. */
const FILTERS =
  /^(?:grep(?:\n-[viEFPwx]+)*(?:\n-e)?\n[^\n-][^\n]*|sort(?:\n-[rnuV]+)*|uniq|(?:head|tail)(?:\n-n?\n?\+?\d+)?)$/;

/** Whether the commands print only names of files below the folders that they read. */
export function isListing(commands: readonly SimpleCommand[]): boolean {
  const [first, ...filters] = commands;
  return (
    first !== undefined &&
    isList(first) &&
    filters.every(
      ({ words, after }) =>
        after === "|" && words.every(({ dynamic }) => !dynamic) && FILTERS.test(joined(words)),
    )
  );
}

function isList({ words }: SimpleCommand): boolean {
  if (words.some(({ form }) => SEVERAL.test(form))) return false;
  const text = joined(words);
  const [command, options] = LISTS.find(([known]) => known.test(text)) ?? [];
  const rest = text.slice(command?.exec(text)?.[0].length ?? 0);
  return options !== undefined && rest.split("\n").every((arg) => !arg.startsWith("-") || options.test(arg));
}

function joined(words: readonly { text: string }[]): string {
  return words.map(({ text }) => text).join("\n");
}

/** Tests of `find` with one value, which may stand before one that names what is found. */
const TESTS = /^-(?:type|i?name|i?path|maxdepth|mindepth|size|[mca](?:time|min)|newer|perm|user|group)$/;

/** The name of the links that a list may hold: `*` for any, null for none. */
export function linksListed(words: readonly Word[]): string | null {
  const [program] = words;
  if (/^(?:rg|grep)$/.test(program?.text ?? "")) return null;
  const isPlain = program?.text === "find" && !words.some(({ text }) => /^(?:-o|-or|-not|[!,])$/.test(text));
  if (!isPlain) return "*";
  const before = new Map<string, string>();
  // What follows another word may be its value, and a test behind an action does not limit what that gets.
  for (
    let at = words.findIndex(({ form }) => form.startsWith("-"));
    TESTS.test(words[at]?.text ?? "");
    at += 2
  )
    before.set(words[at]?.text ?? "", words[at + 1]?.dynamic ? "*" : (words[at + 1]?.text ?? "*"));
  return before.get("-type") === "f" ? null : (before.get("-name") ?? "*");
}
