/** The outcome of a tool call: its status in words, the lines of its result that are shown, and how many are not. */

import type { AskReply } from "../../../plugin/index.ts";
import { formatCount, plural } from "../../output/format.ts";
import type { CallBlock } from "../../transcript/transcript.ts";
import { plainLines } from "../look.ts";
import { type DiffLine, editDiff } from "./diff.ts";

export interface Outcome {
  /** Why it failed, for the call's own line: "exited 2", "denied". null: it did not fail. */
  failure: string | null;
  /** Quiet facts for the call's own line: "120 lines", "+2 -1". */
  facts: string[];
  lines: string[];
  diff: DiffLine[] | null;
  /** Which end of the lines is shown when they are too many. */
  keep: "first" | "last";
  /** How many lines are shown unless all are asked for. */
  most: number;
  /** Long lines are wrapped: each word matters. Else they are cut. */
  isProse: boolean;
}

/** Lines of a command's output that are shown, while it runs and afterwards. */
export const TAIL_LINES = 5;
const FAILED_LINES = 10;
const HEAD_LINES = 5;
const WRITE_LINES = 6;

export function outcomeOf(call: CallBlock): Outcome {
  if (call.state !== "done") return failed(call);
  const result = call.result ?? "";
  return OUTCOMES.get(call.name)?.(result, call) ?? shown(SILENT.has(call.name) ? [] : linesOf(result));
}

const OUTCOMES = new Map<string, (result: string, call: CallBlock) => Outcome>([
  ["Bash", ofCommand],
  ["Read", readCounts],
  ["Edit", ofEdit],
  ["Write", ofWrite],
  ["Glob", ofSearch],
  ["Grep", ofSearch],
  ["Agent", ofAgent],
  ["Plan", (result) => shown(linesOf(result.replace(/^.*:\n/, "")), { most: 20, isProse: true })],
  ["AskUser", ofQuestions],
]);
/** The list above the status shows the tasks. */
const SILENT = new Set(["TaskCreate", "TaskUpdate", "Skill", "SendMessage", "ToolSearch", "Complete"]);

function shown(lines: string[], o: Partial<Outcome> = {}): Outcome {
  return {
    failure: null,
    facts: [],
    diff: null,
    keep: "first",
    most: HEAD_LINES,
    isProse: false,
    ...o,
    lines,
  };
}

function failed(call: CallBlock): Outcome {
  const text = call.error ?? call.result ?? "";
  const lines = linesOf(text);
  if (call.state === "cancelled")
    return shown(linesOf(call.result ?? call.tail), { failure: "stopped", keep: "last", most: TAIL_LINES });
  if (call.state === "waiting") return shown([], { facts: ["waiting"] });
  const failure = FAILURES.get(call.state) ?? FAILURES.get(call.error_code ?? "") ?? "failed";
  return shown(lines, { failure, most: FAILED_LINES, isProse: true });
}

/** By the state of a call, and by the code of its error. */
const FAILURES = new Map([
  ["denied", "denied"],
  ["unknown", "may or may not have happened"],
  ["TIMEOUT", "timed out"],
  ["PERMISSION", "denied"],
  ["CANCELLED", "stopped"],
  ["NOT_FOUND", "not found"],
]);

/** The shell names the end of a command in the last line of its output. */
function ofCommand(result: string): Outcome {
  const [end = "", code, signal] =
    /\n?\[(?:exit code (\d+)|(ended by signal \S+)|timed out after \d+ ms[^\]]*)\]\s*$/.exec(result) ?? [];
  const lines = linesOf(result.slice(0, result.length - end.length).replace(/^\[no output\]$/, ""));
  const failure = end === "" ? null : code === undefined ? (signal ?? "timed out") : `exited ${code}`;
  const most = failure === null ? TAIL_LINES : FAILED_LINES;
  const facts = lines.length === 0 && failure === null ? ["no output"] : [];
  return shown(lines, { failure, keep: "last", most, facts });
}

/** The last line of the answer says what the agent has used. */
function ofAgent(result: string): Outcome {
  const [end = "", steps, tokens] =
    /\s*\[process \d+, agent [^\]]*?, (\d+ steps?), (\d+) tokens\]\s*$/.exec(result) ?? [];
  const facts = steps === undefined ? [] : [steps, `${formatCount(Number(tokens))} tokens`];
  return shown(linesOf(result.slice(0, result.length - end.length)), { facts, isProse: true });
}

/** Each question with its answer. A result that was truncated for the model is shown as it is. */
function ofQuestions(result: string): Outcome {
  const reply = replyOf(result);
  if (reply === null) return shown(linesOf(result));
  const lines = reply.answers.map(
    ({ question, answer }) => `${question} ${answer.join(", ") || "(no answer)"}`,
  );
  const facts = reply.by === "user" ? [] : [reply.by];
  return shown(lines.flatMap(linesOf), { facts, most: 10, isProse: true });
}

function replyOf(result: string): AskReply | null {
  try {
    const reply: Partial<AskReply> = JSON.parse(result);
    const { answers, by } = reply;
    return Array.isArray(answers) && by !== undefined ? { answers, by } : null;
  } catch {
    return null;
  }
}

function readCounts(result: string): Outcome {
  const lines = linesOf(result);
  const count = lines.filter((line) => /^\s*\d+ {4}|^\s*\d+$/.test(line)).length;
  const remark = lines.find((line) => /^\[.*\]$/.test(line));
  const facts = count > 0 ? [plural(count, "line")] : remark === undefined ? [] : [remark.slice(1, -1)];
  return shown(lines, { facts, most: 0 });
}

function ofEdit(result: string, { input }: CallBlock): Outcome {
  const diff = editDiff(result);
  if (diff === null) {
    const created = typeof input.new_string === "string" ? linesOf(input.new_string) : linesOf(result);
    return shown([], { facts: ["new file", `+${created.length}`], diff: added(created), most: WRITE_LINES });
  }
  const [plus, minus] = ["+", "-"].map((mark) => diff.filter((line) => line.mark === mark).length);
  return shown([], { facts: [`+${plus} -${minus}`], diff, most: 30 });
}

function ofWrite(result: string, { input }: CallBlock): Outcome {
  const lines = typeof input.content === "string" ? linesOf(input.content) : [];
  const isNew = result.startsWith("Created");
  return shown([], {
    facts: [isNew ? "new file" : "replaced", plural(lines.length, "line")],
    diff: added(lines),
    most: WRITE_LINES,
  });
}

function added(lines: string[]): DiffLine[] {
  return lines.map((text, index) => ({ mark: "+", number: index + 1, text }));
}

function ofSearch(result: string, { name, input }: CallBlock): Outcome {
  const lines = linesOf(result);
  const found = lines.filter((line) => line !== "" && !/^\[.*\]$/.test(line)).length;
  const isNone = /^No /.test(result) || found === 0;
  const isContent = name === "Grep" && (input.output_mode === "content" || input.output_mode === "count");
  const facts = [isNone ? "nothing found" : plural(found, isContent ? "line" : "file")];
  return shown(lines, { facts, most: isNone ? 0 : isContent ? HEAD_LINES : 0 });
}

function linesOf(text: string): string[] {
  const lines = plainLines(text);
  return lines.length === 1 && lines[0] === "" ? [] : lines;
}
