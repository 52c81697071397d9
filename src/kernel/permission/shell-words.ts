/** Parses a shell command line into simple commands, and says which of them may evaluate their words as code. */

import {
  Lexer,
  MARK,
  NotUnderstood,
  namesIn,
  type SimpleCommand,
  type Substitute,
  type Word,
} from "../../shell/lexer.ts";

export type { SimpleCommand } from "../../shell/lexer.ts";

const MAX_LINE = 100_000;
const MAX_DEPTH = 100;

/**
 * Returns all simple commands of a line, or null when some part is not supported. It must find every command that any
 * POSIX shell would run, those of command substitutions included, which follow the command that they are part of.
 * Supported are lists, pipes, groups, loops, `if`, here-documents, and `${…}` with plain text. `case`, functions,
 * process substitution and arithmetic with names are not.
 */
export function parseCommandLine(line: string): SimpleCommand[] | null {
  if (line.length > MAX_LINE || hasControl(line)) return null;
  let depth = 0;
  /** Parses a list of commands up to this token: the line, or a substitution in it. */
  const parse: Substitute = (lexer, end) => {
    if (depth++ > MAX_DEPTH) throw new NotUnderstood();
    const commands = new Parser(lexer, end).parse();
    lexer.finish();
    depth--;
    return commands;
  };
  try {
    return parse(new Lexer(line, parse), "end").flatMap(withInner);
  } catch (thrown) {
    if (thrown instanceof NotUnderstood) return null;
    throw thrown;
  }
}

/** Control characters. Only tab and newline belong in a command line; the others hide its content. */
function hasControl(line: string): boolean {
  for (let i = 0; i < line.length; i++) {
    const unit = line.charCodeAt(i);
    if ((unit < 0x20 && unit !== 0x09 && unit !== 0x0a) || unit === 0x7f) return true;
  }
  return false;
}

/** The command, and behind it those of its substitutions. */
function withInner(command: SimpleCommand): SimpleCommand[] {
  const words = [...command.words, ...command.assigned, ...command.files.map(({ word }) => word)];
  const inner = words.flatMap(({ runs = [] }) => runs.flat().flatMap(withInner));
  return [command, ...inner.map((part) => ({ ...part, inner: part.inner + 1 }))];
}

/** Words of compound commands that are not supported, where a command's name is expected. */
const UNSUPPORTED = new Set("case esac select function coproc in ]]".split(" "));

/** An open group: a bracket, or the last word of a compound command. */
type Group = "(" | "{" | "if" | "then" | "else" | "loop" | "do";

/** Words that open, continue or close a compound command: the group that must be open before, and the one after. */
const KEYWORDS: ReadonlyMap<string, { from: readonly (Group | null)[]; to: Group | null }> = new Map([
  ["{", { from: [null], to: "{" }],
  ["}", { from: ["{"], to: null }],
  ["if", { from: [null], to: "if" }],
  ["then", { from: ["if"], to: "then" }],
  ["elif", { from: ["then"], to: "if" }],
  ["else", { from: ["then"], to: "else" }],
  ["fi", { from: ["then", "else"], to: null }],
  ["while", { from: [null], to: "loop" }],
  ["until", { from: [null], to: "loop" }],
  ["do", { from: ["loop"], to: "do" }],
  ["done", { from: ["do"], to: null }],
]);

class Parser {
  readonly #lexer: Lexer;
  readonly #end: "close" | "end";
  readonly #commands: SimpleCommand[] = [];
  readonly #open: Group[] = [];
  #after = ";";

  constructor(lexer: Lexer, end: "close" | "end") {
    this.#lexer = lexer;
    this.#end = end;
  }

