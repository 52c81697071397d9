/** The summary that replaces the beginning of a conversation. */

import { framed } from "../../plugin/frame.ts";
import type { ChecklistItem, Message, ToolDef } from "../../plugin/index.ts";
import { estimateTokens } from "../budget/tokens.ts";
import type { ProcessTool } from "../process/process-spec.ts";
import { firstMessage, shortenText, wellFormed } from "./conversations.ts";
import { callsByResult } from "./turns.ts";

/** The parts of the message that replaces the beginning of a conversation. The intent and its input are repeated. */
interface SummaryParts {
  /** The original first message, and its parts. */
  first: Message;
  intent: string;
  input: string | null | undefined;
  replaced: number;
  text: string;
  plan: string | null;
  /** The lists that plugins show of the process tree, such as its tasks, by plugin. */
  checklists: ReadonlyMap<string, readonly ChecklistItem[]>;
  /** The last user message among those. */
  heard: string | null;
  /** Skills that were loaded during the run; the agent's own are in the prompt head. */
  skills: readonly { name: string; body: string }[];
  files: readonly RecentFile[];
}

/** A file that was read, with its content if it was not changed since and fits. */
interface RecentFile {
  path: string;
  content?: string;
}

/** The share of the tokens that each part may use. */
export const SHARES = {
  first: 0.3,
  text: 0.2,
  plan: 0.1,
  checklists: 0.1,
  heard: 0.1,
  skills: 0.25,
  files: 0.25,
} as const;

/** Minimum tokens of each part; most intents are shorter. */
const MIN_PART_TOKENS = 150;

/** Builds the message in about `tokens` tokens. `where` says where the whole first message is, if it is clipped. */
export function summaryMessage(parts: SummaryParts, tokens: number, where: string): Message {
  const { replaced, text, plan, checklists, heard, skills, files } = parts;
  const tokensFor = (part: keyof typeof SHARES): number => Math.max(MIN_PART_TOKENS, tokens * SHARES[part]);
  const eachList = tokensFor("checklists") / Math.max(1, checklists.size);
  const eachSkill = tokensFor("skills") / Math.max(1, skills.length);
  const sections = [
    opening(parts, tokensFor("first"), where),
    `[This conversation was compacted: ${replaced} messages are not in it any more, and what follows stands for them. What it says was done is done. Go on from there.]`,
    framed("summary", clipText(text, tokensFor("text"))),
    plan === null ? "" : framed("plan", clipText(plan, tokensFor("plan"))),
    ...[...checklists].map(([plugin, items]) => framed(plugin, clipText(checklistText(items), eachList))),
    heard === null ? "" : framed("last_message_to_you", clipText(heard, tokensFor("heard"))),
    ...skills.map(({ name, body }) => framed("skill", clipText(body, eachSkill), { name })),
    filesSection(files),
  ];
  return { ...parts.first, role: "user", content: sections.filter((one) => one !== "").join("\n\n") };
}

function checklistText(items: readonly ChecklistItem[]): string {
  return items
    .map(({ text, state, note }) => `- ${text}: ${state}${note === undefined ? "" : `, ${note}`}`)
    .join("\n");
}

/** Clips the intent and the input separately, so that the frame around the input stays whole. */
function opening({ first, intent, input }: SummaryParts, tokens: number, where: string): string {
  if (input === null || input === undefined || estimateTokens(first.content) <= tokens)
    return clipText(first.content, tokens, where);
  const said = clipText(intent, tokens / 2, where);
  return firstMessage(said, clipText(input, tokens - estimateTokens(said), where)).content;
}

/** The message that asks the model for a summary. */
export function instruction(words: number): Message {
  return {
    role: "user",
    content: `[From rnix, not from the user] This conversation has become too long and is about to be replaced by your summary of it. Do not continue the work and call no tool now: answer with the summary alone, at most ${words} words. You will go on from it and can look at nothing else of what was said. Write down, with exact names, paths, numbers and commands: what was asked for and every rule you were given since; what you have done and changed so far, and what came of it; what you have found out, and where; what failed and why; what you have decided and why; what is left to do, and the very next step.`,
  };
}

function filesSection(files: readonly RecentFile[]): string {
  if (files.length === 0) return "";
  const names = files.map(({ path }) => `- ${path}`).join("\n");
  const contents = files.flatMap(({ path, content }) =>
    content === undefined ? [] : [framed("file", content, { path })],
  );
  const note =
    contents.length === 0
      ? ""
      : " What they held then follows for some; read one again before you change it.";
  return [`Files you read last:${note}\n${names}`, ...contents].join("\n\n");
}

