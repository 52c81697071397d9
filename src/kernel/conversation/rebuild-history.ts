/** Rebuilds a run's conversation from its events. */

import { type Message, SyscallError } from "../../plugin/index.ts";
import type { RunEvent } from "../../run/events.ts";
import { type OpenStep, stepCutOff } from "../../run/open-step.ts";
import type { RunState } from "../../run/state.ts";
import type { Compaction } from "../../store/runs/schema.ts";
import { toolMessage } from "./conversations.ts";

/** The messages of the recorded steps, as the model is sent them, and the last summary of replaced ones. */
export interface Conversation {
  messages: Message[];
  summary: Compaction["summary"];
}

/** Adds what an event adds to the conversation, and returns it. */
export function converse(conversation: Conversation, event: RunEvent): Conversation {
  if (event.t === "compact") {
    conversation.messages = applyCompaction(conversation.messages, event.compaction);
    conversation.summary = event.compaction.summary ?? conversation.summary;
  } else if (event.t === "step") {
    const { messages, tool_calls } = event.record;
    conversation.messages.push(...messages, ...tool_calls.map(toolMessage));
  }
  return conversation;
}

/**
 * Applies a compaction to a conversation. The live run and the rebuild from records use the same function. Messages
 * that were appended since stay unchanged.
 */
export function applyCompaction(
  messages: readonly Message[],
  { cut, summary }: Pick<Compaction, "cut" | "summary">,
): Message[] {
  const all = messages.slice();
  for (const { at, content } of cut) {
    const message = all[at];
    if (message) all[at] = { ...message, content };
  }
  return summary ? [summary.message, ...all.slice(summary.to)] : all;
}

/** A run's conversation from its records. Every call has a result, as providers require. */
export interface SavedHistory {
  /** The last step with a record; 0 when there is none. */
  step: number;
  /** All messages up to the point where the run resumes. */
  messages: Message[];
  /** The last messages, which are in no record yet. */
  unrecorded: Message[];
  /** The messages sent for the last recorded answer, and their tokens. */
  asked: { messages: Message[]; tokens: number } | null;
  /** Compactions after the last recorded step. */
  compactions: Compaction[];
  /** The last summary of replaced messages. */
  summary: Compaction["summary"];
  openStep: OpenStep | null;
  /** The model paused in the last recorded step: it is called again with no new message. */
  paused: boolean;
}

/**
 * Returns the conversation of a run up to its last event. `first` is the first message, for a run that was interrupted
 * before anything was recorded. Fails with INVALID if a step in the middle can't be read.
 */
export function rebuildHistory(
  { recorded, gap, last, open }: RunState,
  { messages, summary }: Conversation,
  first: Message | undefined,
): SavedHistory {
  if (gap !== null) throw unreadStep(gap);
  const compactions = open.flatMap((event) => (event.t === "compact" ? event.compaction : []));
  const read = open.find((event) => event.t === "read");
  const unrecorded = read?.messages ?? (!last && first ? [first] : []);
  const openStep = stepCutOff(open);
  return {
    step: recorded,
    messages: [...messages, ...unrecorded],
    unrecorded,
    asked: last && compactions.length === 0 ? lastAsked(messages, last) : null,
    compactions,
    summary,
    openStep,
    paused: !openStep && unrecorded.length === 0 && last?.stop_reason === "paused",
  };
}

function lastAsked(
  recorded: readonly Message[],
  { tool_calls, usage }: NonNullable<RunState["last"]>,
): SavedHistory["asked"] {
  return { messages: recorded.slice(0, -(1 + tool_calls.length)), tokens: usage.input_tokens };
}

/** Steps count from 1; a gap is a lost line. */
function unreadStep(step: number): SyscallError {
  const message = `Step ${step} can't be read in steps.jsonl, so the run can't be resumed. \`rnix steps\` lists the readable steps, and \`rnix resume UUID --fork --from-step N\` starts a new run after an earlier step.`;
  return new SyscallError("INVALID", message);
}
