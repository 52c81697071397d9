/** Builds the message that replaces summarised messages, and the request for a summary. */

import { framed } from "../../plugin/frame.ts";
import type { ChecklistItem, Message } from "../../plugin/index.ts";
import { estimateTokens } from "../budget/tokens.ts";
import { clipText } from "./clip-text.ts";
import { firstMessage } from "./messages.ts";

/** The parts of the message that replaces the beginning of a conversation. The intent and its input are repeated. */
interface SummaryParts {
  /** The original first message, and its parts. */
  first: Message;
  intent: string;
  input: string | null | undefined;
  /** The number of messages that it replaces. */
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
export interface RecentFile {
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
