/** Shows a run as plain lines. */

import { unitLine } from "../../daemons/unit-line.ts";
import { lastAttempt } from "../../lib/check-attempts.ts";
import type { AskUser, ChildState, ProgressPayload, Receipt, StreamEvent } from "../../protocol/methods.ts";
import type { Io } from "../io.ts";
import { answerHint, askedLine, askerText, closedLine } from "../questions/question-text.ts";
import { checkText, receiptText, whyText } from "./end.ts";
import { formatCost, formatCount, formatElapsed, oneLine, printable } from "./format.ts";
import { type LogEntry, LogText, stepTitle } from "./log.ts";
import type { RunOutput } from "./run-output.ts";
import { type Style, styleOf } from "./style.ts";
import { resumeCommand } from "./suspension.ts";

/** Columns shown of the intent of a supervisor or a program. */
const INTENT_WIDTH = 200;

/** Columns of a call that is asked about. */
const ASKED_WIDTH = 160;

/**
 * Shows a run as plain lines: progress on stderr, the answer alone on stdout. A terminal shows the model's words as
 * they arrive, and an answer shown that way is not printed again.
 */
export class PlainView implements RunOutput {
  readonly io: Io;
  readonly left = new Promise<null>(() => {});
  readonly #quiet: boolean;
  readonly #resumeFlags: readonly string[];
  /** The answer goes to stdout as text; else stdout belongs to JSON. */
  readonly #printsAnswer: boolean;
  readonly #style: Style;
  readonly #log: LogText;
  /** The output for streamed words: stdout only if it is a terminal. */
  readonly #words: Io["stdout"] | null;
  #streamed = { step: 0, text: "" };
  /** The reasoning that arrives: the step, and the line that is not complete. */
  #thought = { step: 0, rest: "" };
  #midLine = false;
  /** Notices printed before the run began: its events repeat them. */
  readonly #warned = new Set<string>();
  #held: LogEntry | undefined;
  /** The step of each child that was printed last, by UUID. */
  readonly #childSteps = new Map<string, number>();
  /** Why the last attempt failed: the same reason is not printed twice in a row. */
  #lastFailure: string | undefined;

  /** `resumeFlags`: what the command that resumes the run needs. */
  constructor(io: Io, o: { quiet: boolean; answer: boolean; resumeFlags?: readonly string[] }) {
    this.io = io;
    this.#quiet = o.quiet;
    this.#resumeFlags = o.resumeFlags ?? [];
    this.#printsAnswer = o.answer;
    this.#style = styleOf(io, io.stderr);
    this.#log = new LogText(this.#style);
    this.#words = wordsOutput(io, o);
  }

  show(event: StreamEvent): void {
    switch (event.type) {
      case "progress":
        this.#progress(event.payload);
        break;
      case "text_delta":
        this.#text(event.payload.step, event.payload.text);
        break;
      case "reasoning_delta":
        this.#reasoning(event.payload.step, event.payload.text);
        break;
      case "log_entry":
        this.#entry(event.payload);
        break;
      case "complete":
        if (this.#printsAnswer && this.#held?.text.trim() === event.payload.result?.trim())
          this.#held = undefined;
        this.#printPending();
        this.#answer(event.payload);
        this.#summary(event.payload);
        break;
      case "ask_user":
        this.#asked(event.payload);
        break;
      case "ask_closed":
        this.#printProgress(closedLine(event.payload, this.#style));
        break;
      // The result has it.
      case "tool_output":
      case "error":
      case "syscall_event":
      case "eof":
        break;
    }
  }

  say(line: string): void {
    this.#printPending();
    this.#endLine();
    this.io.stderr.write(`${line}\n`);
  }

  notice(text: string): void {
    if (this.#warned.delete(text)) return;
    this.#printProgress(this.#style.yellow(`note: ${printable(text)}`));
  }

  warn(notice: string): void {
    this.#warned.add(notice);
    this.say(this.#style.yellow(`note: ${notice}`));
  }

  listen(): void {}

  async close(): Promise<void> {}

  #printProgress(line: string): void {
    if (!this.#quiet) this.say(line);
  }

  /** A question that this command can't answer. */
  #asked(ask: AskUser): void {
    const what = askedLine(ask, ASKED_WIDTH);
    this.#printProgress(
      this.#style.yellow(`? ${askerText(ask)} needs an answer: ${what}\n  ${answerHint(ask)}`),
    );
  }

  #progress(payload: ProgressPayload): void {
    const { dim, yellow } = this.#style;
    switch (payload.event) {
      case "spawn":
        this.#printProgress(`${dim(`process ${payload.pid}  ${payload.uuid}`)}\n${whatRuns(payload)}`);
        break;
      case "step":
        this.#lastFailure = undefined;
        this.#printProgress(
          stepTitle(payload.step, payload.total, this.#style).trimEnd() + spent(payload, this.#style),
        );
        break;
      case "retry":
        // The text of the failed attempt is not part of the next one.
        this.#endLine();
        this.#streamed = { step: 0, text: "" };
        this.#printProgress(yellow(`  ${retryLine(payload, this.#lastFailure)}`));
        this.#lastFailure = payload.message;
        break;
      case "notice":
        this.notice(payload.text);
        break;
      case "unit": {
        const line = unitLine(payload.op, payload.snapshot);
        if (line !== null) this.notice(line);
        break;
      }
      case "child":
        this.#child(payload.child);
        break;
      // For views that redraw: lines would repeat what the log's entries say.
      case "activity":
      case "usage":
      case "message":
      case "checklist":
      case "mode":
        break;
    }
  }

