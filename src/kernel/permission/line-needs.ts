/** What of a command line a person has to decide in the mode `outside`, and why. */

import { basename, dirname, join, resolve } from "node:path";
import { climbsBehind, realOrSame } from "../../lib/inner-path.ts";
import { MARK, namesIn, type SimpleCommand, type Word } from "../../shell/lexer.ts";
import type { CallView } from "./call-view.ts";
import { effectOf, type Reads } from "./harmless-commands.ts";
import { linksBelow } from "./links-below.ts";
import { settingThatActs } from "./repository-programs.ts";
import { isUnread, mayEvaluateCode, readOf } from "./shell-words.ts";
import {
  fileOf,
  handsNames,
  isComposed,
  linksListed,
  listBefore,
  MAX_COMMANDS,
  namesBelow,
  type Variables,
  variablesOf,
} from "./word-values.ts";

/** One reason to ask: a clause that follows "because". Only a rule for the whole tool answers one without a part. */
export interface Need {
  why: string;
  /** The command that may act. */
  command?: SimpleCommand;
  /** Where that may run; null: in any folder. */
  folders?: readonly string[] | null;
  /** The call of Read or Write that the line equals. */
  file?: CallView;
  /** The line only reads, and which file it reads is not known. */
  isRead?: boolean;
}

/** Returns why the file of this call of Read or Write has to be decided by a person; null when it has not. */
export type FileJudge = (file: CallView, access: "read" | "write") => string | null;

/** Variables that change only how programs print. */
const PRINTING = namesIn("CI NO_COLOR FORCE_COLOR CLICOLOR LANG LANGUAGE TZ COLUMNS LINES TERM");
/** Whether it sets a variable that may change what a program does. */
export function assignsMore({ assigned }: SimpleCommand): boolean {
  return assigned.some(({ form }) => !isPrinting(form.replace(/=.*/s, "")));
}

function isPrinting(name: string): boolean {
  return PRINTING.has(name) || /^LC_[A-Z]+$/.test(name);
}

/** Returns what is left to decide when nothing has been allowed: empty when the line only reads. */
export function needsOf(view: CallView, judge: FileJudge): Need[] {
  const line = view.commandLine;
  if (line === null) return [{ why: "the command line is not understood as a whole" }];
  if (mayEvaluateCode(line)) return [{ why: "the line may run what a variable holds" }];
  if (line.length > MAX_COMMANDS) return [{ why: `the line has more than ${MAX_COMMANDS} commands` }];
  const walk = new Walk(view, judge, variablesOf(line), line);
  return line.flatMap((command) => walk.step(command));
}

/** Whether all that the line runs only reads, so that git in it needs no program of the repository. */
export function isQuiet(line: readonly SimpleCommand[]): boolean {
  const variables = variablesOf(line);
  return line.every((command) => !("why" in effectOf(command, variables)));
}

/** Files that are the command's own streams. */
const INPUTS = namesIn("/dev/null /dev/stdin");
const OUTPUTS = namesIn("/dev/stdout /dev/stderr");

/** Git may be run by `xargs`, `timeout` and others. */
export function usesGit({ words }: SimpleCommand): boolean {
  return words.some(({ text }) => text === "git");
}

/** Goes through the commands of a line and follows the folder in which each of them runs. */
class Walk {
  readonly #view: CallView;
  readonly #judge: FileJudge;
  readonly #variables: Variables;
  readonly #line: readonly SimpleCommand[];
  /** All folders in which a command may run; null: any. */
  #folders: string[] | null;
  /** The one folder in which the next command runs, after `cd DIR &&`. */
  #here: string | null = null;
  #isQuiet: boolean | undefined;
  /** What was found below each folder. */
  readonly #linksIn = new Map<string, string[] | null>();

  constructor(view: CallView, judge: FileJudge, variables: Variables, line: readonly SimpleCommand[]) {
    this.#view = view;
    this.#judge = judge;
    this.#variables = variables;
    this.#line = line;
    const isAnywhere = line.some(({ compound, words: [first] }) =>
      first?.text === "cd" ? compound : /^(?:pushd|popd|chdir)$/.test(first?.text ?? ""),
    );
    this.#folders = isAnywhere ? null : [view.cwd];
  }

