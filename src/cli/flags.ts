import { parseDuration } from "../config/duration.ts";
import { nearestName } from "../nearest.ts";
import { SyscallError } from "../plugin/index.ts";
import { usageError } from "./exit.ts";

/**
 * What a flag is called, says and accepts, defined once: the parser, the help and the completions are made
 * of it. `read` gets every value that was given, in order ("" for a flag that takes none).
 */
export interface Flag<T> {
  about: string;
  takesValue: boolean;
  repeatable: boolean;
  short?: string;
  /** What stands for the value in the help: `--model=<NAME>`. */
  hint?: string;
  choices?: readonly string[];
  hidden?: boolean;
  read(given: string[], name: string): T;
}

export type Flags = Record<string, Flag<unknown>>;
export type FlagValues<F extends Flags> = { [K in keyof F]: F[K] extends Flag<infer T> ? T : never };

interface More {
  short?: string;
  hidden?: boolean;
}

export function bool(about: string, more: More = {}): Flag<boolean> {
  return { about, takesValue: false, repeatable: true, ...more, read: (given) => given.length > 0 };
}

export function text(about: string, hint: string, more: More = {}): Flag<string | undefined> {
  return one(about, hint, more, "some text", (value) => (value === "" ? undefined : value));
}

export function list(about: string, hint: string, more: More = {}): Flag<string[]> {
  return {
    about: `${about}; may be repeated`,
    takesValue: true,
    repeatable: true,
    hint,
    ...more,
    read: (given, name) => given.map((value) => nonEmpty(name, value)),
  };
}

/** KEY=VALUE pairs. */
export function pairs(about: string, more: More = {}): Flag<Record<string, string>> {
  return {
    about: `${about}; may be repeated`,
    takesValue: true,
    repeatable: true,
    hint: "KEY=VALUE",
    ...more,
    read: (given, name) => Object.fromEntries(given.map((value) => pair(name, value))),
  };
}

export function choice<const V extends string>(
  about: string,
  choices: readonly V[],
  more: More = {},
): Flag<V | undefined> {
  const flag = one(about, choices.join("|"), more, `one of ${choices.join(", ")}`, (value) =>
    choices.find((c) => c === value),
  );
  return {
    ...flag,
    choices,
    read(given, name) {
      const [value] = given;
      if (value !== undefined && !choices.some((c) => c === value)) {
        throw wrongValue(name, value, `one of ${choices.join(", ")}`, didYouMean(value, choices));
      }
      return flag.read(given, name);
    },
  };
}

/** A positive whole number. */
export function count(about: string, hint: string, more: More = {}): Flag<number | undefined> {
  return one(about, hint, more, "a whole number above 0", wholeNumber);
}

/** A positive whole number, or `unlimited` written out. */
export function limit(about: string, hint: string): Flag<number | "unlimited" | undefined> {
  return one(about, hint, {}, LIMIT, (value) => (value === "unlimited" ? value : wholeNumber(value)));
}

/** A duration such as 10m, in ms, or `unlimited` written out. */
export function timeLimit(about: string): Flag<number | "unlimited" | undefined> {
  return one(about, "DUR", {}, `${DURATION}, or "unlimited"`, (value) =>
    value === "unlimited" ? value : milliseconds(value),
  );
}

/** A duration such as 10m, in ms. */
export function duration(about: string): Flag<number | undefined> {
  return one(about, "DUR", {}, DURATION, milliseconds);
}

/** `--json`, on every command that prints data. */
export const json = bool("print the data as JSON");

/** "; did you mean X?", or nothing. */
export function didYouMean(typed: string, candidates: Iterable<string>, prefix = ""): string {
  const near = nearestName(typed, candidates);
  return near === undefined ? "" : `; did you mean ${prefix}${near}?`;
}

export interface Parsed {
  values: Map<string, string[]>;
  positionals: string[];
}

/**
 * Splits the arguments by the flags' definitions, strictly: an unknown flag, a missing value and a flag
 * given twice that may be given once are errors. `hint` may explain an unknown flag better than the nearest
 * name does. It reads what node:util's parseArgs reads, which takes longer to load than to parse.
 */
