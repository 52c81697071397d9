/** An event of a run as clients get it: in short, and with its body. */

import { callTitle, cutTitle, didTitle, firstLine } from "../../lib/call-title.ts";
import type { StoryLine } from "../../protocol/methods.ts";
import type { InboxLine } from "../../store/runs/schema.ts";
import type { StoryEvent } from "../../store/runs/story.ts";

/** Characters of a title. */
const MAX_TITLE = 120;

type Short = Omit<StoryLine, "n" | "t" | "ts" | "step" | "body">;

/** `cwd`: paths below it are shown relative to it. The same event has the same line, whichever file it is read from. */
export function storyLine(event: StoryEvent, cwd: string, bodies: boolean): StoryLine {
  const short = shortOf(event, cwd);
  const ts = event.t === "inbox" ? tsOf(event.line) : "line" in event ? event.line.ts : event.ts;
  return {
    n: event.n ?? null,
    t: event.t,
    ...(ts !== undefined && { ts }),
    ...("step" in event && { step: event.step }),
    ...short,
    ...(short.title !== undefined && { title: cutTitle(short.title, MAX_TITLE) }),
    ...(bodies && { body: bodyOf(event) }),
  };
}

function shortOf(event: StoryEvent, cwd: string): Short {
  switch (event.t) {
    case "read":
      return { title: firstLine(event.messages.at(-1)?.content ?? "") };
    case "answer": {
      const { input_tokens, output_tokens } = event.usage;
      return { title: firstLine(event.message.content), tokens: input_tokens + output_tokens };
    }
    case "call_start":
      return { id: event.id, title: callTitle(event, cwd) };
    case "call_end": {
      const { id, state, duration_ms } = event.call;
      return { id, title: callTitle(event.call, cwd), status: state, duration_ms };
    }
    case "waiting":
      return { id: event.id, status: event.on.on };
    case "verdict":
      return { id: event.id, status: event.verdict.verdict };
    case "compact":
      return { status: event.compaction.why };
    case "switch":
      return { title: `${event.to.provider}/${event.to.model}` };
    case "step": {
      const { action, summary, tool_calls, tokens_used } = event.record;
      const title = tool_calls.length === 0 ? firstLine(summary) : didTitle(tool_calls, cwd);
      const duration_ms = Math.round(tool_calls.reduce((sum, call) => sum + call.duration_ms, 0));
      return { title, status: action, duration_ms, tokens: tokens_used };
    }
    case "state":
      return { status: event.state, pid: event.pid };
    case "inbox":
      return { status: event.line.kind, title: firstLine(textOf(event.line)) };
    case "change":
      return { status: event.line.t, ...("path" in event.line && { title: firstLine(event.line.path) }) };
    case "unit": {
      const { line } = event;
      if (!("snapshot" in line)) return { id: line.id, status: line.t };
      return { id: line.snapshot.id, status: line.t, title: firstLine(line.snapshot.description) };
    }
    default:
      return titleIn(event);
  }
}

/** The title of an event that no case above covers. */
function titleIn(event: object): Short {
  return "text" in event && typeof event.text === "string" ? { title: firstLine(event.text) } : {};
}

/** What the short form leaves out. The body of a step is that of the events before it. */
function bodyOf(event: StoryEvent): unknown {
  switch (event.t) {
    case "answer": {
      const { message, reasoning, usage, interrupted } = event;
      return { message, reasoning, usage, interrupted };
    }
    case "call_start":
      return { name: event.name, path: event.path, input: event.input };
    case "call_end":
      return event.call;
    case "compact":
      return event.compaction;
    case "step": {
      const { children, so_far, stop_reason, stop_word, interrupted, after_check } = event.record;
      return { children, so_far, stop_reason, stop_word, interrupted, after_check };
    }
    case "inbox":
    case "change":
    case "unit":
      return withoutNumbers(event.line);
    default:
      return withoutNumbers(event);
  }
}

function withoutNumbers(line: object): object {
  const head = new Set(["v", "n", "p", "t", "ts", "step"]);
  return Object.fromEntries(Object.entries(line).filter(([key]) => !head.has(key)));
}

function tsOf(line: InboxLine): string | undefined {
  return "ts" in line ? line.ts : undefined;
}

function textOf(line: InboxLine): string {
  if (line.kind === "taken" || line.kind === "keys") return "";
  return line.kind === "message" ? line.data : line.text;
}
