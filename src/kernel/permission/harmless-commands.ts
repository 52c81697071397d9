/** What one simple command does, as far as its words show: the files that it reads, or why it may do more. */

import {
  beginsAsOption,
  isExpanded,
  MARK,
  namesIn,
  type SimpleCommand,
  type Word,
} from "../../shell/lexer.ts";
import { whyOf } from "./command-kinds.ts";
import { harmlessProgram, isVersionOnly, type Program, type Value } from "./harmless-programs.ts";
import { evaluatingBuiltin, mayEvaluateCode, parseCommandLine, readOf, writesFile } from "./shell-words.ts";
import { isNames, linksListed, mayBeOption, maySplit, type Variables } from "./word-values.ts";

/** Files that a command reads. `lists`: it prints only names of them. */
export interface Reads {
  files: readonly Word[];
  /** The folder in which it runs (`git -C`). */
  folder?: Word;
  /** The command takes the output of the command before it as file names, as `xargs` does. */
  takesNames?: true;
  /** The command follows links below its folders: those whose names match this pattern. */
  follows?: string;
}

/** Why a command may do more than read: a clause that follows "because". */
export interface MayAct {
  why: string;
}

/** Returns what the command reads when it does nothing else. */
export function effectOf(command: SimpleCommand, variables: Variables): Reads | MayAct {
  const { words } = command;
  if (readOf(command) !== null) return { files: [] };
  const evaluating = evaluatingBuiltin(command);
  if (evaluating !== null) return { why: `the shell's \`${evaluating}\` may run what its arguments say` };
  const [first] = words;
  if (first === undefined) return { files: [] };
  if (first.dynamic) return { why: "the name of a program comes from an expansion" };
  if (first.text === "git") return gitEffect(words, variables);
  const found = harmlessProgram(words.slice(0, 2).map(({ text, dynamic }) => (dynamic ? null : text)));
  if (!found) return { why: whyOf(words) };
  return programEffect(found.program, found.name, words.slice(found.length), variables);
}

/** Whether the command does nothing but read, by its words alone. */
export function isHarmless(command: SimpleCommand): boolean {
  return !("why" in effectOf(command, new Map()));
}

/** Whether the commands of a line do nothing but read, wherever it runs and whatever its variables hold. */
export function onlyReads(line: string): boolean {
  const commands = parseCommandLine(line);
  if (commands === null || mayEvaluateCode(commands)) return false;
  return commands.every((command) => {
    const effect = effectOf(command, new Map());
    return !command.assigns && !writesFile(command) && !("why" in effect) && !effect.takesNames;
  });
}

/** Git's own options before the subcommand. */
const GIT_OPTIONS = namesIn("--no-pager --no-optional-locks -P");

function gitEffect([, ...args]: readonly Word[], variables: Variables): Reads | MayAct {
  let folder: Word | undefined;
  let at = 0;
  for (; args[at]?.text.startsWith("-") && !args[at]?.dynamic; at++) {
    const option = args[at]?.text ?? "";
    if (option === "-C" && args[at + 1]?.dynamic)
      return { why: "`git -C` may enter any repository by a folder that the shell expands" };
    if (option === "-C" && folder === undefined) folder = args[++at];
    else if (!GIT_OPTIONS.has(option)) break;
  }
  const texts = ["git", ...args.slice(at, at + 2).map(({ text, dynamic }) => (dynamic ? null : text))];
  const found = harmlessProgram(texts);
  if (!found) return { why: whyOf([wordOf("git"), ...args.slice(at)]) };
  const effect = programEffect(found.program, found.name, args.slice(at + found.length - 1), variables);
  if ("why" in effect) return effect;
  const files = [...effect.files.filter((file) => file !== HERE), folder ?? HERE];
  return folder ? { files, folder } : { files };
}