export function parse(args: string[], flags: Flags, hint?: (flag: string) => string | undefined): Parsed {
  const values = new Map<string, string[]>();
  const positionals: string[] = [];
  const left = [...args];
  for (let arg = left.shift(); arg !== undefined; arg = left.shift()) {
    if (arg === "--") positionals.push(...left.splice(0));
    else if (!looksLikeFlag(arg)) positionals.push(arg);
    else {
      for (const { name, written, value } of flagsIn(arg, flags)) {
        const flag = Object.hasOwn(flags, name) ? flags[name] : undefined;
        if (flag === undefined) throw unknownFlag(written, flags, hint);
        const given = flag.takesValue ? requiredValue(written, flag, value ?? nextValue(left)) : "";
        if (!flag.takesValue && value !== undefined) {
          throw usageError(`${written} takes no value, got ${JSON.stringify(value)}`);
        }
        values.set(name, [...(values.get(name) ?? []), given]);
      }
    }
  }
  for (const [name, { length }] of values) {
    if (length === 1 || flags[name]?.repeatable) continue;
    throw usageError(`--${name} was given ${length} times; it takes one value`);
  }
  return { values, positionals };
}

/** The typed values of a command's flags. */
export function readFlags<F extends Flags>(flags: F, parsed: Parsed): FlagValues<F> {
  const entries = Object.entries(flags).map(([name, flag]) => [
    name,
    flag.read(parsed.values.get(name) ?? [], `--${name}`),
  ]);
  // fromEntries forgets which value belongs to which key; `read` of each flag has just made the right one.
  return Object.fromEntries(entries) as FlagValues<F>;
}

const LIMIT = 'a whole number above 0, or "unlimited"';
const DURATION = "a duration such as 90s, 10m or 1h30m";

function one<T>(
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

function milliseconds(value: string): number | undefined {
  try {
    return parseDuration(value);
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
  if (cut < 1 || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(key)) throw wrongValue(name, value, "KEY=VALUE");
  return [key, value.slice(cut + 1)];
}

function wrongValue(name: string, value: string, expected: string, more = ""): Error {
  return usageError(`${name}: expected ${expected}, got ${JSON.stringify(value)}${more}`);
}

/** The word behind a flag, unless it looks like the next flag: that is what a forgotten value looks like. */
function nextValue(left: string[]): string | undefined {
  return left[0] === undefined || looksLikeFlag(left[0]) ? undefined : left.shift();
}

/** "-" alone is none: it stands for stdin. */
function looksLikeFlag(arg: string): boolean {
  return arg.length > 1 && arg.startsWith("-");
}

interface Given {
  name: string;
  /** As it was written, without its value. */
  written: string;
  /** What stands in the same word. */
  value?: string;
}

/** `--name`, `--name=value`, `-n`, several short ones as `-nm`, and `-nvalue`. */
function flagsIn(arg: string, flags: Flags): Given[] {
  if (arg.startsWith("--")) {
    const cut = arg.indexOf("=");
    if (cut < 0) return [{ name: arg.slice(2), written: arg }];
    return [{ name: arg.slice(2, cut), written: arg.slice(0, cut), value: arg.slice(cut + 1) }];
  }
  const given: Given[] = [];
  for (let at = 1; at < arg.length; at++) {
    const letter = arg.charAt(at);
    const [name, flag] = Object.entries(flags).find(([, { short }]) => short === letter) ?? [letter];
    const value = flag?.takesValue && at + 1 < arg.length ? arg.slice(at + 1) : undefined;
    given.push({ name, written: `-${letter}`, value });
    if (value !== undefined) break;
  }
  return given;
}

function requiredValue(written: string, flag: Flags[string], value: string | undefined): string {
  if (value !== undefined) return value;
  throw usageError(
    `${written} needs a value (${flag.hint ?? "VALUE"}); one that begins with "-" is written ${written}=-…`,
  );
}

function unknownFlag(
  written: string,
  flags: Flags,
  hint: ((flag: string) => string | undefined) | undefined,
): Error {
  const known = Object.entries(flags).flatMap(([name, { hidden }]) => (hidden ? [] : [name]));
  return usageError(
    `unknown flag ${written}${hint?.(written) ?? didYouMean(written.replace(/^-+/, ""), known, "--")}`,
  );
}
