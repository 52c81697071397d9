/** Settings whose value is a word or a command, beside the table of limits. */

import { z } from "zod";
import { ASK_MODES, type AskMode, isStricter } from "../../lib/ask-modes.ts";
import { choice, commandLine } from "../files/values.ts";
import { asksTrust } from "../trust/project-keys.ts";

/** A mode, or `chat`: the mode `outside` where a person types, and `off` for `rnix spawn`. */
const ASK_SETTINGS = [...ASK_MODES, "chat"] as const;
export type AskSetting = (typeof ASK_SETTINGS)[number];

/** The modes of runs that a person at a terminal starts: of conversations and `rnix "…"`, and of `rnix spawn`. */
export function modesOf(setting: AskSetting): { byHand: AskMode; spawned: AskMode } {
  return setting === "chat" ? { byHand: "outside", spawned: "off" } : { byHand: setting, spawned: setting };
}

export interface WordValues {
  /** The mode of the runs that a person at a terminal starts. */
  ask: AskSetting;
  /** What is notified when a suspended run waits for a person's answer: a command or an address. null: nothing. */
  on_ask: string | null;
}

export type WordKey = keyof WordValues;

export const WORD_DEFAULTS: WordValues = { ask: "chat", on_ask: null };

/** How `null` is written. */
const NONE = "none";

export const WORD_ABOUTS: Record<WordKey, string> = {
  ask: `the mode of runs that you start at a terminal: ${ASK_MODES.toReversed().join(", ")}; chat: outside in conversations and rnix "…", off for rnix spawn`,
  on_ask: "a command or an https address that is notified when a suspended run waits for an answer",
};

export const WORD_KEYS: readonly WordKey[] = ["ask", "on_ask"];

/** The keys of config.yaml. */
export const wordSchema = () => ({
  ask: choice(ASK_SETTINGS).optional(),
  on_ask: commandLine("a command or an address, or none").optional(),
});

export type WordFile = Partial<Record<WordKey, string>>;

/** The values of one file, after its schema. */
export const WordFile = z.lazy(() => z.object({ ask: z.string().optional(), on_ask: z.string().optional() }));

/** The values under those of a file. */
export function withWords(
  values: WordValues,
  file: WordFile,
  refused: ReadonlySet<string> = new Set(),
): WordValues {
  const made = { ...values };
  const ask = ASK_SETTINGS.find((one) => one === file.ask);
  if (ask !== undefined && !refused.has("ask")) made.ask = ask;
  if (file.on_ask !== undefined && !refused.has("on_ask"))
    made.on_ask = file.on_ask === NONE ? null : file.on_ask;
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