/** A program of the table with these arguments. */
function programEffect(
  program: Program,
  name: string,
  args: readonly Word[],
  variables: Variables,
): Reads | MayAct {
  const { operands, most } = program;
  if (operands === "find") return findEffect(program, args, variables);
  const read = readArguments(program, args, variables, operands === "wrapped" || operands === "xargs");
  const isBare = args.length === 0 && program.words.size > 0;
  if (isVersionOnly(program) && (isBare || "option" in read || read.rest.length > 0))
    return { why: whyOf([wordOf(name), ...args]) };
  if ("option" in read && read.option === null)
    return { why: `an argument of \`${name}\` that the shell expands may be an option` };
  if ("option" in read) return { why: `\`${read.option}\` of \`${name}\` is not known to be harmless` };
  const { rest, files, scripts, isPlain } = read;
  if (operands === "wrapped") {
    const inner = rest.slice(Number.isFinite(most) ? most : 0);
    // `command cd` changes the folder of the shell itself, where the next commands run.
    if (inner[0]?.text === "cd") return { why: `\`${name} cd\` may change the folder` };
    return effectOf(commandOf(inner), variables);
  }
  if (operands === "xargs") {
    if (scripts.some(({ form }) => !/^(?:\{\}|[%@+_A-Za-z0-9]+)$/.test(form)))
      return { why: "`xargs -I` may replace any text" };
    const named = scripts.reduce(
      (words, { text }) => words.map((word) => withNames(word, text, NAMES)),
      rest,
    );
    const inner = effectOf(commandOf([...named, NAMES]), variables);
    return "why" in inner
      ? inner
      : { ...inner, files: inner.files.filter((file) => file !== NAMES), takesNames: true };
  }
  if (rest.length > most) return { why: `\`${name}\` with these operands may change something` };
  if (name === "date" && rest.some(({ form }) => !form.startsWith("+")))
    return { why: "`date` may set the clock" };
  if (name === "git config" && !isOfRepository(args))
    return { why: "`git config` may read your own configuration, outside the project" };
  if (
    name === "ps" &&
    (rest.some(({ form }) => !/^[aufxwlj0-9]+$/.test(form)) ||
      args.some(({ form }) => isExpanded(form) || /env/i.test(form)))
  )
    return { why: "`ps` may print the variables of other programs" };
  if (operands === "text" || operands === "cd") return { files };
  const follows = read.follows ? { follows: "*" } : {};
  if (operands === "files") return { files: [...files, ...(rest.length > 0 ? rest : [HERE])], ...follows };
  const script = scripts.length > 0 || !isPlain ? undefined : rest[0];
  const texts = script ? [...scripts, script] : scripts;
  if (operands !== "pattern") {
    const unknown = texts.find(({ text, dynamic }) => dynamic || !isHarmlessScript(operands, text));
    if (unknown || texts.length === 0)
      return { why: `a script of \`${name}\` may write files or run programs` };
  }
  if (script && maySplit(script, variables))
    return { why: `the pattern of \`${name}\` may become the name of a file` };
  if (name === "jq" && (scripts.length > 0 || !(isPlain ? rest.slice(0, 1) : args).every(isPlainFilter)))
    return { why: "a filter of `jq` may read other files" };
  const named = script ? rest.slice(1) : rest;
  return { files: [...files, ...(named.length > 0 ? named : [HERE])], ...follows };
}

interface Arguments {
  /** Operands. */
  rest: Word[];
  /** Values of options that are files. */
  files: Word[];
  /** Values of options that are the pattern or script. */
  scripts: Word[];
  /** Every option is known, so that the first operand is known. */
  isPlain: boolean;
  /** The command follows links. */
  follows: boolean;
}

