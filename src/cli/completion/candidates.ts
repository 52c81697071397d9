/** What may follow the words of a command line, for the completion of shells. */

import type { Command } from "../command.ts";
import { loadCommands } from "../commands.ts";
import type { Flag } from "../flags.ts";

/** Values that are known only when they are asked for. */
export const KINDS = ["run", "agent", "provider", "model", "tool", "skill", "job", "question"] as const;
export type Kind = (typeof KINDS)[number];

/** One word that may follow, and what it means. */
export interface Candidate {
  word: string;
  about: string;
}

interface Candidates {
  words: Candidate[];
  /** Files and folders fit, too. */
  files: boolean;
}

/** Asks for the values of a kind. `typed`: what stands there already. */
type ValuesOf = (kind: Kind, typed: string) => Promise<Candidate[]>;

/** A flag's name means the same in every command. */
const FLAG_KINDS: Readonly<Record<string, Kind>> = {
  ...({ agent: "agent", provider: "provider", model: "model", skill: "skill" } as const),
  ...({ allow: "tool", deny: "tool", ask: "tool", resume: "run", after: "job" } as const),
};
const ARGUMENT_KINDS: Readonly<Record<string, Kind>> = {
  ...({ PID: "run", UUID: "run", RUN: "run", "UUID|FILE": "run", TOOL: "tool", AGENT: "agent" } as const),
  ...({ JOB: "job", "JOB|SCHEDULE": "job", ID: "question" } as const),
};
/** Placeholders of values that are files or folders. */
const PATHS = /FILE|PATH|DIR/;
const NOTHING: Candidates = { words: [], files: false };

/**
 * The candidates for the last of the words, which may be empty. `words`: those after the program's name. Words that bash
 * has split at "=" are joined again; the candidates are then the part after it.
 */
export async function candidates(words: readonly string[], valuesOf: ValuesOf): Promise<Candidates> {
  const { line, current } = joined(words);
  const commands = new Map(await loadCommands());
  const [name, ...rest] = line;
  if (name === undefined) return { words: described(commands), files: false };
  const command = commands.get(name);
  if (command === undefined) return NOTHING;
  const [first] = rest;
  const sub = first === undefined ? undefined : command.subcommands?.[first];
  return sub === undefined
    ? inCommand(command, rest, current, valuesOf)
    : inCommand(sub, rest.slice(1), current, valuesOf);
}

/** Bash gives `--output=te` as three words, and `qwen:8b` too. */
function joined(words: readonly string[]): { line: string[]; current: string } {
  const all: string[] = [];
  for (const word of words) {
    const before = all.at(-1);
    if (before !== undefined && (word === ":" || before.endsWith(":")))
      all[all.length - 1] = `${before}${word}`;
    else all.push(word);
  }
  const current = all.pop() ?? "";
  if (current === "=") return { line: all, current: "" };
  if (all.at(-1) === "=") return { line: all.slice(0, -1), current };
  return { line: all.filter((word) => word !== "="), current };
}

async function inCommand(
  command: Command,
  before: readonly string[],
  current: string,
  valuesOf: ValuesOf,
): Promise<Candidates> {
  const flags = Object.entries(command.flags).filter(([, flag]) => !flag.hidden);
  const isAfterEnd = before.includes("--");
  const last = isAfterEnd ? undefined : flagNamed(flags, before.at(-1));
  if (last?.[1].takesValue) return ofFlag(last, current, valuesOf);
  const [, given = "", value] = /^(--[^=]+)=(.*)$/s.exec(current) ?? [];
  const named = flagNamed(flags, given);
  if (named?.[1].takesValue && value !== undefined) {
    const { words, files } = await ofFlag(named, value, valuesOf);
    return { words: words.map(({ word, about }) => ({ word: `${given}=${word}`, about })), files };
  }
  const offered = described(flags.map(([name, flag]) => [`--${name}`, flag]));
  if (current.startsWith("-") && !isAfterEnd) return { words: offered, files: false };
  const found = await ofArgument(command, positionals(before, flags), current, valuesOf);
  const isEmpty = found.words.length === 0 && !found.files;
  return isEmpty && current === "" ? { words: offered, files: false } : found;
}

type NamedFlag = [string, Flag<unknown>];

function flagNamed(flags: readonly NamedFlag[], word: string | undefined): NamedFlag | undefined {
  return flags.find(([name, { short }]) => word === `--${name}` || (short && word === `-${short}`));
}

/** The words that are neither flags nor their values. */
function positionals(before: readonly string[], flags: readonly NamedFlag[]): string[] {
  const found: string[] = [];
  let isValue = false;
  for (const word of before) {
    if (isValue) isValue = false;
    else if (word.startsWith("-") && word !== "-") isValue = flagNamed(flags, word)?.[1].takesValue === true;
    else found.push(word);
  }
  return found;
}

async function ofFlag([name, flag]: NamedFlag, typed: string, valuesOf: ValuesOf): Promise<Candidates> {
  if (flag.choices !== undefined) return { words: named(flag.choices), files: false };
  const kind = FLAG_KINDS[name];
  if (kind === undefined) return { words: [], files: PATHS.test(flag.hint ?? "") };
  // Rules are written with commas: the last one is completed.
  const rules = kind === "tool" ? typed.slice(0, typed.lastIndexOf(",") + 1) : "";
  const values = await valuesOf(kind, typed.slice(rules.length));
  return { words: values.map(({ word, about }) => ({ word: `${rules}${word}`, about })), files: false };
}

async function ofArgument(
  { args = [], subcommands = {} }: Command,
  before: readonly string[],
  typed: string,
  valuesOf: ValuesOf,
): Promise<Candidates> {
  const last = args.at(-1);
  const argument = args[before.length] ?? (last?.many ? last : undefined);
  const subs = before.length > 0 ? [] : described(Object.entries(subcommands));
  const choices = argument?.choices ?? [];
  const kind = argument && ARGUMENT_KINDS[argument.name];
  const values = kind === undefined ? [] : await valuesOf(kind, typed);
  return { words: [...subs, ...named(choices), ...values], files: argument?.file === true };
}

function described(all: Iterable<readonly [string, { about: string }]>): Candidate[] {
  return Array.from(all, ([word, { about }]) => ({ word, about }));
}

function named(words: readonly string[]): Candidate[] {
  return words.map((word) => ({ word, about: "" }));
}
