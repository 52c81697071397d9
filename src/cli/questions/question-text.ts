/** Formats a question of a run to a person. */

import { fieldLines, visibleInput, visibleLines } from "../../lib/visible-call.ts";
import type { AskClosed, AskedCall, AskUser, AskVerdict } from "../../protocol/methods.ts";
import { callText } from "../output/call-text.ts";
import { firstLines, formatElapsed, oneLine, printable } from "../output/format.ts";
import type { Style } from "../output/style.ts";

/** Maximum lines of a command or input in a question. */
const MAX_LINES = 20;

/** The process that asks: its agent, and for a run below the one that is followed its PID. */
export function askerText({ agent, pid, depth }: AskUser): string {
  return depth === 0 ? printable(agent) : `${printable(agent)} (agent of process ${pid})`;
}

/** What is asked about on one line: `Bash git push`, or the question itself. A new line of a command stays visible, as `\n`. */
export function askedLine({ call, questions }: AskUser, width: number): string {
  if (call) return oneLine(calledText(call).replaceAll("\n", "\\n"), width);
  const more = questions.length > 1 ? ` (and ${questions.length - 1} more)` : "";
  return oneLine(questions[0]?.question ?? "", width - more.length) + more;
}

/** A question that this command can't answer, and how to answer it from another terminal. */
export function unansweredText(ask: AskUser, width: number): string {
  return `? ${askerText(ask)} needs an answer: ${askedLine(ask, width)}\n  ${answerHint(ask)}`;
}

/** How to answer it from another terminal. */
export function answerHint({ request_id, call, questions }: AskUser): string {
  const command = `rnix answer ${request_id}`;
  if (!call) return `${command}${' "…"'.repeat(questions.length)}`;
  const words = questions.flatMap(({ options }) =>
    options.map(({ id }) => id.replace("always_p", "always --p")),
  );
  return `${command} ${words.join(", ").replace(/, no$/, ", or no")}`;
}

/** The tool and its input as a person would write it, with at most MAX_LINES lines. */
export function askedLines(ask: AskUser): readonly string[] {
  return firstLines(wholeLines(ask), MAX_LINES);
}

/** The same with all lines. */
export function wholeLines({ call, questions }: AskUser): string[] {
  if (!call) return questions.flatMap(({ question }) => printable(question).split("\n"));
  const { input_chars: left } = call;
  const note = left === undefined ? [] : [`(its input of ${left} characters is too long to be shown)`];
  return [...calledText(call).split("\n"), ...changeLines(call), ...moreLines(call), ...note];
}

/** Whether `rnix asks` shows only a part of the call, or more lines in one than a person would tell apart. */
export function isLong(ask: AskUser): boolean {
  if (!ask.call) return false;
  const lines = wholeLines(ask);
  const whole = oneLine(lines.join("\\n"), Number.POSITIVE_INFINITY);
  return askedLines(ask).length < lines.length || askedLine(ask, ASKED_CHARS) !== whole;
}

/** Maximum columns of a call in `rnix asks`. */
export const ASKED_CHARS = 2_000;

/** Why it is asked: the rules that match, the file that was really opened, and the model's own reason. */
export function whyLines({ call }: AskUser): string[] {
  if (!call) return [];
  return [
    `asked because ${(call.why ?? call.rules.map((rule) => `of the ask rule ${rule}`)).map(printable).join("; ")}`,
    ...(call.opened === undefined ? [] : [`the file is ${visibleLines(call.opened)}`]),
    ...(call.reason === undefined ? [] : [`the model says: ${printable(call.reason)}`]),
  ];
}

/** "4m58s"; null: the question waits for its conversation. */
export function timeLeft({ until_ms }: Pick<AskUser, "until_ms">, now: number): string | null {
  return until_ms === null ? null : formatElapsed(Math.max(0, until_ms - now));
}

/** How a question ended, for clients that have shown it. */
export function closedLine({ request_id, verdict, by, via, text, parked }: AskClosed, style: Style): string {
  if (parked)
    return style.dim(
      `question ${request_id} waits for you: rnix asks shows it, rnix answer ${request_id} answers it`,
    );
  if (verdict === null || by === null) return style.dim(`question ${request_id} is no longer asked`);
  return style.dim(`question ${request_id}: ${verdictText({ verdict, by, via, text })}`);
}

/** "asked: no by the user (terminal): use make instead  (because `curl` may reach the network)". */
export function verdictLine(verdict: AskVerdict, style: Style): string {
  const because = verdict.why && `because ${verdict.why.join("; ")}`;
  const reason = printable(because ?? verdict.rules.join(", "));
  const why = reason === "" ? "" : style.dim(`  (${reason})`);
  return style.yellow(`asked: ${verdictText(verdict)}`) + why;
}

type Given = Pick<AskVerdict, "verdict" | "by" | "via" | "text">;

function verdictText({ verdict, by, via, text }: Given): string {
  const who = {
    user: `by the user${via ? ` (${printable(via)})` : ""}`,
    on_ask: "as there is no person to ask",
    expiry: "as no answer came in time",
    rule: `by ${printable(via ?? "the answer to another question")}`,
  }[by];
  return `${verdict.replace("_", " in the ")} ${who}${text ? `: ${printable(text)}` : ""}`;
}

/** Characters that a terminal would execute or hide are written out: a program gets them. */
function calledText({ tool, path, input, subject }: AskedCall): string {
  if (tool === null) return `open ${visibleLines(path)}`;
  const shown = Object.keys(input).length > 0 ? input : { subject };
  const { name, argument } = callText(tool, visibleInput(Object.entries(shown)));
  return `${name} ${argument}`.trim();
}

/** The fields that the line of the call does not show whole. */
function moreLines(call: AskedCall): string[] {
  const { old_string, new_string, content, ...others } = call.input;
  return call.tool === null ? [] : fieldLines(others, calledText(call));
}

/** What Edit or Write would change: old lines with "-", new lines with "+". */
function changeLines({ input }: AskedCall): string[] {
  const { old_string, new_string, content } = input;
  const marked = (mark: string, text: unknown): string[] =>
    typeof text === "string" && text !== ""
      ? visibleLines(text)
          .replace(/\n$/, "")
          .split("\n")
          .map((line) => `${mark} ${line}`)
      : [];
  return [...marked("-", old_string), ...marked("+", new_string), ...marked("+", content)];
}