/** Takes options apart. `stops`: the first operand ends them. Returns an option that is not known, or null for an expansion. */
function readArguments(
  { operands, short, words, anyOption, most }: Program,
  args: readonly Word[],
  variables: Variables,
  stops: boolean,
): Arguments | { option: string | null } {
  const read: Arguments = { rest: [], files: [], scripts: [], isPlain: true, follows: false };
  let ended = false;
  let split = false;
  const left = [...args];
  for (let arg = left.shift(); arg; arg = left.shift()) {
    const { form } = arg;
    // A name that is an option is asked for where a pattern or a list names it.
    const isOperand = operands === "files" && !Number.isFinite(most) && isNames(arg, variables);
    const isKnown = anyOption || isOperand;
    if ((!isKnown && maySplit(arg, variables)) || isSeveralOptions(arg)) return { option: null };
    if (ended || form === "-" || !mayBeOption(arg, variables)) {
      read.rest.push(arg);
      ended ||= stops;
    } else if (form === "--") {
      ended = true;
    } else if (!form.startsWith("-")) {
      if (!isKnown) return { option: null };
      read.rest.push(arg);
      read.isPlain = false;
    } else {
      // Some programs take an option after the last operand for a file.
      if (Number.isFinite(most) && read.rest.length > 0) return { option: form };
      const [, name = "", value] = /^(--[^=]*)(?:=(.*))?$/s.exec(form) ?? [];
      const isWord = name !== "" || (short.size === 0 && words.size > 0);
      const problem = isWord
        ? takeWord(words.get(name || form), name || form, value)
        : takeLetters(form.slice(1));
      if (problem !== null || split) return { option: problem };
    }
  }
  return read;

  function take(kind: Value, value: Word | undefined): void {
    if (value === undefined) return;
    // What follows the first of several words is an operand or an option.
    split ||= value.splits && (value.form.includes(MARK.glob) || maySplit(value, variables));
    // Its names may be split anywhere, so that they name other files.
    split ||= kind === "~" && !/^(?:\\[n0]|\n)$/.test(value.text);
    if (kind === "@") read.files.push(value);
    if (kind === "@" || kind === "!") read.scripts.push(value);
  }

  function takeWord(kind: Value | undefined, name: string, value: string | undefined): string | null {
    if (kind === undefined) {
      if (!anyOption) return name;
      read.isPlain = false;
      read.follows ||= [...words].some(([known, its]) => its === "#" && known.startsWith(name));
      if (value !== undefined) read.files.push(wordOf(value));
      return null;
    }
    if (kind === "^") read.scripts.push(wordOf(name));
    if (kind === "%" && !(name === "--sort" ? SORT_KEY.test(value ?? "") : isHarmlessFormat(value)))
      return name;
    if (kind === "" && value !== undefined) return name;
    if (kind === "#") read.follows = true;
    if (kind === ":" || kind === "@" || kind === "!" || kind === "~")
      take(kind, value === undefined ? left.shift() : wordOf(value));
    return null;
  }

  function takeLetters(letters: string): string | null {
    for (const [i, letter] of [...letters].entries()) {
      const kind = short.get(letter);
      const rest = letters.slice(i + 1);
      if (kind === undefined) {
        if (!anyOption) return `-${letter}`;
        // An unknown option may have a file as its value.
        if (/[/.]/.test(rest)) read.files.push(wordOf(rest));
      } else if (kind === "?") return null;
      else if (kind === "#") read.follows = true;
      else if (kind !== "") {
        take(kind, rest === "" ? left.shift() : wordOf(rest));
        return null;
      }
    }
    return null;
  }
}

/** What git sorts by; it asks a program to check a signature. */
const SORT_KEY =
  /^-?(?:refname|objectname|objectsize|objecttype|(?:author|committer|tagger|creator)date|v(?:ersion)?:refname)$/;

/** A format of git that asks for no signature, which a program checks, and is no name that a repository can define. */
function isHarmlessFormat(format: string | undefined): boolean {
  if (format === undefined) return false;
  if (/%[-+ ]?G|signature/i.test(format)) return false;
  return /%/.test(format) || /^(?:oneline|short|medium|full|fuller|reference|raw|email)$/.test(format);
}

/** Scripts that only print or replace, as far as they are this simple. */
export function isHarmlessScript(program: "sed" | "awk", script: string): boolean {
  if (program === "sed") return script.split(";").every((part) => SED.test(part.trim())) || SED.test(script);
  if (
    /[|<>@`\\]/.test(script.replaceAll(/"(?:[^"\\]|\\[nt"])*"/g, (text) => (/[|<>@`]/.test(text) ? "|" : "")))
  )
    return false;
  const called = [...script.matchAll(/([A-Za-z_]\w*)\s*\(/g)].map(([, name = ""]) => name);
  return (
    called.every((name) => AWK.has(name)) &&
    !/\b(?:ARGV|ARGC|getline|system|SYMTAB|include|load|extension)\b/.test(script)
  );
}

/** Brackets with a delimiter in them have two readings: programs differ in where the pattern ends. */
const sedPattern = (delimiter: string): string =>
  `(?:(?!${delimiter})[^\\\\\\n[]|\\\\[^\\n]|\\[\\^?\\]?(?:\\[:[a-z]+:\\]|(?!${delimiter})[^\\]\\n\\\\[]|\\\\(?!${delimiter})[^\\]\\n[])*\\])*`;