  step(command: SimpleCommand): Need[] {
    if (command.inner === 0 && command.after !== "&&") this.#here = null;
    const folders = this.#here !== null && command.inner === 0 ? [this.#here] : this.#folders;
    const needs = command.assigned.flatMap((word) => this.#assignment(word, command, folders));
    const effect = effectOf(command, this.#variables);
    const [program] = command.words;
    if ("why" in effect) needs.push({ why: effect.why, command, folders });
    else if (effect.takesNames && listBefore(this.#line, command) === null) {
      needs.push({ why: "`xargs` reads names that another program prints", command });
    } else {
      needs.push(...this.#reads(effect, folders, program?.text ?? "the line"));
      needs.push(...this.#links(effect, folders, command));
      if (needs.length === 0 && usesGit(command)) needs.push(...this.#repository(effect, folders, command));
      if (program?.text === "cd") this.#enter(command, folders);
    }
    // In `[[ … ]]` a pattern matches texts.
    if (needs.length === 0 && program?.text !== "[[")
      needs.push(...[...command.words, ...command.assigned].flatMap((word) => this.#names(word, folders)));
    for (const { word, access } of command.files)
      needs.push(...this.#file(word, access, folders, access === "read" ? "`<`" : "`>`"));
    return needs;
  }

  /** The shell lists the folder of a pattern, also for a program that reads no files: `echo /etc/*`. */
  #names(word: Word, folders: readonly string[] | null): Need[] {
    const value = { ...word, form: word.form.replace(/^[A-Za-z_]\w*\+?=/, "") };
    const isPattern =
      namesBelow(word) !== null && (word.form.includes(MARK.glob) || value.form !== word.form);
    // What is not known may be a pattern, too.
    if (!isPattern && !word.splits) return [];
    const file = isPattern ? fileOf(value, this.#variables) : ".";
    const dir = file !== null && isPattern && !value.form.includes(MARK.glob) ? dirname(file) : file;
    const from = folders ?? (dir?.startsWith("/") ? ["/"] : []);
    if (dir === null || climbsBehind(dir) || from.length === 0)
      return [{ why: "a pattern lists files that the line does not name", isRead: true }];
    for (const folder of from) {
      const view = this.#view.forFile("Read", dir, folder);
      const why = this.#judge(view, "read");
      const at = resolve(folder, dir);
      if (why !== null) return [{ why: `a pattern lists ${at}, ${why}`, file: view, isRead: true }];
    }
    return [];
  }

  #assignment(word: Word, command: SimpleCommand, folders: readonly string[] | null): Need[] {
    const name = /^([A-Za-z_][A-Za-z0-9_]*)\+?=/.exec(word.form)?.[1];
    if (name === undefined) return [{ why: "it sets an element of an array" }];
    if (name === "IFS" && readOf(command) !== null) return [];
    if (!isPrinting(name) && !isUnread(name)) return [{ why: `it sets the variable ${name}`, command }];
    // What it names may be read later.
    const names = namesBelow(word);
    const value = { ...word, form: word.form.slice(name.length + 1) };
    const dir = names && this.#variables.has(name) ? fileOf(value, this.#variables) : null;
    if (names === null && this.#variables.has(name) && !value.dynamic)
      return this.#file(value, "read", folders, "the line");
    if (names === null || dir === null) return [];
    return (folders ?? []).flatMap((folder) =>
      this.#linked(resolve(folder, dir), names, false, "the line", true),
    );
  }

  #reads({ files, folder }: Reads, folders: readonly string[] | null, program: string): Need[] {
    const start = folder ? fileOf(folder, this.#variables) : ".";
    const inside = start === null ? null : (folders?.map((dir) => resolve(dir, start)) ?? null);
    return files.flatMap((word) =>
      this.#file(word, "read", word === folder ? folders : inside, `\`${program}\``),
    );
  }

  /** Names that another program reads, and programs that read behind links, lead to files that are judged each. */
  #links(effect: Reads, folders: readonly string[] | null, command: SimpleCommand): Need[] {
    const isHanded = handsNames(this.#line, command);
    if (effect.follows === undefined && !isHanded) return [];
    const name = effect.follows ?? linksListed(command.words);
    const starts = effect.files.map((word) => fileOf(word, this.#variables) ?? ".");
    const dirs = starts.flatMap((start) => (folders ?? []).map((folder) => resolve(folder, start)));
    return dirs.flatMap((dir) =>
      this.#linked(dir, name === null ? [] : [name], true, `\`${command.words[0]?.text}\``),
    );
  }

  #linked(dir: string, names: readonly string[], deep: boolean, by: string, splits = deep): Need[] {
    const key = JSON.stringify([dir, names, deep, splits]);
    if (!this.#linksIn.has(key)) this.#linksIn.set(key, linksBelow(dir, names, deep, splits));
    const links = this.#linksIn.get(key) ?? null;
    if (links === null)
      return [{ why: `${by} reads names that may be options, or more than can be looked at`, isRead: true }];
    for (const link of links) {
      const file = this.#view.forFile("Read", link, dir);
      const why = this.#judge(file, "read");
      if (why !== null) return [{ why: `${by} reads behind the link ${link}, ${why}`, file, isRead: true }];
    }
    return [];
  }

  /** A repository may have come with the project, with the programs that its configuration names. */
  #repository({ folder }: Reads, folders: readonly string[] | null, command: SimpleCommand): Need[] {
    const start = folder ? (fileOf(folder, this.#variables) ?? ".") : ".";
    const isBare = folders?.some((dir) => {
      const { protection } = this.#view.forFile("Write", join(resolve(dir, start), "x"), dir);
      return protection !== null && protection.reader === "git";
    });
    if (isBare) return [{ why: "`git` would run what a bare repository names", command }];
    this.#isQuiet ??= isQuiet(this.#line);
    for (const dir of folders ?? []) {
      const setting = settingThatActs(resolve(dir, start), this.#isQuiet);
      if (setting) return [{ why: `\`git\` would follow ${setting} of the repository`, command }];
    }
    return [];
  }

  #file(word: Word, access: "read" | "write", folders: readonly string[] | null, by: string): Need[] {
    const file = fileOf(word, this.#variables);
    const isRead = access === "read";
    // A folder is no file to write, and the name of an option would be one where a pattern lists it.
    const isName = isRead || (!word.dynamic && !basename(word.text).startsWith("-"));
    const isKnown = file !== null && !climbsBehind(file) && isName && !/^~/.test(file);
    if (!isKnown || (folders === null && !file.startsWith("/")))
      return [{ why: `${by} ${access}s a file that the line does not name`, isRead }];
    if (access === "read" ? INPUTS.has(file) : OUTPUTS.has(file)) return [];
    const deep = isRead && isComposed(word);
    const names = deep ? ["*"] : isRead ? namesBelow(word) : null;
    for (const folder of folders ?? ["/"]) {
      const view = this.#view.forFile(access === "read" ? "Read" : "Write", file, folder);
      const why = this.#judge(view, access);
      const shown = file.startsWith(".") ? resolve(folder, file) : file;
      if (why !== null) return [{ why: `${by} ${access}s ${shown}, ${why}`, file: view, isRead }];
      const behind = names ? this.#linked(resolve(folder, file), names, deep, by) : [];
      if (behind.length > 0) return behind;
    }
    return [];
  }

  /** Follows `cd`: it may fail, or run in a subshell. */
  #enter({ words, inner, after }: SimpleCommand, folders: readonly string[] | null): void {
    if (inner > 0) return;
    const [target, ...more] = words.slice(1).filter(({ text }) => !/^-[PLe]$/.test(text));
    const dir = target && more.length === 0 && target.text !== "-" ? fileOf(target, this.#variables) : null;
    if (dir === null || climbsBehind(dir) || target?.dynamic || folders === null || this.#folders === null) {
      this.#folders = null;
      this.#here = null;
      return;
    }
    // A link leads `cd ..` and `cat ../file` to different folders.
    const entered = [
      ...new Set(folders.map((folder) => resolve(folder, dir)).flatMap((path) => [path, realOrSame(path)])),
    ];
    this.#folders = [...new Set([...this.#folders, ...entered])];
    const isCertain = !after.startsWith("|") && entered.length === 1;
    this.#here = isCertain ? (entered[0] ?? null) : null;
  }
}
