/** Defines the flags of commands and parses command lines. */

import { MAX_AGE_MS, parseDuration } from "../lib/duration.ts";
import { nearestName } from "../lib/edit-distance.ts";
import { splitToolRules } from "../lib/tool-rules.ts";
import { SyscallError } from "../plugin/errors.ts";
import { usageError } from "./exit.ts";

/** The parser, the help and the completions are made from it. `read` gets all given values ("" for one without values). */
export interface Flag<T> {
  about: string;
  takesValue: boolean;
  repeatable: boolean;
  short?: string;
  /** The placeholder for the value in the help: `--model=<NAME>`. */
  hint?: string;
  choices?: readonly string[];
  hidden?: boolean;
  file?: FileUse;
  read(given: string[], name: string): T;
}

export type Flags = Record<string, Flag<unknown>>;
export type FlagValues<F extends Flags> = { [K in keyof F]: F[K] extends Flag<infer T> ? T : never };

/**
 * What the command does with the file that the value names. "write folder": with files below it. "read @": if the value
 * begins with @. "read -": unless it is "-", for stdin.
 */
type FileUse = "read" | "read @" | "read -" | "write" | "write folder";

type More = Pick<Flag<unknown>, "short" | "hidden" | "file" | "choices">;

export function bool(about: string, more: More = {}): Flag<boolean> {
  return { about, takesValue: false, repeatable: true, ...more, read: (given) => given.length > 0 };
}

export function text(about: string, hint: string, more: More = {}): Flag<string | undefined> {
  return one(about, hint, more, "some text", (value) => (value === "" ? undefined : value));
}

/** A flag that may be given several times. */
function repeated<T>(about: string, hint: string, more: More, read: Flag<T>["read"]): Flag<T> {
  return { about: `${about}; may be repeated`, takesValue: true, repeatable: true, hint, ...more, read };
}

export function list(about: string, hint: string, more: More = {}): Flag<string[]> {
  return repeated(about, hint, more, (given, name) => given.map((value) => nonEmpty(name, value)));
}

/** Tool rules: `Read`, `Bash(git *)`, or several as `Read,Grep`. */
export function rules(about: string): Flag<string[]> {
  return repeated(about, "TOOL,…", {}, (given, name) =>
    given.flatMap((value) => splitToolRules(nonEmpty(name, value))),
  );
}

/** KEY=VALUE pairs. */
export function pairs(about: string, more: More = {}): Flag<Record<string, string>> {
  return repeated(about, "KEY=VALUE", more, (given, name) =>
    Object.fromEntries(given.map((one) => pair(name, one))),
  );
}

/** `KEY=VALUE`, or `KEY` to pass a variable on unchanged. */
export function variables(about: string): Flag<{ set: Record<string, string>; passed: string[] }> {
  return repeated(about, "KEY[=VALUE]", {}, (given, name) => {
    const { true: set = [], false: passed = [] } = Object.groupBy(given, (one) => `${one.includes("=")}`);
    const wrong = passed.find((one) => !VARIABLE.test(one));
    if (wrong !== undefined) throw wrongValue(name, wrong, "KEY=VALUE, or the name of a variable");
    return { set: Object.fromEntries(set.map((one) => pair(name, one))), passed };
  });
}

export function choice<const V extends string>(about: string, choices: readonly V[]): Flag<V | undefined> {
  const read = ([value]: string[], name: string): V | undefined =>
    value === undefined ? undefined : chosen(name, value, choices);
  return { about, takesValue: true, repeatable: false, hint: choices.join("|"), choices, read };
}

export function choiceList(about: string, choices: readonly string[]): Flag<string[]> {
  return repeated(about, choices.join("|"), { choices }, (given, name) =>
    given.map((value) => chosen(name, value, choices)),
  );
}

function chosen<const V extends string>(name: string, value: string, choices: readonly V[]): V {
  const found = choices.find((one) => one === value);
  if (found !== undefined) return found;
  throw wrongValue(name, value, `one of ${choices.join(", ")}`, didYouMean(value, choices));
}

/** A positive whole number. */
export function count(about: string, hint: string, more: More = {}): Flag<number | undefined> {
  return one(about, hint, more, COUNT.expected, wholeNumber);
}

/** How values of a measure are read, and what a message expects. */
const COUNT = { read: wholeNumber, expected: "a whole number above 0" };
const DURATION = {
  read: (value: string) => milliseconds(value),
  expected: "a duration such as 90s, 10m or 1h30m",
};
const DOLLARS = { read: dollars, expected: "an amount in USD above 0 such as 1.50" };

/** A number of this measure, durations in ms, or `unlimited` written out. */
export function limit(
  about: string,
  hint: string,
  measure = "count",
): Flag<number | "unlimited" | undefined> {
  const { read, expected } = measure === "dollars" ? DOLLARS : measure === "duration" ? DURATION : COUNT;
  return one(about, hint, {}, `${expected}, or "unlimited"`, (value) =>
    value === "unlimited" ? value : read(value),
  );
}

/** A duration such as 10m, in ms. */
export function duration(about: string): Flag<number | undefined> {
  return one(about, "DUR", {}, DURATION.expected, DURATION.read);
}

/** A duration of any length such as 10m or 30d, as it was written. */
export function age(about: string): Flag<string | undefined> {
  return one(about, "DUR", {}, DURATION.expected, (value) =>
    milliseconds(value, MAX_AGE_MS) ? value : undefined,
  );
}

/** `--json`, on every command that prints data. */
export const json = bool("print the data as JSON");
/** `--json` of a command that prints while something goes on. */
export const jsonLines = bool("print the data as JSON, one object per line");