  /** A line for each step of a child that a call of Agent waits for; its own log has the rest. */
  #child({ pid, uuid, agent, call_id, step, max_steps, tokens_used }: ChildState): void {
    if (call_id === null || step === 0 || this.#childSteps.get(uuid) === step) return;
    this.#childSteps.set(uuid, step);
    const of = max_steps === null ? "" : `/${max_steps}`;
    this.notice(`Agent: process ${pid} (${agent}), step ${step}${of}, ${tokens_used} tokens`);
  }

  #text(step: number, text: string): void {
    if (this.#words === null) return;
    this.#printPending();
    if (step !== this.#streamed.step) {
      this.#endLine();
      this.#streamed = { step, text: "" };
    }
    this.#streamed.text += text;
    const shown = printable(text);
    this.#words.write(shown);
    if (shown !== "") this.#midLine = !shown.endsWith("\n");
  }

  /** At a terminal the reasoning is printed line by line as it arrives, and so before the text that it leads to. */
  #reasoning(step: number, text: string): void {
    if (this.#words === null || this.#quiet) return;
    this.#endLine();
    this.#thought = { step, rest: this.#thought.rest + text };
    const { rest } = this.#thought;
    const end = rest.lastIndexOf("\n");
    if (end < 0) return;
    this.#thought.rest = "";
    this.#printThought(rest.slice(0, end));
    this.#thought.rest = rest.slice(end + 1);
  }

  #printThought(text: string): void {
    if (text.trim() === "") return;
    this.#printEntry({ ts: "", step: this.#thought.step, kind: "thought", text });
  }

  #entry(entry: LogEntry): void {
    if (entry.kind === "thought" && this.#words !== null && this.#thought.step === entry.step) return;
    // Text that was streamed is not printed again.
    if (entry.kind === "text" && this.#words !== null && this.#streamed.step === entry.step) return;
    // The last text may be the answer, which belongs on stdout: what is printed next decides.
    this.#printPending();
    if (entry.kind === "text") this.#held = entry;
    else this.#printEntry(entry);
  }

  /** Prints what waited for the next line: a text that is not the answer, the last words of a thought. */
  #printPending(): void {
    const held = this.#held;
    const thought = this.#thought.rest;
    this.#held = undefined;
    this.#thought.rest = "";
    this.#printThought(thought);
    if (held !== undefined) this.#printEntry(held);
  }

  #printEntry(entry: LogEntry): void {
    const text = this.#log.of(entry);
    if (text !== "") this.#printProgress(text.trimEnd());
  }

  #answer({ result }: Receipt): void {
    this.#endLine();
    if (!this.#printsAnswer || result === null || result === "") return;
    const { stdout } = this.io;
    if (this.#words === stdout && this.#streamed.text.trim() === result.trim()) return;
    const text = stdout.isTTY ? printable(result) : result;
    stdout.write(text.endsWith("\n") ? text : `${text}\n`);
  }

  #summary(receipt: Receipt): void {
    const style = this.#style;
    for (const check of lastAttempt(receipt.checks)) {
      const text = checkText(check, style);
      if (check.exit_code === 0) this.#printProgress(text);
      else this.say(text);
    }
    const partial = receipt.partial && receipt.result ? " (the text above is not a finished answer)" : "";
    const resume = resumeCommand(receipt.uuid, this.#resumeFlags);
    const why = whyText(receipt, style, { more: partial, resume });
    if (why !== null) this.say(why);
    this.#printProgress(receiptText(receipt, style));
  }

  #endLine(): void {
    if (!this.#midLine) return;
    this.#midLine = false;
    this.#words?.write("\n");
  }
}

function wordsOutput(io: Io, o: { quiet: boolean; answer: boolean }): Io["stdout"] | null {
  if (o.answer && io.stdout.isTTY) return io.stdout;
  return io.stderr.isTTY && !o.quiet ? io.stderr : null;
}

/** The chosen provider and why, printed before the first step. Supervisors and programs have none. */
function whatRuns(o: {
  provider: string;
  model: string;
  because: string;
  agent: string;
  base?: { ref: string; commit: string };
  intent: string;
}): string {
  if (o.provider === "") return `${o.agent} ${oneLine(o.intent, INTENT_WIDTH)}`;
  const why = o.because === "" ? "" : ` (${o.because})`;
  const base = o.base ? `, base ${o.base.ref} (${o.base.commit.slice(0, 12)})` : "";
  return `provider ${o.provider}${why}, model ${o.model}, agent ${o.agent}${base}`;
}

/** Why the attempt failed, when it is retried, and for how long. */
function retryLine(
  { attempt, message, delay_ms, left_ms }: Extract<ProgressPayload, { event: "retry" }>,
  lastFailure: string | undefined,
): string {
  const why =
    message === lastFailure ? " with the same error" : `: ${printable(message).replace(/[.\s]+$/, "")}`;
  const next = `retry in ${formatElapsed(delay_ms)}, for at most ${formatElapsed(left_ms)} more`;
  return `attempt ${attempt} failed${why}; ${next}`;
}

/** " · 1.2k tokens · $0.01": what the run has used so far. */
function spent(o: { tokens_used: number; cost_usd: number | null }, style: Style): string {
  if (o.tokens_used === 0) return "";
  const parts = [
    `${formatCount(o.tokens_used)} tokens`,
    ...(o.cost_usd === null ? [] : [formatCost(o.cost_usd)]),
  ];
  return style.dim(`${style.glyph.dot}${parts.join(style.glyph.dot)}`);
}
