/** Formats the blocks of a transcript as plain lines: for a pipe, a log, and a terminal that is not drawn on. */

import { callText } from "../output/call-text.ts";
import { cut, firstLines, formatCost, formatCount, oneLine, printable } from "../output/format.ts";
import type { Style } from "../output/style.ts";
import { verdictLine } from "../questions/question-text.ts";
import type { Block, Change, LoggedCall, RunHead } from "./transcript.ts";

/** Lines of one tool result that are shown; `rnix steps PID N` has the whole. */
const RESULT_LINES = 12;
/** Characters of a result that are looked at. */
const RESULT_CHARS = 2000;
/** Columns of one line of a tool call. */
const CALL = 160;
/** Columns shown of the intent of a supervisor or a program. */
const INTENT_WIDTH = 200;

/**
 * Parallel calls start together and end in any order, and a call that is refused has no start: each result is printed
 * below the line of its own call.
 */
export class BlockText {
  readonly #style: Style;
  /** The call whose line was printed last. */
  #call: string | undefined;

  constructor(style: Style) {
    this.#style = style;
  }

  /** The lines of a part, without the last newline; "" for none. */
  of(block: Exclude<Block, { kind: "end" }>): string {
    const { dim, yellow } = this.#style;
    switch (block.kind) {
      case "head":
        return headText(block.run, this.#style);
      case "thought":
        return dim(indent(clean(block.text), "  "));
      case "call":
        return this.#result(block.call);
      case "reads":
        return block.calls
          .map((call) => this.#result(call))
          .filter(Boolean)
          .join("\n");
      case "message": {
        const from = typeof block.from === "number" ? `from process ${block.from}: ` : "";
        return yellow(indent(head(clean(from + block.text)), "  "));
      }
      case "note": {
        const text = clean(block.text);
        return yellow(block.tone === "warning" ? `note: ${text}` : indent(text, "  "));
      }
      // Its unit is named in a note.
      case "agent":
        return "";
    }
  }

  /** The line of a call that starts, as a person would write it. A command of several lines keeps them. */
  started({ id, name, input }: LoggedCall): string {
    this.#call = id;
    const { name: shown, argument } = callText(name, input);
    const lines = head(argument).split("\n");
    const [first = "", ...rest] = lines.map((line) => cut(line.trimEnd(), CALL));
    const { cyan, glyph } = this.#style;
    return [
      cyan(`  ${glyph.tool} `) + `${shown} ${first}`.trimEnd(),
      ...rest.map((line) => `${" ".repeat(5 + shown.length)}${line}`),
    ].join("\n");
  }

  /** What a person was asked about the call, and its result. A failure begins with its status. */
  #result(call: LoggedCall): string {
    const { dim, red } = this.#style;
    const isBelow = this.#call === call.id;
    const asked = (call.asked ?? []).map((verdict) => `    ${verdictLine(verdict, this.#style)}`);
    const text = clean([call.error, call.result].filter(Boolean).join("\n").slice(0, RESULT_CHARS));
    const failure = FAILURES.get(call.state);
    const shown = indent(head(failure === undefined ? text : `${failure}: ${text}`), "    ");
    const lines = [...asked, ...(text === "" ? [] : [failure === undefined ? dim(shown) : red(shown)])];
    if (lines.length === 0) return "";
    return [...(isBelow ? [] : [this.started(call)]), ...lines].join("\n");
  }
}

/** "● step 1/3 · 1.2k tokens · $0.01": what the run has used so far. */
export function stepText({ step, total, used }: Extract<Change, { type: "step" }>, style: Style): string {
  const of = total === null ? "" : `/${total}`;
  const title = style.bold(`${style.glyph.step} step ${step}${of}`);
  if (used === null || used.tokens === 0) return title;
  const parts = [
    `${formatCount(used.tokens)} tokens`,
    ...(used.costUsd === null ? [] : [formatCost(used.costUsd)]),
  ];
  return title + style.dim(`${style.glyph.dot}${parts.join(style.glyph.dot)}`);
}

/** Text of a model or a program, without what acts on a terminal and without space at its ends. */
export function clean(text: string): string {
  return printable(text).trim();
}

/** The process, the chosen provider and why. Supervisors and programs have none. */
function headText(
  { pid, uuid, provider, because, model, agent, base, intent }: RunHead,
  style: Style,
): string {
  const why = because === "" ? "" : ` (${because})`;
  const from = base ? `, base ${base.ref} (${base.commit.slice(0, 12)})` : "";
  const what =
    provider === ""
      ? `${agent} ${oneLine(intent, INTENT_WIDTH)}`
      : `provider ${provider}${why}, model ${model}, agent ${agent}${from}`;
  return `${style.dim(`process ${pid}  ${uuid}`)}\n${what}`;
}

const FAILURES = new Map<string, string>([
  ["failed", "failed"],
  ["denied", "denied"],
  ["cancelled", "stopped"],
  ["unknown", "unknown outcome"],
]);

function head(text: string): string {
  return firstLines(text.split("\n"), RESULT_LINES).join("\n");
}

function indent(text: string, space: string): string {
  return text === "" ? "" : space + text.replaceAll("\n", `\n${space}`);
}