const WORDS = 240;
const CALL = 160;
const RESULT = 120;
/** The share that an earlier summary gets at most. */
const EARLIER = 0.5;

/**
 * Summarises a conversation without a model, in at most `tokens` tokens: the messages and calls with their results,
 * the newest first to be kept. The first message is not included.
 */
export function digest(messages: readonly Message[], earlier: string | null, tokens: number): string {
  const before = earlier === null ? "" : clipText(earlier, tokens * EARLIER);
  const lines = linesOf(messages);
  let left = tokens - estimateTokens(before);
  const kept: string[] = [];
  for (const line of lines.toReversed()) {
    left -= estimateTokens(line) + 1;
    if (left < 0) break;
    kept.unshift(line);
  }
  const missing = lines.length - kept.length;
  const gap = missing === 0 ? [] : [`[${missing} earlier entries are left out here.]`];
  return [...(before === "" ? [] : [before]), ...gap, ...kept].join("\n");
}

function linesOf(messages: readonly Message[]): string[] {
  const calls = callsByResult(messages);
  return messages.flatMap(({ role, content }, at) => {
    if (at === 0) return [];
    const call = calls.get(at);
    if (call) {
      return [
        `  - called ${call.name} ${shortenText(JSON.stringify(call.input), CALL)}: ${shortenText(content, RESULT)}`,
      ];
    }
    if (content.trim() === "") return [];
    return [`- ${role === "assistant" ? "you said" : "you received"}: ${shortenText(content, WORDS)}`];
  });
}

const MAX_FILES = 8;

/**
 * The files that were read last in the replaced messages, the newest first, with contents that fit into `tokens`.
 * Files that the kept messages still show are left out. Files that were changed since have no content.
 */
export function recentFiles(
  replaced: readonly Message[],
  kept: readonly Message[],
  tools: ReadonlyMap<string, ProcessTool>,
  tokens: number,
): RecentFile[] {
  const inView = new Set(pathsOf(kept, tools).map(({ path }) => path));
  const found = new Map<string, RecentFile>();
  const changed = new Set<string>();
  let left = tokens;
  for (const { path, reads, content } of pathsOf(replaced, tools).reverse()) {
    if (!reads) changed.add(path);
    if (!reads || found.has(path) || inView.has(path) || found.size >= MAX_FILES) continue;
    const size = estimateTokens(content);
    const fits = !changed.has(path) && size <= left;
    if (fits) left -= size;
    found.set(path, fits ? { path, content } : { path });
  }
  return [...found.values()];
}

interface Touched {
  path: string;
  reads: boolean;
  content: string;
}

/** Calls whose tool names a required input as its subject: the file that it reads or changes. */
function pathsOf(messages: readonly Message[], tools: ReadonlyMap<string, ProcessTool>): Touched[] {
  return [...callsByResult(messages)].flatMap(([at, { name, input }]) => {
    const tool = tools.get(name)?.tool;
    const path = tool?.subject === undefined ? undefined : input[tool.subject];
    const content = messages[at]?.content ?? "";
    if (!tool || typeof path !== "string" || content.startsWith("Error ")) return [];
    const reads = tool.annotations?.readOnlyHint === true;
    return reads && !requires(tool, tool.subject) ? [] : [{ path, reads, content }];
  });
}

/** Whether the field is required. Tools that list or search have an optional subject. */
function requires({ input }: ToolDef, field: string | undefined): boolean {
  return "required" in input && Array.isArray(input.required) && input.required.includes(field);
}

/** The share of a clipped text that its beginning gets; its end gets the rest. */
const HEAD = 0.7;

/** Clips a text to about `tokens` tokens of its beginning and end. `where` says where the whole text is. */
export function clipText(text: string, tokens: number, where = ""): string {
  const whole = estimateTokens(text);
  if (whole <= tokens) return text;
  const chars = Math.max(0, Math.floor((text.length * tokens) / whole));
  const head = Math.ceil(chars * HEAD);
  const left = text.length - chars;
  const mark = `[… ${left} of ${text.length} characters left out here.${where === "" ? "" : ` ${where}`} …]`;
  const end = text.slice(text.length - (chars - head));
  return [wellFormed(text.slice(0, head)), mark, wellFormed(end)].join("\n");
}
