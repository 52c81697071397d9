/** The tool ToolSearch, which shows the model deferred tools in full. */

import { LastEqual } from "../../lib/caches.ts";
import { orAborted } from "../../lib/clock.ts";
import { SyscallError, type ToolDef } from "../../plugin/index.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTool } from "../process/process-spec.ts";
import { inputOf, type KernelCall, type KernelTool } from "./tool-device.ts";

export const TOOL_SEARCH: { path: string; tool: ToolDef } = {
  path: "/dev/kernel/tool_search",
  tool: {
    name: "ToolSearch",
    description: "Load more tools before their use, by names or words.",
    input: inputOf(["query"], { query: { type: "string", minLength: 1 } }),
    annotations: { idempotentHint: true },
  },
};

/** Maximum tools that words find; names find each tool that they name. */
const MAX_FOUND = 5;
/** Maximum characters of the names in the description. */
const MAX_LISTED = 1_800;
/** Words that say nothing about a tool. */
const STOP_WORDS = new Set("the and for with from tool tools this that use all".split(" "));
/** The weight of a word in a tool's name; one in its description weighs 1. */
const NAME_WEIGHT = 2;

/** Maximum names in an error. */
const MAX_NAMES = 50;

export interface DeferredTools {
  /** The tools that the process's model can load. */
  deferred(proc: Process): ProcessTool[];
  /** Waits for mounts that are being made, by the prefix of their tools. Returns why some failed. */
  ready(proc: Process, isWanted: (prefix: string) => boolean): Promise<string[]>;
  /** Shows the model these tools in full from its next request on. */
  load(proc: Process, tools: readonly ProcessTool[]): void;
}

/** The loaded tools are appended to the request, so that what a provider has cached of it stays. */
export function toolSearch(tools: DeferredTools): KernelTool {
  return { ...TOOL_SEARCH, run: (call) => load(call, tools) };
}

async function load({ proc, input, signal }: KernelCall, tools: DeferredTools): Promise<string> {
  const query = String(input.query);
  const words = wordsOfQuery(query);
  const isKnown = namedTools(words, tools.deferred(proc)).length > 0;
  const mayBring = (prefix: string): boolean =>
    words.some((word) => isNamed(prefix, word) || word.startsWith(prefix)) || !isKnown;
  const failed = await orAborted(
    tools.ready(proc, (prefix) => mayBring(prefix.toLowerCase())),
    signal,
  );
  const deferred = tools.deferred(proc);
  const found = searchTools(query, deferred);
  if (found.length > 0) {
    tools.load(proc, found);
    return `Loaded: ${namesOf(found)}. You can call them now.`;
  }
  const shown = searchTools(query, [...proc.toolset.shown.values()]);
  if (shown.some(({ tool }) => query.toLowerCase().includes(tool.name.toLowerCase())))
    return `You have already: ${namesOf(shown)}.`;
  const names = deferred.slice(0, MAX_NAMES);
  const more = deferred.length > names.length ? `, and ${deferred.length - names.length} more` : "";
  const message = `No tool to load fits ${JSON.stringify(query)}. Name tools, or use other words. There are: ${namesOf(names) || "none"}${more}.${failed.map((why) => ` ${why}`).join("")}`;
  throw new SyscallError("NOT_FOUND", message);
}

function namesOf(tools: readonly ProcessTool[]): string {
  return tools.map(({ tool }) => tool.name).join(", ");
}

/** ToolSearch as a process's model sees it: with the names that it can load. Those of most processes are the same. */
export function searchTool(names: readonly string[]): ToolDef {
  const { tool } = TOOL_SEARCH;
  return last.of({ ...tool, description: `${tool.description.replace(/\.$/, ":")} ${listed(names)}` });
}

const last = new LastEqual<ToolDef>();

/** The names, as many as fit. Many tools of servers are listed as `mcp__github__* (50)`, one item for each server. */
function listed(names: readonly string[]): string {
  const whole = names.join(" ");
  if (whole.length <= MAX_LISTED) return whole;
  const groups = Map.groupBy(names, (name) => /^\w+?__.+?__/.exec(name)?.[0] ?? name);
  const items = [...groups].map(([prefix, { length }]) => (length > 1 ? `${prefix}* (${length})` : prefix));
  let text = "";
  for (const [at, item] of items.entries()) {
    if (text.length + item.length > MAX_LISTED)
      return `${text} and ${items.length - at} more that words find`;
    text += text === "" ? item : ` ${item}`;
  }
  return text;
}

/**
 * The tools that a query names (`CronAdd, CronList`, `mcp__github__*`), in their order. If it names none: those whose
 * names and descriptions have most of its words, best first.
 */
export function searchTools<T extends { tool: Pick<ToolDef, "name" | "description"> }>(
  query: string,
  tools: readonly T[],
): T[] {
  const words = wordsOfQuery(query);
  const named = namedTools(words, tools);
  if (named.length > 0) return named;
  // A number tells tools of one kind apart.
  const telling = words.filter((word) => (word.length > 2 || /\d/.test(word)) && !STOP_WORDS.has(word));
  const texts = tools.map((one) => ({ one, ...textOf(one.tool) }));
  const weights = telling.map((word) => {
    const { length } = texts.filter(({ name, text }) => has(name, word) || has(text, word));
    // A word of few tools tells more than one of many.
    return { word, weight: Math.log(1 + tools.length / (1 + length)) };
  });
  const scored = texts.map(({ one, name, text }) => {
    const scores = weights.map(({ word, weight }) =>
      has(name, word) ? NAME_WEIGHT * weight : has(text, word) ? weight : 0,
    );
    return { one, score: scores.reduce((sum, score) => sum + score, 0) };
  });
  const found = scored.filter(({ score }) => score > 0).sort((x, y) => y.score - x.score);
  return found.slice(0, MAX_FOUND).map(({ one }) => one);
}

function wordsOfQuery(query: string): string[] {
  return query
    .toLowerCase()
    .split(/[\s,;:"'`()]+/)
    .filter((word) => word !== "");
}

function namedTools<T extends { tool: Pick<ToolDef, "name"> }>(
  words: readonly string[],
  tools: readonly T[],
): T[] {
  return tools.filter(({ tool }) => words.some((word) => isNamed(tool.name.toLowerCase(), word)));
}

function isNamed(name: string, word: string): boolean {
  return word.length > 1 && word.endsWith("*") ? name.startsWith(word.slice(0, -1)) : name === word;
}

function textOf({ name, description }: Pick<ToolDef, "name" | "description">): {
  name: string[];
  text: string[];
} {
  return { name: wordsOf(name.replace(/(?<=[a-z])(?=[A-Z])/g, " ")), text: wordsOf(description) };
}

function has(words: readonly string[], word: string): boolean {
  return words.some((part) => isSame(part, word));
}

function wordsOf(text: string): string[] {
  return text.toLowerCase().split(/[^\p{L}\p{N}]+/u);
}

/** Whether two words begin alike, so that "schedule" finds "schedules" and "scheduled". */
function isSame(part: string, word: string): boolean {
  if (part === word) return true;
  const shorter = Math.min(part.length, word.length);
  return shorter >= 4 && (part.startsWith(word) || word.startsWith(part));
}