  parse(): SimpleCommand[] {
    while (this.#command()) {
      // Each call reads one command and the separator after it.
    }
    if (this.#open.length > 0) throw new NotUnderstood();
    return this.#commands;
  }

  /** Reads up to and with the next separator. False at the end of the line or the substitution. */
  #command(): boolean {
    let command = this.#fresh();
    /** After `)`, `}`, `done`, `fi` or `&>`: only redirections may follow. */
    let closed = false;
    for (;;) {
      const token = this.#lexer.next();
      switch (token.kind) {
        case "end":
          if (this.#end !== "end") throw new NotUnderstood();
          this.#finish(command);
          return false;
        case "separator":
          this.#finish(command);
          // After `||` and `|`, a newline is none.
          if (token.operator === "\n" && isEmpty(command) && !closed) return true;
          // Of a group it is not known which of its commands prints, and whether it ran to its end.
          if (!closed) this.#after = token.operator;
          else this.#after = token.operator.startsWith("|") ? "||" : ";";
          return true;
        case "open":
          if (!isEmpty(command) || closed) throw new NotUnderstood();
          this.#enter("(");
          break;
        case "close":
          this.#finish(command);
          if (this.#open.length === 0 && this.#end === "close") return false;
          if (this.#open.pop() !== "(") throw new NotUnderstood();
          command = this.#fresh();
          closed = true;
          break;
        case "redirect":
          this.#redirect(command, token.operator);
          break;
        case "text":
          command.compound = true;
          command.hasInput = true;
          break;
        case "both":
          // A word after the file belongs to this command in bash, and is a command in dash.
          closed = true;
          break;
        case "word":
          if (closed) throw new NotUnderstood();
          if (command.words.length > 0) command.words.push(token.word);
          else if (token.assignment) {
            command.assigns = true;
            command.assigned.push(token.word);
          } else if (token.quoted || command.assigns) {
            if (!token.quoted && (KEYWORDS.has(token.word.text) || UNSUPPORTED.has(token.word.text)))
              throw new NotUnderstood();
            command.words.push(token.word);
          } else closed = this.#first(command, token.word);
          break;
      }
    }
  }

  #fresh(): SimpleCommand {
    const compound = this.#open.some((group) => group !== "(" && group !== "{");
    return { words: [], assigns: false, assigned: [], files: [], after: this.#after, inner: 0, compound };
  }

  /** Reads an unquoted word where a command's name is expected. Returns true when it closed a group. */
  #first(command: SimpleCommand, word: Word): boolean {
    const { text, dynamic } = word;
    // It negates the exit status: what follows runs where the command has failed.
    if (text === "!" && !dynamic) {
      command.after = "||";
      return false;
    }
    const keyword = dynamic ? undefined : KEYWORDS.get(text);
    if (keyword) {
      if (!isEmpty(command)) throw new NotUnderstood();
      if (!keyword.from.includes(null)) {
        const open = this.#open.pop();
        if (!keyword.from.some((group) => group === open)) throw new NotUnderstood();
      }
      if (keyword.to === null) return true;
      this.#enter(keyword.to);
      command.compound ||= keyword.to !== "{";
      return false;
    }
    if (text === "for" && !dynamic) {
      if (!isEmpty(command)) throw new NotUnderstood();
      this.#for();
      command.compound = true;
      return false;
    }
    if (UNSUPPORTED.has(text)) throw new NotUnderstood();
    command.words.push(word);
    return false;
  }

  /** Reads `NAME in WORDS;` of a loop. Its variable counts as an assignment of each word. */
  #for(): void {
    const name = this.#lexer.next();
    if (name.kind !== "word" || name.quoted || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name.word.form))
      throw new NotUnderstood();
    const loop = { ...this.#fresh(), assigns: true, compound: true };
    const word = this.#lexer.next();
    if (word.kind !== "word" || word.quoted || word.word.form !== "in") throw new NotUnderstood();
    for (;;) {
      const token = this.#lexer.next();
      if (token.kind === "separator" && (token.operator === ";" || token.operator === "\n")) break;
      if (token.kind !== "word") throw new NotUnderstood();
      const { text, form } = token.word;
      const [before, after] = [`${name.word.text}=${text}`, `${name.word.text}=${form}`];
      loop.assigned.push({ ...token.word, text: before, form: after });
    }
    this.#commands.push(loop);
    this.#after = ";";
    this.#enter("loop");
  }

  #redirect(command: SimpleCommand, operator: string): void {
    const target = this.#lexer.next();
    if (target.kind !== "word") throw new NotUnderstood();
    const { text, dynamic } = target.word;
    if (operator.startsWith("<")) command.hasInput = true;
    if (/^\/dev\/(?:tcp|udp)\b/.test(text)) throw new NotUnderstood(); // bash opens a connection.
    const known = !dynamic && !target.quoted;
    if (known && text === "/dev/null") return;
    const duplicates = operator === ">&" || operator === "<&";
    if (duplicates && known && /^(?:[0-9]+|-)$/.test(text)) return;
    if (duplicates && (dynamic || /[$`]/.test(text))) throw new NotUnderstood(); // bash expands it twice, quoted or not.
    command.files.push({ word: target.word, access: operator === "<" ? "read" : "write" });
  }

  #finish(command: SimpleCommand): void {
    const [first] = command.words;
    // After a group, it is the input of all commands in the group.
    if (command.hasInput && first === undefined) for (const inside of this.#commands) inside.hasInput = true;
    // To a shell without `[[`, what is not plain words is something else.
    if (first?.form === "[[" && (command.words.at(-1)?.form !== "]]" || command.files.length > 0))
      throw new NotUnderstood();
    if (!isEmpty(command)) this.#commands.push(command);
  }

  #enter(group: Group): void {
    this.#open.push(group);
    if (this.#open.length > MAX_DEPTH) throw new NotUnderstood();
  }
}

function isEmpty({ words, assigns, files }: SimpleCommand): boolean {
  return words.length === 0 && !assigns && files.length === 0;
}

export function readsFile({ files }: SimpleCommand): boolean {
  return files.some(({ access }) => access === "read");
}

export function writesFile({ files }: SimpleCommand): boolean {
  return files.some(({ access }) => access === "write");
}

/** Whether the shell runs commands for its text. */
export function hasSubstitution({ words, assigned, files }: SimpleCommand): boolean {
  return [...words, ...assigned, ...files.map(({ word }) => word)].some(({ runs }) => runs !== undefined);
}

/** A `read` that only sets variables that no program reads. */
interface ShellRead {
  names: readonly string[];
  /** A value is a whole line, or words of it. */
  isWhole: boolean;
}

const PLACEHOLDERS = namesIn(
  `FOO BAR BAZ VAR NAME VALUE FILE FILES DIR NUM COUNT TOTAL SUM INDEX LINE DATE NOW TODAY MSG MESSAGE TEXT KEY VERSION TAG
  BRANCH COMMIT HASH SHA RESULT STATUS CODE OUT OUTPUT START END REPLY`,
);
/** Names in lower case that shells and other programs read. */
const LOWER = namesIn(
  "auto_resume histchars http_proxy https_proxy ftp_proxy all_proxy no_proxy path cdpath fpath manpath mailpath",
);

/** Whether no shell and no program reads a variable of this name. */
export function isUnread(name: string): boolean {
  return (PLACEHOLDERS.has(name) || /^(?:[A-Z][0-9]?|[a-z_][a-z0-9_]*)$/.test(name)) && !LOWER.has(name);
}

/** Returns null for another command, and for a `read` whose options or names are not known to be harmless. */
export function readOf({ words, assigned, hasInput }: SimpleCommand): ShellRead | null {
  const [first, ...args] = words;
  if (first?.text !== "read" || args.some(({ splits }) => splits)) return null;
  if (assigned.some(({ form }) => !form.startsWith("IFS="))) return null;
  let isWhole = !hasInput && assigned.every(({ form }) => form === "IFS=");
  while (args[0]?.form.startsWith("-")) {
    const option = args.shift()?.form ?? "";
    if (option === "--") break;
    const [, letter, inWord] = OPTION.exec(option) ?? [];
    if (letter === undefined) {
      if (!/^-[rs]+$/.test(option)) return null;
      continue;
    }
    const value = inWord || args.shift()?.form;
    if (value === undefined || (NUMBERED.test(letter) && !/^[\d.]+$/.test(value))) return null;
    // The names of `find -print0`; any other delimiter parts a name.
    isWhole &&= letter === "p" || (letter === "d" && value === "");
  }
  const names = args.map(({ form }) => form);
  return names.every(isUnread) ? { names: names.length > 0 ? names : ["REPLY"], isWhole } : null;
}

const OPTION = /^-[rs]*([dnNptu])(.*)$/s;
const NUMBERED = /[nNtu]/;

/** All builtins of bash and dash, and the additional ones of other POSIX shells. Any other name is a program. */
const BUILTINS = namesIn(
  `. : [ [[ alias bg bind break builtin caller cd chdir command compgen complete compopt continue declare dirs disown echo
  enable eval exec exit export false fc fg float getopts hash help history integer jobs kill let local logout mapfile
  nameref popd print printf pushd pwd read readarray readonly repeat return set shift shopt source suspend test times
  trap true type typeset ulimit umask unalias unset wait whence`,
);

/** Builtins that take every argument as plain text. */
const PLAIN = namesIn(": cd dirs echo false kill popd pushd pwd true type");
/** Builtins that are plain only with decimal numbers: some shells evaluate anything else as arithmetic. */
const NUMERIC = namesIn("break continue exit return shift wait");

/** Operators of `test` that compare texts or check files. `-v`, `-R` and arithmetic ones evaluate names. */
const UNARY = namesIn("-a -b -c -d -e -f -g -h -k -n -p -r -s -u -w -x -z -G -L -N -O -S");
const BINARY = namesIn("= == != =~ < > -ef -nt -ot");

const NUMBERS = namesIn("-eq -ne -lt -le -gt -ge");
const NUMBER = new RegExp(`^[0-9${MARK.number}]+$`);

/**
 * Returns the builtin that may evaluate an argument of this command as code, or null. An argument that the shell expands
 * counts as dangerous where it could become an option or an operator.
 */
export function evaluatingBuiltin({ words }: SimpleCommand): string | null {
  const [first, ...args] = words;
  if (first === undefined || first.dynamic || !BUILTINS.has(first.text)) return null;
  return isPlain(first.text, args) ? null : first.text;
}

function isPlain(name: string, args: readonly Word[]): boolean {
  if (PLAIN.has(name)) return true;
  if (NUMERIC.has(name)) return args.every((word) => !word.dynamic && /^[0-9]+$/.test(word.text));
  if (name === "command") return isStatic(args[0]) && /^-[vV]$/.test(args[0].text);
  if (name === "printf") return isPlainPrintf(args);
  if (name === "test") return isPlainTest(args);
  if (name === "[") return isPlainTest(args.slice(0, -1)) && args.at(-1)?.text === "]";
  if (name === "[[") return isPlainTest(args.slice(0, -1).map((word) => ({ ...word, splits: false })));
  // `-x` evaluates PS4.
  if (name === "set") return /^(?: [-+](?:[eu]+|[eu]*o (?:pipefail|errexit|nounset)))+$/.test(textOf(args));
  return false;
}

/** The arguments as one text; "" where the shell expands one. */
function textOf(args: readonly Word[]): string {
  return args.every(isStatic) ? args.map(({ text }) => ` ${text}`).join("") : "";
}

/** `-v` evaluates a name, and bash's `%n` sets a variable, PATH for one. The format must be known. */
function isPlainPrintf(args: readonly Word[]): boolean {
  const [first, second] = args;
  const format = isStatic(first) && first.text === "--" ? second : first;
  if (!isStatic(format)) return false;
  if (format === first && format.text.startsWith("-")) return false;
  return !/%[^A-Za-z%]*[hjlLqtz]*n/.test(format.text);
}

/** At most four arguments, so that POSIX says which of them is the operator. */
function isPlainTest(args: readonly Word[]): boolean {
  const [first, second, third] = args;
  // Some shells evaluate other operands of these.
  if (args.length === 3 && isOperator(second, NUMBERS)) return isNumber(first) && isNumber(third);
  if (args.length > 4 || args.some((word) => word.splits)) return false;
  if (args.length <= 1) return true;
  if (args.length === 3 && isOperator(second, BINARY)) return true;
  if (isStatic(first) && first.text === "!") return isPlainTest(args.slice(1));
  return args.length === 2 && isOperator(first, UNARY);
}

function isNumber(word: Word | undefined): boolean {
  return word !== undefined && NUMBER.test(word.form);
}

function isOperator(word: Word | undefined, known: ReadonlySet<string>): boolean {
  return isStatic(word) && known.has(word.text);
}

function isStatic(word: Word | undefined): word is Word {
  return word !== undefined && !word.dynamic;
}

/** Names of variables whose values the shell itself runs. */
const CODE_VARIABLE = /(?:^|[^A-Z0-9_])(?:BASH_ENV|ENV|PROMPT_COMMAND|PS[0-4])(?![A-Za-z0-9_])/;
/** A text that an evaluating builtin could run as a command. */
const CODE = /`|\$[({[]/;
/** Builtins that set variables whose names are arguments. */
const SETTERS = namesIn(
  "declare export getopts let local mapfile printf read readarray readonly typeset unset",
);

/**
 * Returns true when the line may run a command that its words do not show: by a variable that the shell runs, or by an
 * evaluating builtin and a text with a substitution. Returns false for `export CI=1` and `[ $? -eq 0 ]`.
 */
export function mayEvaluateCode(line: readonly SimpleCommand[]): boolean {
  const evaluating = line.filter((command) => evaluatingBuiltin(command) !== null);
  const assigned = line.flatMap((command) => command.assigned.map(({ text }) => text));
  if (assigned.some((text) => CODE_VARIABLE.test(text.replace(/\+?=.*/s, "")))) return true;
  const set = evaluating.filter(({ words: [first] }) => first && SETTERS.has(first.text));
  const names = set.flatMap(({ words: [, ...args] }) => args);
  // A variable may hold the name: `x=PS4; read $x < file`.
  const isUnknown = ({ form, dynamic }: Word): boolean => dynamic && !STATIC_NAME.test(form);
  if (names.some((word) => CODE_VARIABLE.test(word.text) || isUnknown(word))) return true;
  // An assignment is enough: bash evaluates its subscript, and the values of RANDOM, OPTIND and others.
  const evaluated = evaluating.flatMap(({ words }) => words.map(({ text }) => text));
  return [...assigned, ...evaluated].some((text) => CODE.test(text));
}

/** `NAME=` at the start of an argument. */
const STATIC_NAME = /^[A-Za-z_][A-Za-z0-9_]*\+?=/;
