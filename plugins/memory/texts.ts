/** What the devices of memory answer, for programs and for people. */

import type { Change, MemoryEntry, ScopeContent } from "./memory.ts";
import type { Waiting } from "./review-list.ts";
import { withoutHidden } from "./scan/hidden.ts";
import { type MemoryScope, SCOPES, type Target } from "./scopes.ts";

/** As JSON: the entries, or only how much there is. */
export function scopeDocument(
  { scope, used, held, characters, limit }: ScopeContent,
  inPrompt: number,
  withEntries: boolean,
): object {
  return {
    target: scope.target,
    ...(withEntries && {
      entries: used.map(({ id, text, written }) => ({
        id,
        text,
        ...(written && { at: written.at, agent: written.agent }),
      })),
    }),
    count: used.length,
    characters,
    limit,
    left: Math.max(0, limit - characters),
    in_prompt: inPrompt,
    waiting_for_review: held.length,
  };
}

export function changeText({ what }: MemoryScope, { id, state, why, characters, limit }: Change): string {
  const use = `${characters} of ${limit} characters of the ${what} are used.`;
  switch (state) {
    case "added":
      return `Remembered as ${id}. ${use}`;
    case "there already":
      return `It is remembered already, as ${id}.`;
    case "replaced":
      return `Replaced; the entry is ${id} now. ${use}`;
    case "removed":
      return `Removed ${id}. ${use}`;
    case "waits for review":
      return `Not remembered yet: ${why}. The entry ${id} waits until the user decides: rnix memory review.`;
  }
}

/** For a person: each entry with its id. */
export function scopeText({ scope, used, held, characters, limit }: ScopeContent, path: string): string {
  const title = `${upperFirst(scope.what)}: ${counted(used.length)}, ${characters} of ${limit} characters`;
  const wait = held.length === 0 ? [] : [`${held.length} more wait for a decision: rnix memory review`];
  return [title, path, ...used.map(entryText), ...wait].join("\n");
}

/** An entry of the list for a review. */
export interface Waits extends Pick<Waiting, "id" | "why" | "text" | "old" | "removes"> {
  what: string;
  from: string;
}

export function reviewText(waiting: readonly Waits[]): string {
  if (waiting.length === 0) return "No entry waits for a review.";
  const parts = waiting.map(({ id, what, why, from, text, old, removes }) => {
    const head = `${id}  ${what}${from}`;
    const taken = old === undefined ? [] : ["  takes the place of:", indented(clean(old)), "  the new text:"];
    const change = removes ? ["  is to be removed:"] : taken;
    return [head, `  found: ${why}`, ...change, indented(clean(text))].join("\n");
  });
  const how = "Accept one: rnix memory review --approve ID. Turn one down: rnix memory review --reject ID.";
  return [...parts, how].join("\n\n");
}

export type Recalled = RecalledEntry | RecalledRun;

interface RecalledEntry {
  kind: "entry";
  id: string;
  target: Target;
  time: string | null;
  text: string;
}

/** A run, with the step that fits best, and with further ones. */
export interface RecalledRun extends RecalledStep {
  kind: "run";
  uuid: string;
  pid: number;
  agent: string;
  project: string;
  more?: RecalledStep[];
}

interface RecalledStep {
  step: number;
  time: string | null;
  text: string;
}

export interface Summary {
  summary?: string;
  no_summary?: string;
}

/** For a person: the summary, then each result with its text. */
export function recallText(
  results: readonly Recalled[],
  pending: number,
  { summary, no_summary }: Summary,
): string {
  const rest = pending === 0 ? [] : [`${pending} runs are not indexed yet: a later search may find more.`];
  if (results.length === 0) return ["Nothing found.", ...rest].join("\n");
  const parts = [summary, ...results.map(recalledText), no_summary, ...rest];
  return parts.filter((part) => part !== undefined).join("\n\n");
}

function recalledText(one: Recalled): string {
  const day = one.time === null ? "" : `, ${one.time.slice(0, 10)}`;
  if (one.kind === "entry") return `${one.id}, ${SCOPES[one.target].what}${day}\n${indented(one.text)}`;
  const steps = [one, ...(one.more ?? [])].map(({ step, text }) => indented(`step ${step}: ${text}`));
  return [`run ${shortUuid(one.uuid)}, ${one.agent}${day}`, ...steps].join("\n");
}

function entryText({ id, text, written }: MemoryEntry): string {
  const by = written === null ? "" : `  ${written.at.slice(0, 10)} ${written.agent || "you"}`;
  return `\n${id}${by}\n${indented(clean(text))}`;
}

function indented(text: string): string {
  return text.replace(/^(?=.)/gm, "  ");
}

/** What a terminal would execute, reorder or not show is written as its code. */
function clean(text: string): string {
  if (withoutHidden(text) === text) return text;
  return text.replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Variation_Selector}]/gu, (char) => {
    const code = char.codePointAt(0) ?? 0;
    // They are part of letters and emoji.
    return [0x200c, 0x200d, 0xfe0f, 0xfe0e].includes(code) ? char : `\\u{${code.toString(16)}}`;
  });
}

/** Its first 13 characters are the same for all runs of a millisecond. */
export function shortUuid(uuid = ""): string {
  return uuid.slice(0, 18);
}

function counted(count: number): string {
  return count === 1 ? "1 entry" : `${count} entries`;
}

function upperFirst(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