export const noDaemon = bool("run inside this command; nothing is left running");
export const quiet = bool("print no progress", { short: "q" });

/** "; did you mean X?", or nothing. */
export function didYouMean(typed: string, candidates: Iterable<string>, prefix = ""): string {
  const near = nearestName(typed, candidates);
  return near === undefined ? "" : `; did you mean ${prefix}${near}?`;
}

export interface Parsed {
  values: Map<string, string[]>;
  positionals: string[];
}

/** Parses strictly: unknown flags, missing values and repetitions are errors. `hint`: explains an unknown flag better. */
export async function parse(
  args: string[],
  flags: Flags,
  hint?: (flag: string) => string | undefined,
): Promise<Parsed> {
  // node:util takes longer to load than `rnix version` and `rnix ps` take to answer.
  if (args.length === 0) return { values: new Map(), positionals: [] };
  const { parseArgs } = await import("node:util");
  const options = Object.fromEntries(
    Object.entries(flags).map(([name, { takesValue, short }]) => {
      const type = takesValue ? ("string" as const) : ("boolean" as const);
      return [name, { type, multiple: true, ...(short !== undefined && { short }) }];
    }),
  );
  const config = { args, options, allowPositionals: true };
  try {
    const { values, positionals } = parseArgs({ ...config, strict: true });
    return { values: collect(flags, values), positionals };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const { tokens } = parseArgs({ ...config, strict: false, tokens: true });
    throw explain(tokens, flags, hint) ?? usageError(error.message);
  }
}

/** The typed values of a command's flags. */
export function readFlags<F extends Flags>(flags: F | undefined, parsed: Parsed): FlagValues<F> {
  const entries = Object.entries<Flag<unknown>>(flags ?? {}).map(([name, flag]) => [
    name,
    flag.read(parsed.values.get(name) ?? [], `--${name}`),
  ]);
  // fromEntries forgets which value belongs to which key; `read` of each flag has just made the right one.
  return Object.fromEntries(entries) as FlagValues<F>;
}

/** A flag that is given once. `read` returns undefined for a value that is not as `expected`. */
export function one<T>(
  about: string,
  hint: string,
  more: More,
  expected: string,
  read: (value: string) => T | undefined,
): Flag<T | undefined> {
  return {
    about,
    takesValue: true,
    repeatable: false,
    hint,
    ...more,
    read([value], name) {
      if (value === undefined) return undefined;
      const result = read(value);
      if (result === undefined) throw wrongValue(name, value, expected);
      return result;
    },
  };
}

function wholeNumber(value: string): number | undefined {
  const number = Number(value);
  return /^\d+$/.test(value) && number > 0 && Number.isSafeInteger(number) ? number : undefined;
}

function dollars(value: string): number | undefined {
  const number = Number(value);
  return /^\d*\.?\d+$/.test(value) && number > 0 && Number.isFinite(number) ? number : undefined;
}

/** Of a duration; undefined for another text. */
export function milliseconds(value: string, max?: number): number | undefined {
  try {
    return parseDuration(value, max);
  } catch (error) {
    if (error instanceof SyscallError && error.code === "INVALID") return undefined;
    throw error;
  }
}

function nonEmpty(name: string, value: string): string {
  if (value === "") throw wrongValue(name, value, "some text");
  return value;
}

function pair(name: string, value: string): [string, string] {
  const cut = value.indexOf("=");
  const key = value.slice(0, cut);
  if (!VARIABLE.test(key)) throw wrongValue(name, value, "KEY=VALUE");
  return [key, value.slice(cut + 1)];
}

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

function wrongValue(name: string, value: string, expected: string, more = ""): Error {
  return usageError(`${name}: expected ${expected}, got ${JSON.stringify(value)}${more}`);
}

function collect(flags: Flags, values: Record<string, unknown>): Map<string, string[]> {
  const collected = new Map<string, string[]>();
  for (const [name, given] of Object.entries(values)) {
    const all = Array.isArray(given) ? given : [given];
    if (all.length > 1 && flags[name]?.repeatable === false) {
      throw usageError(`--${name} was given ${all.length} times; it takes one value`);
    }
    const texts = all.map((value) => (typeof value === "string" ? value : ""));
    collected.set(name, texts);
  }
  return collected;
}

type Token = { kind: string; name?: string; rawName?: string; value?: string | undefined };

/** Explains why the strict parser has rejected the arguments. */
function explain(
  tokens: Token[],
  flags: Flags,
  hint: ((flag: string) => string | undefined) | undefined,
): Error | undefined {
  for (const { kind, name, rawName, value } of tokens) {
    if (kind !== "option" || name === undefined || rawName === undefined) continue;
    const flag = Object.hasOwn(flags, name) ? flags[name] : undefined;
    if (flag === undefined) {
      const known = Object.entries(flags).flatMap(([n, f]) => (f.hidden ? [] : [n]));
      return usageError(
        `unknown flag ${rawName}${hint?.(rawName) ?? didYouMean(rawName.replace(/^-+/, ""), known, "--")}`,
      );
    }
    if (!flag.takesValue && value !== undefined) {
      return usageError(`${rawName} takes no value, got ${JSON.stringify(value)}`);
    }
    if (flag.takesValue && (value === undefined || value.startsWith("-"))) {
      return usageError(
        `${rawName} needs a value (${flag.hint ?? "VALUE"}); one that begins with "-" is written ${rawName}=-…`,
      );
    }
  }
  return undefined;
}