const SED_ADDRESS = `(?:\\d+|\\$|/${sedPattern("/")}/)`;
const SED = new RegExp(
  `^(?:${SED_ADDRESS}(?:,${SED_ADDRESS})?\\s*)?(?:[pdq=]|s([/|#,])${sedPattern("\\1")}\\1(?:(?!\\1)[^\\\\\\n]|\\\\[^\\n])*\\1[gpiI0-9]*)$`,
);
const AWK = namesIn(
  "print printf if for while length substr index split tolower toupper int sprintf gsub sub match",
);

/** Of your own configuration, only these keys are known to hold no secret. */
const OPEN_KEY =
  /^(?:user\.(?:name|email)|remote\.[^.]+\.url|(?:branch|core|init|merge|pull|push|rebase)\.[\w.-]+)$/i;

/** Whether `git config` prints the configuration of the repository, or a key that is known to hold no secret. */
function isOfRepository(args: readonly Word[]): boolean {
  const [first, key, ...more] = args.map(({ text, dynamic }) => (dynamic ? "" : text));
  if (args.some(({ text }) => /^--(?:local|worktree)$/.test(text))) return true;
  return /^--get(?:-all)?$/.test(first ?? "") && OPEN_KEY.test(key ?? "") && more.length === 0;
}

/** Of several options, the last one may take the next word. */
function isSeveralOptions({ form, splits }: Word): boolean {
  return splits && form.startsWith("-") && !/^--[a-z-]+=/.test(form);
}

/** `import`, `include` and `modulemeta` of a filter of jq read files. */
function isPlainFilter({ text, dynamic }: Word): boolean {
  return !dynamic && !/import|include|modulemeta/.test(text);
}

function findEffect(program: Program, args: readonly Word[], variables: Variables): Reads | MayAct {
  const first = args.findIndex((arg) => /^[-(!]/.test(arg.form));
  const at = first < 0 ? args.length : first;
  const files = args.slice(0, at);
  if (files.some((arg) => mayBeOption(arg, variables) || arg.splits))
    return { why: "`find` with an argument that the shell expands may run programs" };
  const rest = args.slice(at);
  const follows = rest.some(({ text }) => text === "-exec") ? linksListed([wordOf("find"), ...rest]) : null;
  for (let i = 0; i < rest.length; i++) {
    const { form } = rest[i] ?? NAMES;
    if (form === "-exec") {
      const end = rest.findIndex((arg, j) => j > i && (arg.form === ";" || arg.form === "+"));
      const inner = rest.slice(i + 1, end).map((arg) => withNames(arg, "{}", FOUND));
      const effect = end < 0 ? { why: "`find -exec` has no end" } : effectOf(commandOf(inner), variables);
      if ("why" in effect) return effect;
      files.push(...effect.files.filter((file) => file !== FOUND));
      i = end;
    } else if (maySplit(rest[i] ?? NAMES, variables) || (beginsAsOption(form) && !program.words.has(form))) {
      const what = form.startsWith("-") ? `\`${form}\`` : "an argument that the shell expands";
      return { why: `${what} of \`find\` is not known to be harmless` };
    }
  }
  return { files: files.length > 0 ? files : [HERE], ...(follows !== null && { follows }) };
}

/** The word with the names of files in place of this text. */
function withNames(word: Word, text: string, names: Word): Word {
  if (!word.form.includes(text)) return word;
  if (word.form === text) return names;
  return { ...names, form: word.form.replaceAll(text, names.form) };
}

/** The folder in which it runs. */
const HERE = wordOf(".");
/** Names of files that another program lists. */
const NAMES: Word = { text: "", dynamic: true, splits: true, form: `${MARK.glob}*` };

/** The names that `find` prints: they begin with its folder. */
const FOUND: Word = { ...NAMES, form: `./${MARK.glob}*` };

function commandOf(words: Word[]): SimpleCommand {
  return { words, assigns: false, assigned: [], files: [], after: ";", inner: 0, compound: false };
}

function wordOf(form: string): Word {
  return { text: form, dynamic: isExpanded(form), splits: false, form };
}
