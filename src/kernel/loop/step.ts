/** The request of a step, and its record. */

import { chatKey } from "../../lib/trace-context.ts";
import { normalizeOutputNames } from "../../os/output.ts";
import type { LLMAnswer, LLMTool, Message, SyscallError } from "../../plugin/index.ts";
import type { Action, StepRecord, ToolCallRecord } from "../../store/runs/schema.ts";
import type { Turns } from "../chat/turns.ts";
import type { ContextManager } from "../context-manager.ts";
import { recordOrFail } from "../errors/kernel-errors.ts";
import type { ModelRequest } from "../llm/model-device.ts";
import type { Process } from "../process/process.ts";
import { traceparentFor } from "../process/traced-env.ts";
import type { Core } from "../tiers/core.ts";
import { toolForModel } from "../tools/tool-catalog.ts";

type JournaledAnswer = LLMAnswer & { served?: true; interrupted?: true };

/** The record of one run, step by step: the journal of an answer before its effects, then the finished step. */
export class StepRecorder {
  readonly #parts: Core;
  readonly #proc: Process;
  readonly #turns: Turns;
  #planned: boolean;
  /** The answer is of a program that calls tools itself: its usage is known at the end of the step. */
  #isServed = false;
  /** The last text of an answer. */
  lastText = "";
  /** The last text of the user. */
  userText = "";

  constructor(parts: Core, proc: Process, turns: Turns) {
    this.#parts = parts;
    this.#proc = proc;
    this.#turns = turns;
    this.#planned = proc.run.plan !== null;
  }

  /** Writes an answer to the journal before anything acts on it. */
  journal(ts: string, message: Message, answer: JournaledAnswer): void {
    const proc = this.#proc;
    if (answer.content !== "") this.lastText = answer.content;
    recordOrFail(() =>
      proc.record.journal({
        t: "answer",
        v: 1,
        step: proc.run.step,
        ts,
        message,
        reasoning: answer.reasoning,
        usage: answer.usage,
        stop_reason: answer.stop_reason,
        stop_word: answer.stop_word,
        so_far: proc.usageSoFar,
        messages: proc.conversation.unrecorded.length > 0 ? [...proc.conversation.unrecorded] : undefined,
        inbox: this.#turns.seqs,
        served: answer.served,
        interrupted: answer.interrupted,
      }),
    );
    this.#isServed = answer.served === true;
    if (!this.#isServed) this.#answered(ts, message, answer);
  }

  #answered(ts: string, message: Message, { usage, stop_reason }: LLMAnswer): void {
    const { unrecorded } = this.#proc.conversation;
    const at = unrecorded.indexOf(message);
    const messages = unrecorded.slice(0, at < 0 ? undefined : at);
    this.#parts.watchers.answered(this.#proc, { ts, message, messages, usage, stop_reason });
  }

