/** The reasoning loop of a process: it calls the model and runs the tool calls of its answers, step by step. */

import { type LLMAnswer, type Message, SyscallError, type Usage } from "../../plugin/index.ts";
import type { OpenStep } from "../../run/open-step.ts";
import { noUsage } from "../../run/usage.ts";
import type { ToolCallRecord } from "../../store/runs/schema.ts";
import { Turns } from "../chat/turns.ts";
import { Compactor, isTooLong } from "../conversation/compactor.ts";
import { toolMessage } from "../conversation/conversations.ts";
import { RunError } from "../errors/kernel-errors.ts";
import { textEntry } from "../events/log-entry.ts";
import { userText } from "../ipc/inboxes.ts";
import { type AnswerEvents, ModelCall } from "../llm/model-call.ts";
import type { Process } from "../process/process.ts";
import { broken, type RunOutcome } from "../process/verdict.ts";
import type { Processes } from "../tiers/processes.ts";
import type { ProgramTurn } from "../tools/program-tool-calls.ts";
import { runToolCalls } from "../tools/tool-calls.ts";
import { Checks } from "./checks.ts";
import { type FinishedStep, LoopGuard, NextRequest, StepRecorder } from "./step.ts";
import { FinalAnswer, TurnEnd } from "./turn-end.ts";

/**
 * Runs the reasoning loop of one process: an answer with tool calls runs them, an answer without ends the run. It
 * always returns an outcome; an exception is a defect.
 */
export async function reason(parts: Processes, proc: Process): Promise<RunOutcome> {
  const loop = new ReasoningLoop(parts, proc);
  try {
    for (;;) {
      await proc.gate();
      if (parts.drain.isOn) {
        parts.watchers.doing(proc, "end", "waiting to be suspended: rnix is stopping");
        await parts.drain.waitForSuspend(proc);
      }
      const outcome = stopOf(proc) ?? (await loop.step());
      if (outcome?.kind === "stopped") loop.end.keepPartial();
      if (outcome) return outcome;
    }
  } catch (thrown) {
    loop.end.keepPartial();
    const stopped = stopOf(proc);
    if (stopped) return stopped;
    if (thrown instanceof RunError) return { kind: "broken", reason: thrown.reason, error: thrown.error };
    throw thrown;
  } finally {
    // No step would read messages that arrive from now on. A suspended run reads them after it is resumed.
    if (proc.stopped?.reason !== "suspended") parts.inboxes.of(proc).close();
  }
}

class ReasoningLoop implements AnswerEvents {
  readonly #parts: Processes;
  readonly #proc: Process;
  #guard: LoopGuard;
  readonly #model: ModelCall;
  readonly #compactor: Compactor;
  readonly #finalAnswer: FinalAnswer;
  readonly #turns: Turns;
  readonly #next: NextRequest;
  readonly #recorder: StepRecorder;
  readonly end: TurnEnd;
  /** When the current step began. */
  #ts = "";
  /** How a step ended the run that was recorded while the program that is the model was still answering. */
  #outcome: RunOutcome | undefined;
  /** The text of its inbox entries, until the step has a number and the text is logged. */
  #inboxText = "";

  constructor(parts: Processes, proc: Process) {
    this.#parts = parts;
    this.#proc = proc;
    this.#guard = new LoopGuard(proc.spec.opts.limits.loop_threshold);
    this.#model = new ModelCall(parts, proc);
    this.#compactor = new Compactor(parts, proc);
    this.#finalAnswer = new FinalAnswer(parts, proc);
    this.#turns = new Turns(parts, proc);
    this.#next = new NextRequest(parts, proc);
    this.#recorder = new StepRecorder(parts, proc, this.#turns);
    this.end = new TurnEnd(parts, proc, {
      model: this.#model,
      turns: this.#turns,
      checks: new Checks(parts, proc),
      finalAnswer: this.#finalAnswer,
      recorder: this.#recorder,
    });
  }

