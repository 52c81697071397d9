/** Settings whose value is a word or a command, beside the table of limits. */

import { z } from "zod";
import { asksTrust } from "./project-keys.ts";
import { choice, commandLine } from "./values.ts";

/** From the laxest to the strictest. */
const ASK_SETTINGS = ["off", "chat", "outside"] as const;
export type AskSetting = (typeof ASK_SETTINGS)[number];

export interface WordValues {
  /** In which runs a person at a terminal is asked before what changes something outside the project's files. */
  ask: AskSetting;
  /** What is notified when a suspended run waits for a person's answer: a command or an address. null: nothing. */
  on_ask: string | null;
}

export type WordKey = keyof WordValues;

export const WORD_DEFAULTS: WordValues = { ask: "chat", on_ask: null };

/** How `null` is written. */
const NONE = "none";

export const WORD_ABOUTS: Record<WordKey, string> = {
  ask: "where a person at a terminal is asked before a call changes something outside the project: off, chat, outside",
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
    const isLaxer = key === "ask" && rankOf(value) < rankOf(yours.ask);
    if (!asksTrust(".rnix/config.yaml", key, isLaxer)) return [];
    return [{ key, value, says: `${key}: ${value} (yours: ${shownWord(yours[key])})` }];
  });
}

export function shownWord(value: string | null): string {
  return value ?? NONE;
}

function rankOf(value: string): number {
  return ASK_SETTINGS.map(String).indexOf(value);
}
