/** Which shell builtins may run code that their arguments hold. A pattern that names one would allow any command. */

import { MARK, namesIn, type Word } from "../../shell/lexer.ts";
import type { SimpleCommand } from "./shell-words.ts";

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
  if (
    names.some(({ text, form, dynamic }) => CODE_VARIABLE.test(text) || (dynamic && !STATIC_NAME.test(form)))
  )
    return true;
  // An assignment is enough: bash evaluates its subscript, and the values of RANDOM, OPTIND and others.
  const evaluated = evaluating.flatMap(({ words }) => words.map(({ text }) => text));
  return [...assigned, ...evaluated].some((text) => CODE.test(text));
}

/** `NAME=` at the start of an argument. */
const STATIC_NAME = /^[A-Za-z_][A-Za-z0-9_]*\+?=/;