  /** Runs one step. Returns an outcome if it was the last one. */
  async step(): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    const { openStep, answered } = proc.run.takeCutOff();
    if (openStep) return this.#finishOpenStep(openStep);
    const outcome = answered === null ? undefined : await this.end.finish(answered);
    if (outcome) return outcome;
    if (proc.work.interrupted) return this.end.endInterruption([]);
    if (this.#turns.isOver) {
      const ended = await this.#awaitMessage();
      if (ended !== "message") return ended;
    }
    if (proc.requests.model) await this.#changeModel();
    await this.#drainInbox();
    let answer: LLMAnswer | undefined;
    try {
      proc.work.underway = "model";
      await this.#compactor.beforeStep(() => this.#next.build());
      proc.work.cancellation.throwIfAborted();
      answer = await this.#callModel();
    } catch (thrown) {
      return this.#withoutAnswer(thrown);
    } finally {
      proc.work.underway = null;
    }
    if (answer) return this.#applyAnswer(this.#journal(answer), answer);
    // The steps of a program that calls tools itself are recorded. One of them may have ended the run.
    proc.run.dropStep();
    const ended = this.#outcome;
    return ended?.kind === "finished" ? this.end.complete(ended) : this.end.unlessInChat(ended);
  }

  /** The model has failed, or the run was stopped or interrupted. In a chat, the user decides what follows a failure. */
  async #withoutAnswer(thrown: unknown): Promise<RunOutcome | undefined> {
    const { stopped, work, spec } = this.#proc;
    if (stopped) throw thrown;
    if (work.interrupted) return this.#interruptedAnswer();
    if (!(thrown instanceof RunError) || thrown.reason !== "llm_error") throw thrown;
    this.#recorder.failed(this.#ts, thrown.error);
    if (!spec.opts.chat) throw thrown;
    return this.end.failedTurn(thrown.error.message);
  }

  // AnswerEvents. Methods instead of closures per call, because thousands of processes may wait for an answer.

  begin(): void {
    this.#proc.run.step++;
    this.#announceStep();
    this.#ts = new Date(this.#parts.clock.now()).toISOString();
    const text = this.#inboxText;
    // Before the answer, with which it is recorded.
    if (text !== "") this.#parts.watchers.log(this.#proc, (at) => textEntry(at, "inbox", text));
    this.#inboxText = "";
  }

  #announceStep(): void {
    const { callbacks, watchers } = this.#parts;
    const { pid, run, spec } = this.#proc;
    callbacks?.onStep(pid, run.step, spec.budget.limits.steps);
    watchers.step(this.#proc);
  }

  called(text: string, reasoning: string): void {
    const known = { content: text, reasoning: reasoning || undefined, stop_reason: "tool_calls" } as const;
    this.#journal(answerOf(known), { served: true });
  }

  ended(turn: ProgramTurn, usage: Usage): boolean {
    const { corrections } = this.#proc.run;
    this.#outcome = this.#recordTurn(turn, usage);
    // If its result needs a correction, the model is asked again with it.
    return this.#outcome === undefined && this.#proc.run.corrections === corrections;
  }

  /** Records the step of a program that called tools itself and is still answering. An outcome ends the run. */
  #recordTurn({ text, reasoning, calls }: ProgramTurn, usage: Usage): RunOutcome | undefined {
    const proc = this.#proc;
    // The step stays open in the journal and is finished after a resume.
    if (proc.stopped && calls.some(({ state }) => state === "waiting")) return stopOf(proc);
    const tool_calls = calls.map(({ id, name, input }) => ({ id, name, input }));
    const known = { content: text, reasoning: reasoning || undefined, stop_reason: "tool_calls" } as const;
    const answer = answerOf({ ...known, tool_calls, usage });
    const assistant = messageOf(answer);
    // The turn is appended when `appendTurn` returns; only its trace comes later.
    this.#parts.ctx.appendTurn(proc, assistant, calls.map(toolMessage)).catch(() => undefined);
    this.#record({ assistant, answer, calls, interrupted: false });
    const { completion } = proc.run;
    const ended = stopOf(proc) ?? (completion === null ? undefined : this.#finalAnswer.take(completion));
    return ended ?? this.#checkLoop(calls);
  }

  /** Finishes the step that was open when the run was cut off: its answer and some of its calls are recorded. */
  #finishOpenStep(open: OpenStep): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    const { message, reasoning, usage, stopReason: stop_reason, stopWord: stop_word } = open;
    proc.run.step = open.step;
    this.#ts = open.ts;
    this.#announceStep();
    this.#turns.restore(open.inbox);
    this.#recorder.lastText = message.content;
    this.#parts.waiting.restore(proc, open.waiting);
    // Their end is not in the journal: nothing else reports it.
    for (const call of open.settled.values())
      if (call.state === "unknown") this.#parts.callbacks?.onCall?.(proc.pid, open.step, call);
    const { content, tool_calls = [] } = message;
    const answer = answerOf({ content, reasoning, tool_calls, stop_reason, stop_word, usage });
    return this.#applyAnswer(message, answer, open);
  }

  /** Writes an answer to the journal before anything acts on it. Returns its message. */
  #journal(answer: LLMAnswer, how: { served?: true; interrupted?: true } = {}): Message {
    const message = messageOf(answer);
    this.#recorder.journal(this.#ts, message, { ...answer, ...how });
    return message;
  }

  /** Runs an answer's tool calls, records the step, and returns an outcome if it was the last. */
  async #applyAnswer(
    assistant: Message,
    answer: LLMAnswer,
    { settled, interrupted: wasInterrupted = false }: Partial<Pick<OpenStep, "settled" | "interrupted">> = {},
  ): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    const calls = await this.#call(answer, settled);
    const interrupted = wasInterrupted || proc.work.interrupted;
    // The step stays open in the journal and is finished after a resume.
    const isOpen = calls.some(({ state }) => state === "waiting") || calls.length < answer.tool_calls.length;
    if (proc.stopped && isOpen) return stopOf(proc);
    await this.#parts.ctx.appendTurn(proc, assistant, calls.map(toolMessage));
    this.#record({ assistant, answer, calls, interrupted });
    if (proc.stopped) return stopOf(proc);
    if (interrupted) return this.end.endInterruption([], calls.length === 0);
    return (await this.end.outcomeOf(answer)) ?? this.end.unlessInChat(this.#checkLoop(calls));
  }

  /** Waits for the message that begins the next turn. An outcome: the chat has ended. */
  async #awaitMessage(): Promise<"message" | RunOutcome | undefined> {
    if (this.#proc.requests.model) await this.#changeModel();
    if (this.#proc.requests.compaction) await this.#compactor.beforeStep(() => this.#next.build());
    if (await this.#turns.mayEnd()) return this.end.checked({ kind: "finished" });
    if (this.end.isHeld) return this.#awaitUnits();
    return (await this.#turns.wait()) ? "message" : undefined;
  }

  /** The answer is given, and units of the run still live: their signals are its next messages. */
  async #awaitUnits(): Promise<"message" | RunOutcome | undefined> {
    const { units, watchers, inboxes } = this.#parts;
    const proc = this.#proc;
    if (!units.isBusy(proc) && inboxes.of(proc).isEmpty) return this.end.release();
    const live = units.list(proc).map(({ id }) => id);
    if (proc.spec.opts.on_units === "park" && inboxes.of(proc).isEmpty && units.canPark(proc)) {
      this.#parts.suspend(proc, "its answer is given, and background units go on", { on: "unit", ids: live });
      return undefined;
    }
    const those = `${live.length === 1 ? "unit" : "units"} ${live.join(", ")}`;
    watchers.doing(proc, "unit", `waiting for background ${those}`);
    return (await this.#turns.wait({ forUnits: true })) ? "message" : undefined;
  }

  /** Takes the model that the user has chosen. If it can't be used, the run keeps its own. */
  async #changeModel(): Promise<void> {
    const change = this.#proc.requests.takeModel();
    if (!change) return;
    try {
      await this.#model.change(change.provider, change.effort);
      change.done.resolve();
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      this.#parts.watchers.notice(this.#proc, `the model was not changed: ${thrown.message}`);
      change.done.reject(thrown);
    }
  }

  /**
   * Records the beginning of an answer that the user interrupted. Of an answer that had not begun nothing stays: what the
   * model was to read is in the inbox again.
   */
  async #interruptedAnswer(): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    const content = proc.work.arriving;
    proc.work.arriving = "";
    if (content === "") {
      proc.run.dropStep();
      return this.end.endInterruption(await this.#turns.putBack());
    }
    // The steps of a program that calls tools itself are recorded up to its last call.
    if (proc.run.step === proc.run.recordedStep) this.begin();
    const answer = answerOf({ content, usage: this.#model.paid });
    return this.#applyAnswer(this.#journal(answer, { interrupted: true }), answer, { interrupted: true });
  }

  /** Calls the model. If it rejects the conversation as too long, compacts it and calls once more. */
  async #callModel(): Promise<LLMAnswer | undefined> {
    this.#outcome = undefined;
    try {
      return await this.#model.converse(this.#next.build(), this);
    } catch (thrown) {
      if (this.#proc.stopped || !isTooLong(thrown)) throw thrown;
      if (!(await this.#compactor.afterRefusal(() => this.#next.build()))) throw thrown;
      return this.#model.converse(this.#next.build(), this, { steps: 0 });
    }
  }

  /** Appends what arrived in the inbox. The record of the step acknowledges it. */
  async #drainInbox(): Promise<void> {
    this.end.reopen();
    const entries = this.#turns.take();
    if (entries.length === 0) return;
    this.#inboxText = await this.#turns.deliver(entries);
    const text = userText(entries);
    if (text === "") return;
    // What the user says begins something new: what was repeated before counts no longer.
    this.#guard = new LoopGuard(this.#proc.spec.opts.limits.loop_threshold);
    this.#recorder.userText = text;
  }

  async #call(
    answer: LLMAnswer,
    settled: ReadonlyMap<string, ToolCallRecord> | undefined,
  ): Promise<ToolCallRecord[]> {
    if (answer.tool_calls.length === 0) return [];
    try {
      this.#proc.work.underway = "tools";
      return await runToolCalls(this.#parts, this.#proc, answer.tool_calls, settled);
    } catch (thrown) {
      throw thrown instanceof SyscallError ? new RunError("record_error", thrown) : thrown;
    } finally {
      this.#proc.work.underway = null;
    }
  }

  #record(step: Pick<FinishedStep, "assistant" | "answer" | "calls" | "interrupted">): void {
    const ends = !step.interrupted && this.end.ends(step.answer);
    this.#recorder.step({ ts: this.#ts, ...step, offered: this.#next.offered }, ends);
  }

  #checkLoop(calls: readonly ToolCallRecord[]): RunOutcome | undefined {
    const trip = this.#guard.step(calls);
    if (!trip) return undefined;
    this.end.keepPartial();
    return broken(trip.reason, trip.message);
  }
}

/** The outcome of a run that was stopped. */
function stopOf({ stopped }: Process): RunOutcome | undefined {
  return stopped && { kind: "stopped", status: stopped };
}

/** An answer of which only parts are known: it was interrupted, recorded, or given before tool calls of a program. */
function answerOf(known: Pick<LLMAnswer, "content"> & Partial<LLMAnswer>): LLMAnswer {
  const { usage = noUsage(), tool_calls = [], stop_reason = "unknown" } = known;
  const tokens_used = usage.input_tokens + usage.output_tokens;
  return { ...known, tool_calls, stop_reason, usage, tokens_used };
}

/** The message that an answer becomes in the conversation. */
function messageOf({ content, tool_calls, opaque }: LLMAnswer): Message {
  const message: Message = { role: "assistant", content };
  if (tool_calls.length > 0) message.tool_calls = tool_calls;
  if (opaque !== undefined) message.opaque = opaque;
  return message;
}