  /** The model has failed, also after all retries. */
  failed(ts: string, error: SyscallError): void {
    const messages = [...this.#proc.conversation.unrecorded];
    this.#parts.watchers.answered(this.#proc, { ts, messages, error });
  }

  /** Writes the finished step. `ends`: the answer ends the run, as far as that is known now. */
  step(made: Omit<FinishedStep, "action" | "inbox" | "afterCheck">, ends: boolean): void {
    const proc = this.#proc;
    const action = actionOf(made.calls, { planned: this.#planned, ends });
    if (action === "plan") this.#planned = true;
    const { afterCheck, seqs: inbox } = this.#turns;
    // The first message of a chat that began without one.
    if (proc.spec.intent === "") proc.spec.intent = this.userText;
    if (this.#isServed) this.#answered(made.ts, made.assistant, made.answer);
    this.#isServed = false;
    recordOrFail(() => proc.record.step(stepRecord(proc, { ...made, action, inbox, afterCheck })));
    proc.run.recorded();
    this.#turns.recorded();
  }
}

/** The next request of a run: its conversation, and the tools that it shows the model. */
export class NextRequest {
  readonly #ctx: ContextManager;
  readonly #proc: Process;
  readonly #traces: boolean;
  #tools: LLMTool[] = [];
  /** Tools in the last request. */
  offered: number | undefined;

  constructor({ ctx, traces = false }: Pick<Core, "ctx" | "traces">, proc: Process) {
    this.#ctx = ctx;
    this.#proc = proc;
    this.#traces = traces;
  }

  /** Builds the request. */
  build(): ModelRequest {
    const proc = this.#proc;
    const prompt = this.#ctx.prompt(proc);
    const { shown } = proc.toolset;
    if (shown.size > this.#tools.length)
      this.#tools = [...shown.values()].map(({ tool }) => toolForModel(tool));
    this.offered = this.#tools.length;
    return {
      intent: proc.spec.intent,
      system_prompt: prompt.systemPrompt,
      model: proc.model.provider.model,
      timeout_ms: proc.spec.opts.limits.model_timeout,
      turn: proc.run.recordedStep,
      messages: [...prompt.messages],
      tools: this.#tools,
      stream: true,
      effort: proc.model.effort,
      output_schema: proc.spec.opts.output_schema,
      ...(this.#traces && {
        traceparent: traceparentFor(proc, chatKey(proc.uuid, proc.run.recordedStep + 1)),
      }),
    };
  }
}

/** The breaker trips when the same failure occurs in this many steps in a row. */
const FAILING_STEPS_IN_A_ROW = 8;
/** The breaker also trips at this count of failing steps, which a step without failure lowers by one. */
const FAILING_STEPS = 16;

type Trip = { reason: "loop_detected" | "circuit_breaker"; message: string };

/**
 * Ends runs that loop. It has two detectors over whole steps. A loop is the same calls with the same input and the
 * same results `threshold` times in a row. The circuit breaker counts each failure (error code and tool) once per
 * step. Cancelled calls and timeouts don't count as failures.
 */
export class LoopGuard {
  readonly #threshold: number;
  #last = "";
  #repeats = 0;
  #inARow = new Map<string, number>();
  #failing = 0;

  constructor(threshold: number) {
    this.#threshold = threshold;
  }

  /** Adds a finished step's calls. Returns why the run must end, or undefined. */
  step(calls: readonly ToolCallRecord[]): Trip | undefined {
    return this.#loop(calls) ?? this.#breaker(calls);
  }

  #loop(calls: readonly ToolCallRecord[]): Trip | undefined {
    if (calls.length === 0) return undefined;
    const print = fingerprint(calls);
    this.#repeats = print === this.#last ? this.#repeats + 1 : 1;
    this.#last = print;
    if (this.#repeats < this.#threshold) return undefined;
    const names = calls.map((call) => call.name).join(", ");
    const message = `The same calls (${names}) with the same input gave the same result ${this.#repeats} times in a row.`;
    return { reason: "loop_detected", message };
  }

  #breaker(calls: readonly ToolCallRecord[]): Trip | undefined {
    const failures = new Set<string>();
    for (const { name, state, error_code } of calls)
      if ((state === "failed" || state === "denied") && error_code !== "TIMEOUT")
        failures.add(`${error_code} of ${name}`);
    const before = this.#inARow;
    this.#inARow = new Map([...failures].map((failure) => [failure, (before.get(failure) ?? 0) + 1]));
    this.#failing = failures.size > 0 ? this.#failing + 1 : Math.max(0, this.#failing - 1);
    for (const [failure, count] of this.#inARow)
      if (count >= FAILING_STEPS_IN_A_ROW)
        return { reason: "circuit_breaker", message: `${count} steps in a row ended in ${failure}.` };
    if (this.#failing < FAILING_STEPS) return undefined;
    const message = `${this.#failing} steps, nearly all of the latest, had a failing call.`;
    return { reason: "circuit_breaker", message };
  }
}

function fingerprint(calls: readonly ToolCallRecord[]): string {
  const hash = new Bun.CryptoHasher("sha1");
  for (const call of calls) {
    const result = call.result === null ? null : normalizeOutputNames(call.result);
    hash.update(JSON.stringify([call.name, call.input, call.state, result, call.error_code]));
  }
  return hash.digest("hex");
}

/** Characters of a step's summary. */
const SUMMARY = 160;

export interface FinishedStep {
  /** When the step began. */
  ts: string;
  assistant: Message;
  answer: LLMAnswer;
  calls: ToolCallRecord[];
  action: Action;
  /** Numbers of the inbox entries in its messages. */
  inbox?: number[] | undefined;
  /** The messages of the step show a failed check. */
  afterCheck?: boolean;
  /** The user interrupted its answer or its calls. */
  interrupted?: boolean;
  /** Tools in its request; undefined: not known, as the request was made before a resume. */
  offered?: number | undefined;
}

/**
 * The record of a finished step. It takes the unrecorded data of the process; messages that a thread appended after the
 * answer belong to the next step.
 */
export function stepRecord(
  proc: Process,
  { ts, assistant, answer, calls, action, inbox, afterCheck, interrupted, offered }: FinishedStep,
): StepRecord {
  const { unrecorded } = proc.conversation;
  const { stop_reason: reason } = answer;
  const ended = proc.family.newResults.splice(0);
  const switches = proc.model.switches.filter(({ step }) => step === proc.run.step);
  const compactions = proc.conversation.compactions.splice(0);
  return {
    v: 1,
    step: proc.run.step,
    ts,
    compactions: compactions.length > 0 ? compactions : undefined,
    messages: unrecorded.splice(0, unrecorded.indexOf(assistant) + 1),
    raw_response: answer.content,
    reasoning: answer.reasoning,
    stop_reason:
      reason === "end_turn" || reason === "tool_calls" || reason === "unknown" ? undefined : reason,
    stop_word: answer.stop_word,
    action,
    summary: summarize(answer, calls),
    tool_calls: calls,
    inbox,
    usage: answer.usage,
    tokens_used: answer.tokens_used,
    after_check: afterCheck || undefined,
    tools_offered: offered,
    interrupted: interrupted || undefined,
    children: ended.length > 0 ? ended : undefined,
    switches: switches.length > 0 ? switches : undefined,
    so_far: proc.usageSoFar,
  };
}

/**
 * The kind of a step: the kernel's own tools are the actions of the seeds (5.1). `ends`: an answer without calls, or
 * Complete, ends the run.
 */
function actionOf(
  calls: readonly ToolCallRecord[],
  { planned, ends }: { planned: boolean; ends: boolean },
): Action {
  if (calls.length === 0) return ends ? "complete" : "text";
  const done = new Set(calls.filter((call) => call.state === "done").map((call) => call.name));
  if (done.has("Complete") && ends) return "complete";
  if (calls.some(({ name, state }) => name === "Agent" && (state === "done" || state === "failed")))
    return "spawn";
  if (done.has("Skill")) return "specialize";
  if (!done.has("Plan")) return "tool_call";
  return planned ? "replan" : "plan";
}

function summarize(answer: LLMAnswer, calls: readonly ToolCallRecord[]): string {
  const text =
    calls.length === 0
      ? answer.content
      : calls.map((call) => `${call.name}${call.state === "done" ? "" : ` (${call.state})`}`).join(", ");
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > SUMMARY ? `${line.slice(0, SUMMARY - 1)}…` : line;
}
