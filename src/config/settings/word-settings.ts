/** Settings whose value is a word or a command, beside the table of limits. */

import { z } from "zod";
import { ASK_MODES, type AskMode, isStricter } from "../../lib/ask-modes.ts";
import { OPTION_NAMES, objectOf, optionOf } from "../../options/option-list.ts";
import type { NameWith } from "../../options/option-types.ts";
import type { RunOption } from "../../options/run-option.ts";
import { choice, commandLine, text, texts } from "../files/values.ts";
import { asksTrust } from "../trust/project-keys.ts";

/** A mode, or `chat`: the mode `outside` where a person types, and `off` for `rnix spawn`. */
const ASK_SETTINGS = [...ASK_MODES, "chat"] as const;
export type AskSetting = (typeof ASK_SETTINGS)[number];

/** The modes of runs that a person at a terminal starts: of conversations and `rnix "…"`, and of `rnix spawn`. */
export function modesOf(setting: AskSetting): { byHand: AskMode; spawned: AskMode } {
  return setting === "chat" ? { byHand: "outside", spawned: "off" } : { byHand: setting, spawned: setting };
}

/** The options whose setting is a word, or a list. */
type WordOption = NameWith<{ words: object }>;

const WORD_OPTIONS = OPTION_NAMES.filter((name): name is WordOption => optionOf(name).words !== undefined);

export interface WordValues extends Record<WordOption, string> {
  /** The mode of the runs that a person at a terminal starts. */
  ask: AskSetting;
  /** What is notified when a suspended run waits for a person's answer: a command or an address. null: nothing. */
  on_ask: string | null;
  /** Names with commas. null: none. */
  plugins_outside: string | null;
}

export type WordKey = keyof WordValues;

export const WORD_DEFAULTS: WordValues = {
  ask: "chat",
  on_ask: null,
  plugins_outside: null,
  ...ofOptions("default"),
};

/** How `null` is written. */
const NONE = "none";

export const WORD_ABOUTS: Record<WordKey, string> = {
  ask: `the mode of runs that you start at a terminal: ${ASK_MODES.toReversed().join(", ")}; chat: outside in conversations and rnix "…", off for rnix spawn`,
  on_ask: "a command or an https address that is notified when a suspended run waits for an answer",
  plugins_outside: "plugins from disk that run outside of their sandbox; *: all of them",
  ...ofOptions("about"),
};

export const WORD_KEYS: readonly WordKey[] = ["ask", "on_ask", "plugins_outside", ...WORD_OPTIONS];

/** The keys of config.yaml. */
export const wordSchema = () => ({
  ask: choice(ASK_SETTINGS).optional(),
  on_ask: commandLine("a command or an address, or none").optional(),
  plugins_outside: z.union([text("a plugin's name, or none"), texts()]).optional(),
  ...Object.fromEntries(WORD_OPTIONS.map((name) => [name, optionSchema(optionOf(name)).optional()])),
});

function optionSchema({ words, hint = "TEXT", ...option }: RunOption) {
  const choices = words?.choices ?? option.choices;
  return choices ? choice(choices) : z.union([text(hint), texts()]);
}

function ofOptions(property: "default" | "about"): Record<WordOption, string> {
  return objectOf(WORD_OPTIONS.map((name) => [name, optionOf(name).words?.[property]] as const));
}

export type WordFile = Partial<Record<WordKey, string>>;

/** The values of one file, after its schema. */
export const WordFile = z.lazy(() =>
  z.object(objectOf<Record<WordKey, typeof Word>>(WORD_KEYS.map((key) => [key, Word]))),
);

/** A list is a word with commas. */
const Word = z.union([z.string(), z.array(z.string()).transform((items) => items.join(","))]).optional();

/** The values under those of a file. */
export function withWords(
  values: WordValues,
  file: WordFile,
  refused: ReadonlySet<string> = new Set(),
): WordValues {
  const made = { ...values };
  const ask = ASK_SETTINGS.find((one) => one === file.ask);
  if (ask !== undefined && !refused.has("ask")) made.ask = ask;
  for (const key of ["on_ask", "plugins_outside"] as const) {
    const value = refused.has(key) ? undefined : file[key];
    if (value !== undefined) made[key] = value === NONE ? null : value;
  }
  for (const name of WORD_OPTIONS) made[name] = (refused.has(name) ? undefined : file[name]) ?? made[name];
  return made;
}

/** The keys of a project's file that need trust: where notifications go, and fewer questions than the user wants. */
export function askedWords(
  file: WordFile,
  yours: WordValues,
): { key: WordKey; value: string; says: string }[] {
  return WORD_KEYS.flatMap((key) => {
    const value = file[key];
    if (value === undefined) return [];
    const isLaxer = key === "ask" && asksLess(value, yours.ask);
    if (!asksTrust(".rnix/config.yaml", key, isLaxer)) return [];
    return [{ key, value, says: `${key}: ${value} (yours: ${shownWord(yours[key])})` }];
  });
}

export function shownWord(value: string | null): string {
  return value ?? NONE;
}

function asksLess(value: string, yours: AskSetting): boolean {
  const theirs = ASK_SETTINGS.find((one) => one === value);
  if (theirs === undefined) return false;
  const [given, own] = [modesOf(theirs), modesOf(yours)];
  return isStricter(own.byHand, given.byHand) || isStricter(own.spawned, given.spawned);
}
