/** Formats the log entries of a run for the terminal. */

import type { AskVerdict, StreamEvent } from "../../protocol/methods.ts";
import { verdictLine } from "../questions/question-text.ts";
import { callText } from "./call-text.ts";
import { endText } from "./end.ts";
import { cut, firstLines, oneLine, printable } from "./format.ts";
import type { Style } from "./style.ts";

export type LogEntry = Extract<StreamEvent, { type: "log_entry" }>["payload"];

/** Lines of one tool result that are shown; `rnix steps PID N` has the whole. */
const RESULT_LINES = 12;

/** Columns of a tool call, and of one of several values in it. */
const CALL = 160;
const VALUE = 60;

/** Formats one entry of a run's log, with its newline. */
export function logEntry({ kind, text, end, call }: LogEntry, style: Style): string {
  if (end) return endText(end, style);
  const clean = printable(text).trim();
  if (clean === "") return "";
  switch (kind) {
    case "thought":
      return `${style.dim(indent(clean, "  "))}\n`;
    case "text":
    case "end":
      return `${clean}\n`;
    case "tool":
      return `${style.cyan(`  ${style.glyph.tool} `)}${call ? writtenCall(call) : toolCall(clean)}\n`;
    case "result":
      return `${resultText(clean, call, style)}\n`;
    case "inbox":
      return `${style.yellow(indent(head(clean), "  "))}\n`;
    case "compact":
    case "model":
    case "unit":
      return `${style.yellow(indent(clean, "  "))}\n`;
  }
}

/**
 * Prints the entries of one run in order. Parallel calls start together and end in any order, and a call that is refused
 * has no start: each result is printed below the line of its own call.
 */
export class LogText {
  readonly #style: Style;
  /** The call whose line was printed last. */
  #call: string | undefined;

  constructor(style: Style) {
    this.#style = style;
  }

  of(entry: LogEntry): string {
    const { kind, call } = entry;
    const asked = kind === "result" ? askedText(call?.asked, this.#style) : "";
    const text = asked + logEntry(entry, this.#style);
    if (call === undefined || text === "") return text;
    const isBelow = this.#call === call.id;
    this.#call = call.id;
    if (kind !== "result" || isBelow) return text;
    const line = `${call.name} ${call.path ?? ""} ${JSON.stringify(call.input)}`;
    return logEntry({ ...entry, kind: "tool", text: line }, this.#style) + text;
  }
}

/** What a person was asked about a call, with the verdicts. */
function askedText(asked: AskVerdict[] | undefined, style: Style): string {
  return (asked ?? []).map((verdict) => `    ${verdictLine(verdict, style)}\n`).join("");
}

export function stepTitle(step: number, total: number | null, style: Style): string {
  const of = total === null ? "" : `/${total}`;
  return `${style.bold(`${style.glyph.step} step ${step}${of}`)}\n`;
}

/** A call as a person would write it. A command of several lines keeps them. */
function writtenCall({ name, input }: NonNullable<LogEntry["call"]>): string {
  const { name: shown, argument } = callText(name, input);
  const lines = head(argument).split("\n");
  const [first = "", ...rest] = lines.map((line) => cut(line.trimEnd(), CALL));
  return [
    `${shown} ${first}`.trimEnd(),
    ...rest.map((line) => `${" ".repeat(5 + shown.length)}${line}`),
  ].join("\n");
}

/** A failure begins with its status: its text alone could be a result. */
function resultText(text: string, call: LogEntry["call"], style: Style): string {
  const failure = call && FAILURES.get(call.state);
  const shown = indent(head(failure === undefined ? text : `${failure}: ${text}`), "    ");
  return failure === undefined ? style.dim(shown) : style.red(shown);
}

const FAILURES = new Map<string, string>([
  ["failed", "failed"],
  ["denied", "denied"],
  ["cancelled", "stopped"],
  ["unknown", "unknown outcome"],
]);

/** `Bash /dev/shell {"command":"ls"}` as `Bash ls`: the input's values, where it is whole and short. */
function toolCall(text: string): string {
  const [, name = "", input = ""] = /^(\S+) \S* ?(\{.*\})$/s.exec(text) ?? [];
  const fields = name === "" ? null : parseFields(input);
  if (fields === null) return oneLine(text, CALL);
  const [only] = fields;
  if (fields.length === 1 && only !== undefined) return `${name} ${oneLine(only[1], CALL)}`;
  return oneLine(
    `${name} ${fields.map(([key, value]) => `${key}=${oneLine(value, VALUE)}`).join(" ")}`,
    CALL,
  );
}

function parseFields(input: string): [string, string][] | null {
  try {
    const fields: unknown = JSON.parse(input);
    if (typeof fields !== "object" || fields === null) return null;
    return Object.entries(fields).map(([key, value]): [string, string] => [
      key,
      typeof value === "string" ? value : JSON.stringify(value),
    ]);
  } catch {
    // Truncated JSON is shown unchanged.
    return null;
  }
}

function head(text: string): string {
  return firstLines(text.split("\n"), RESULT_LINES).join("\n");
}

function indent(text: string, space: string): string {
  return space + text.replaceAll("\n", `\n${space}`);
}
