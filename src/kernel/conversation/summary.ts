import { framed } from "../../lib/frame.ts";
import type { Message } from "../../plugin/index.ts";
import { estimateTokens } from "../budget/token-estimate.ts";
import { clipText } from "./clip-text.ts";
import { firstMessage } from "./first-message.ts";

/** What stands in for the beginning of a conversation. The intent and what came with it are said again, word for word. */
interface SummaryParts {
  /** The conversation's first message as it was, and what it is made of. */
  first: Message;
  intent: string;
  input: string | null | undefined;
  /** Messages that it stands for. */
  replaced: number;
  text: string;
  plan: string | null;
  /** The last words from outside among those. */
  heard: string | null;
  /** Loaded on the way; what the agent was given at its start is in the head of the prompt. */
  skills: readonly { name: string; body: string }[];
  files: readonly RecentFile[];
}

/** A file that was read; with what was read of it, where it has not been changed since and there is room for it. */
export interface RecentFile {
  path: string;
  content?: string;
}

/** What each part may take of the tokens that there are for the whole. */
export const SHARES = { first: 0.3, text: 0.2, plan: 0.1, heard: 0.1, skills: 0.25, files: 0.25 } as const;

/** However tight it is, each part has so many tokens: an intent is mostly shorter. */
const LEAST = 150;

/** The message, in about so many tokens. `where`: where the whole of the first message is, if that is cut. */
export function summaryMessage(parts: SummaryParts, tokens: number, where: string): Message {
  const { replaced, text, plan, heard, skills, files } = parts;
  const room = (part: keyof typeof SHARES): number => Math.max(LEAST, tokens * SHARES[part]);
  const eachSkill = room("skills") / Math.max(1, skills.length);
  const sections = [
    opening(parts, room("first"), where),
    `[This conversation was compacted: ${replaced} messages are not in it any more, and what follows stands for them. What it says was done is done. Go on from there.]`,
    framed("summary", clipText(text, room("text"))),
    plan === null ? "" : framed("plan", clipText(plan, room("plan"))),
    heard === null ? "" : framed("last_message_to_you", clipText(heard, room("heard"))),
    ...skills.map(({ name, body }) => framed("skill", clipText(body, eachSkill), { name })),
    filesSection(files),
  ];
  return { ...parts.first, role: "user", content: sections.filter((one) => one !== "").join("\n\n") };
}

/** A cut never takes an end of the frame that holds what was attached. */
function opening({ first, intent, input }: SummaryParts, tokens: number, where: string): string {
  if (input === null || input === undefined || estimateTokens(first.content) <= tokens)
    return clipText(first.content, tokens, where);
  const said = clipText(intent, tokens / 2, where);
  return firstMessage(said, clipText(input, tokens - estimateTokens(said), where)).content;
}

/** What its model is told at the end of the conversation. It is to answer in words. */
export function instruction(words: number): Message {
  return {
    role: "user",
    content: `[From rnix, not from the user] This conversation has become too long and is about to be replaced by your summary of it. Do not go on with the work and call no tool now: answer with the summary alone, at most ${words} words. You will go on from it and can look at nothing else of what was said. Write down, with exact names, paths, numbers and commands: what was asked for and every rule you were given since; what you have done and changed so far, and what came of it; what you have found out, and where; what failed and why; what you have decided and why; what is left to do, and the very next step.`,
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
