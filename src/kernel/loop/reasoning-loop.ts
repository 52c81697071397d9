import type { Clock } from "../../lib/clock.ts";
import { type LLMAnswer, type LLMTool, type Message, SyscallError, type Usage } from "../../plugin/index.ts";
import type { InboxEntry, ToolCallRecord } from "../../store/runs/schema.ts";
import { noUsage } from "../budget/usage.ts";
import { type TurnPorts, Turns } from "../chat/turns.ts";
import type { ContextManager } from "../context-manager.ts";
import { Compactor, isTooLong } from "../conversation/compactor.ts";
import { toolMessage } from "../conversation/tool-message.ts";
import { RunError, recordOrFail } from "../errors/run-error.ts";
import { textEntry } from "../events/log-entry.ts";
import type { Inboxes } from "../ipc/inboxes.ts";
import { userText } from "../ipc/wording.ts";
import { cutShort } from "../llm/cut-short.ts";
import { type AskEvents, ModelCall, type ModelCallPorts } from "../llm/model-call.ts";
import type { ModelRequest } from "../llm/model-request.ts";
import type { Process } from "../process/process.ts";
import type { OpenStep } from "../process/run-progress.ts";
import { actionOf, stepRecord, usageSoFar } from "../process/step-record.ts";
import type { RunOutcome } from "../process/verdict.ts";
import type { ProgramTurn } from "../tools/program-tool-calls.ts";
import { runToolCalls, type ToolCallPorts } from "../tools/tool-calls.ts";
import { toolForModel } from "../tools/tool-catalog.ts";
import type { WaitingCalls } from "../tools/waiting-calls.ts";
import type { ExitReason } from "../types.ts";
import { type CheckPorts, Checks } from "./checks.ts";
import { FinalAnswer } from "./final-answer.ts";
import { LoopGuard } from "./loop-guard.ts";

export interface LoopPorts extends ModelCallPorts, TurnPorts {
  clock: Clock;
  ctx: ContextManager;
  inboxes: Inboxes;
  waiting: WaitingCalls;
  tools: ToolCallPorts;
  checks: CheckPorts;
  onStep(proc: Process): void;
}

/**
 * Runs the reasoning loop of one process: an answer with tool calls runs them, an answer without ends the run. It
 * always returns an outcome; an exception is a defect.
 */
export async function reason(ports: LoopPorts, proc: Process): Promise<RunOutcome> {
  const loop = new ReasoningLoop(ports, proc);
  try {
    for (;;) {
      await proc.gate();
      if (ports.tools.drain.isOn) {
        ports.doing(proc, "end", "waiting to be suspended: rnix is stopping");
        await ports.tools.drain.waitForSuspend(proc);
      }
      const stopped = proc.stopped;
      const outcome: RunOutcome | undefined = stopped
        ? { kind: "stopped", status: stopped }
        : await loop.step();
      if (outcome?.kind === "stopped") loop.keepPartial();
      if (outcome) return outcome;
    }
  } catch (thrown) {
    loop.keepPartial();
    if (proc.stopped) return { kind: "stopped", status: proc.stopped };
    if (thrown instanceof RunError) return { kind: "broken", reason: thrown.reason, error: thrown.error };
    throw thrown;
  } finally {
    // No step would read messages that arrive from now on. A suspended run reads them after it is resumed.
    if (proc.stopped?.reason !== "suspended") ports.inboxes.of(proc).close();
  }
}

class ReasoningLoop implements AskEvents {
  readonly #ports: LoopPorts;
  readonly #proc: Process;
  #guard: LoopGuard;
  readonly #model: ModelCall;
  readonly #compactor: Compactor;
  readonly #finalAnswer: FinalAnswer;
  readonly #checks: Checks;
  readonly #turns: Turns;
  #tools: LLMTool[] = [];
  /** Tools in the last request. */
  #offered: number | undefined;
  #lastText = "";
  /** When the current step began. */
  #ts = "";
  /** How the current step ended the run, while the program that is the model is still answering. */
  #outcome: RunOutcome | undefined;
  /** The text of its inbox entries, until the step has a number and the text is logged. */
  #inboxText = "";
  /** What the user said last. */
  #heard = "";
  #planned: boolean;
  /** The result is the final answer, and its checks run. */
  #isAnswered = false;

  constructor(ports: LoopPorts, proc: Process) {
    this.#ports = ports;
    this.#proc = proc;
    this.#guard = new LoopGuard(proc.spec.opts.limits.loop_threshold);
    this.#planned = proc.plan !== null;
    this.#model = new ModelCall(ports, proc);
    this.#compactor = new Compactor(ports, proc);
    this.#finalAnswer = new FinalAnswer(ports, proc);
    this.#checks = new Checks(ports.checks, proc);
    this.#turns = new Turns(ports, proc);
  }

  /** Runs one step. Returns an outcome if it was the last one. */
  async step(): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    const { openStep, answered } = proc;
    proc.openStep = null;
    proc.answered = null;
    if (openStep) return this.#finishOpenStep(openStep);
    const outcome = answered === null ? undefined : await this.#finish(answered);
    if (outcome) return outcome;
    if (proc.interrupted) return this.#endInterruption([]);
    if (this.#turns.isOver) {
      const ended = await this.#awaitMessage();
      if (ended !== "message") return ended;
    }
    if (proc.modelChange) await this.#changeModel();
    await this.#drainInbox();
    this.#outcome = undefined;
    let answer: LLMAnswer | undefined;
    try {
      proc.underway = "model";
      await this.#compactor.beforeStep(() => this.#request());
      proc.work.throwIfAborted();
      answer = await this.#ask();
    } catch (thrown) {
      if (proc.stopped) throw thrown;
      if (proc.interrupted) return this.#interruptedAnswer();
      if (!proc.spec.opts.chat || !isModelFailure(thrown)) throw thrown;
      return this.#failedTurn(thrown.error.message);
    } finally {
      proc.underway = null;
    }
    if (!answer) {
      // A step without an answer does not count.
      proc.step = proc.recordedStep;
      return this.#ofProgram();
    }
    const ts = this.#ts;
    const assistant: Message = { role: "assistant", content: answer.content };
    if (answer.tool_calls.length > 0) assistant.tool_calls = answer.tool_calls;
    if (answer.opaque !== undefined) assistant.opaque = answer.opaque;
    this.#journal(ts, assistant, answer);
    return this.#applyAnswer(ts, assistant, answer);
  }

  /** How the program that is the model ended the run by a step of its own, if it did. */
  #ofProgram(): RunOutcome | undefined | Promise<RunOutcome | undefined> {
    const outcome = this.#outcome;
    return outcome?.kind === "finished" ? this.#complete(outcome) : this.#unlessInChat(outcome);
  }

  /** A chat does not end by a loop: the user decides what follows. */
  #unlessInChat(outcome: RunOutcome | undefined): RunOutcome | undefined | Promise<undefined> {
    if (outcome?.kind !== "broken" || !this.#proc.spec.opts.chat || !LOOPS.has(outcome.reason))
      return outcome;
    return this.#failedTurn(outcome.error.message);
  }

  /** Ends the run with the input of Complete, unless the user has sent a message: the model reads it first. */
  async #complete(finished: RunOutcome): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    if (proc.spec.opts.chat) return this.#endTurn(proc.completion ?? "");
    const inbox = this.#ports.inboxes.of(proc);
    if (inbox.inputs.length === 0) {
      const outcome = await this.#checked(finished);
      if (outcome?.kind !== "finished" || (await inbox.finish(() => inbox.inputs.length > 0))) return outcome;
    }
    proc.completion = null;
    proc.output = null;
    proc.turnOver = true;
    this.#isAnswered = false;
    return undefined;
  }

  // AskEvents. Methods instead of closures per call, because thousands of processes may wait for an answer.

  begin(): void {
    this.#proc.step++;
    this.#ports.onStep(this.#proc);
    this.#ts = new Date(this.#ports.clock.now()).toISOString();
    this.#log("inbox", this.#inboxText);
    this.#inboxText = "";
  }

  called(text: string, reasoning: string): void {
    const answer = { ...turnAnswer(text, reasoning), served: true } as const;
    this.#journal(this.#ts, { role: "assistant", content: text }, answer);
  }

  ended(turn: ProgramTurn, usage: Usage): boolean {
    const { corrections } = this.#proc;
    this.#outcome = this.#recordTurn(this.#ts, turn, usage);
    // If its result needs a correction, the model is asked again with it.
    return this.#outcome === undefined && this.#proc.corrections === corrections;
  }

  /** Writes an answer to the journal before anything acts on it. */
  #journal(ts: string, message: Message, answer: JournaledAnswer): void {
    const proc = this.#proc;
    if (answer.content !== "") this.#lastText = answer.content;
    recordOrFail(() =>
      proc.record.journal({
        t: "answer",
        v: 1,
        step: proc.step,
        ts,
        message,
        reasoning: answer.reasoning,
        usage: answer.usage,
        stop_reason: answer.stop_reason,
        stop_word: answer.stop_word,
        so_far: usageSoFar(proc),
        messages: proc.unrecorded.length > 0 ? [...proc.unrecorded] : undefined,
        inbox: this.#turns.seqs,
        served: answer.served,
        interrupted: answer.interrupted,
      }),
    );
    this.#log("thought", answer.reasoning);
    this.#log("text", answer.content);
  }

  /** Records the step of a program that called tools itself and is still answering. An outcome ends the run. */
  #recordTurn(ts: string, { text, reasoning, calls }: ProgramTurn, usage: Usage): RunOutcome | undefined {
    const proc = this.#proc;
    // The step stays open in the journal and is finished after a resume.
    if (proc.stopped && calls.some(({ state }) => state === "waiting")) {
      return { kind: "stopped", status: proc.stopped };
    }
    const tool_calls = calls.map(({ id, name, input }) => ({ id, name, input }));
    const assistant: Message = { role: "assistant", content: text, tool_calls };
    // The turn is appended when `appendTurn` returns; only its trace comes later.
    this.#ports.ctx.appendTurn(proc, assistant, calls.map(toolMessage)).catch(() => undefined);
    const tokens_used = usage.input_tokens + usage.output_tokens;
    this.#record(ts, assistant, { ...turnAnswer(text, reasoning), tool_calls, usage, tokens_used }, calls);
    if (proc.stopped) return { kind: "stopped", status: proc.stopped };
    const { completion } = proc;
    return (completion === null ? undefined : this.#finalAnswer.take(completion)) ?? this.#checkLoop(calls);
  }

  /** Finishes the step that was open when the run was interrupted: its answer and some of its calls are recorded. */
  async #finishOpenStep({
    step,
    ts,
    message,
    reasoning,
    usage,
    stopReason,
    stopWord,
    inbox,
    interrupted,
    settled,
    waiting,
  }: OpenStep): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    proc.step = step;
    this.#ports.onStep(proc);
    this.#turns.restore(inbox);
    this.#lastText = message.content;
    this.#ports.waiting.restore(proc, waiting);
    const answer: LLMAnswer = {
      content: message.content,
      reasoning,
      tool_calls: message.tool_calls ?? [],
      stop_reason: stopReason,
      stop_word: stopWord,
      usage,
      tokens_used: usage.input_tokens + usage.output_tokens,
    };
    return this.#applyAnswer(ts, message, answer, { settled, interrupted });
  }

  /** Runs an answer's tool calls, records the step, and returns an outcome if it was the last. */
  async #applyAnswer(
    ts: string,
    assistant: Message,
    answer: LLMAnswer,
    { settled, interrupted: wasInterrupted = false }: AnswerState = {},
  ): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    const calls = await this.#call(answer, settled);
    const interrupted = wasInterrupted || proc.interrupted;
    // The step stays open in the journal and is finished after a resume.
    const isOpen = calls.some(({ state }) => state === "waiting") || calls.length < answer.tool_calls.length;
    if (proc.stopped && isOpen) return { kind: "stopped", status: proc.stopped };
    await this.#ports.ctx.appendTurn(proc, assistant, calls.map(toolMessage));
    this.#record(ts, assistant, answer, calls, interrupted);
    if (proc.stopped) return { kind: "stopped", status: proc.stopped };
    if (interrupted) return this.#endInterruption([], calls.length === 0);
    return (await this.#outcomeOf(answer)) ?? this.#unlessInChat(this.#checkLoop(calls));
  }

  /** Waits for the message that begins the next turn. An outcome: the chat has ended. */
  async #awaitMessage(): Promise<"message" | RunOutcome | undefined> {
    if (this.#proc.modelChange) await this.#changeModel();
    if (this.#proc.compacting) await this.#compactor.beforeStep(() => this.#request());
    if (await this.#turns.mayEnd()) return this.#checked({ kind: "finished" });
    return (await this.#turns.wait()) ? "message" : undefined;
  }

  /** Takes the model that the user has chosen. If it can't be used, the run keeps its own. */
  async #changeModel(): Promise<void> {
    const change = this.#proc.modelChange;
    this.#proc.modelChange = undefined;
    if (!change) return;
    try {
      await this.#model.change(change.provider, change.effort);
      change.done.resolve();
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      const text = `the model was not changed: ${thrown.message}`;
      this.#ports.emit(this.#proc, { type: "notice", text });
      change.done.reject(thrown);
    }
  }

  /**
   * Records the beginning of an answer that the user interrupted. Of an answer that had not begun nothing stays: what the
   * model was to read is in the inbox again.
   */
  async #interruptedAnswer(): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    const content = this.#model.takeArriving();
    if (content === "") {
      proc.step = proc.recordedStep;
      return this.#endInterruption(await this.#turns.putBack());
    }
    // The steps of a program that calls tools itself are recorded up to its last call.
    if (proc.step === proc.recordedStep) this.begin();
    const usage = this.#model.paid;
    const tokens_used = usage.input_tokens + usage.output_tokens;
    const answer: LLMAnswer = { content, tool_calls: [], stop_reason: "unknown", usage, tokens_used };
    const assistant: Message = { role: "assistant", content };
    this.#journal(this.#ts, assistant, { ...answer, interrupted: true });
    return this.#applyAnswer(this.#ts, assistant, answer, { interrupted: true });
  }

  /**
   * The model of a chat can't answer, or it turns in a circle: the user decides what follows. What the model was to read
   * is in the inbox again, and waits for a new message.
   */
  async #failedTurn(why: string): Promise<undefined> {
    const proc = this.#proc;
    this.#model.takeArriving();
    proc.step = proc.recordedStep;
    await this.#turns.putBack();
    this.#turns.end({ onlyNew: true });
    this.keepPartial();
    proc.notices.push(why);
    this.#ports.emit(proc, { type: "notice", text: why });
    await this.#ports.saveInfo(proc);
  }

  /** The interrupted work has ended: it is the user's turn. `putBack`: messages that are in the inbox again. */
  async #endInterruption(putBack: readonly number[], answerCut = false): Promise<undefined> {
    const proc = this.#proc;
    // Who follows the run sees where the answer stops.
    this.#ports.emit(proc, { type: "notice", text: "interrupted" });
    if (answerCut) proc.answerCut = true;
    proc.completion = null;
    this.keepPartial();
    this.#turns.end({ onlyNew: proc.interrupted });
    await this.#ports.saveInfo(proc);
    proc.endInterruption(putBack);
  }

  /** Keeps the incomplete answer as the partial result. Not called for a run that finished. */
  keepPartial(): void {
    if (this.#isAnswered) return;
    const text = this.#model.arriving || this.#lastText || this.#proc.result;
    if (!text) return;
    this.#proc.result = text;
    this.#proc.partial = true;
  }

  /** Asks the model. If it rejects the conversation as too long, compacts it and asks once more. */
  async #ask(): Promise<LLMAnswer | undefined> {
    try {
      return await this.#model.converse(this.#request(), this);
    } catch (thrown) {
      if (this.#proc.stopped || !isTooLong(thrown)) throw thrown;
      if (!(await this.#compactor.afterRefusal(() => this.#request()))) throw thrown;
      return this.#model.converse(this.#request(), this, { steps: 0 });
    }
  }

  /** Appends what arrived in the inbox. The record of the step acknowledges it. */
  async #drainInbox(): Promise<void> {
    this.#isAnswered = false;
    // What an interruption left as the result is not the last word.
    this.#proc.partial = false;
    const entries = this.#turns.take();
    if (entries.length === 0) return;
    this.#inboxText = await this.#turns.deliver(entries);
    this.#hearUser(entries);
  }

  /** What the user says begins something new: what was repeated before counts no longer. */
  #hearUser(entries: readonly InboxEntry[]): void {
    const proc = this.#proc;
    const said = userText(entries);
    if (said === "") return;
    this.#guard = new LoopGuard(proc.spec.opts.limits.loop_threshold);
    this.#heard = said;
  }

  #request(): ModelRequest {
    const proc = this.#proc;
    const prompt = this.#ports.ctx.prompt(proc);
    return {
      intent: proc.spec.intent,
      system_prompt: prompt.systemPrompt,
      model: proc.provider.model,
      timeout_ms: proc.spec.opts.limits.model_timeout,
      turn: proc.recordedStep,
      messages: [...prompt.messages],
      tools: this.#shownTools(),
      stream: true,
      effort: proc.effort,
      output_schema: proc.spec.opts.outputSchema,
    };
  }

  #shownTools(): LLMTool[] {
    const { tools } = this.#proc;
    if (tools.size > this.#tools.length) {
      this.#tools = [...tools.values()].map(({ tool }) => toolForModel(tool));
    }
    this.#offered = this.#tools.length;
    return this.#tools;
  }

  async #call(
    answer: LLMAnswer,
    settled: ReadonlyMap<string, ToolCallRecord> | undefined,
  ): Promise<ToolCallRecord[]> {
    if (answer.tool_calls.length === 0) return [];
    try {
      this.#proc.underway = "tools";
      return await runToolCalls(this.#ports.tools, this.#proc, answer.tool_calls, settled);
    } catch (thrown) {
      throw thrown instanceof SyscallError ? new RunError("record_error", thrown) : thrown;
    } finally {
      this.#proc.underway = null;
    }
  }

  #record(
    ts: string,
    assistant: Message,
    answer: LLMAnswer,
    calls: ToolCallRecord[],
    interrupted = false,
  ): void {
    const proc = this.#proc;
    const action = actionOf(calls, { planned: this.#planned, ends: !interrupted && this.#ends(answer) });
    if (action === "plan") this.#planned = true;
    const { afterCheck, seqs: inbox } = this.#turns;
    // The first words of a chat that began without any.
    if (proc.spec.intent === "") proc.spec.intent = this.#heard;
    recordOrFail(() =>
      proc.record.step(
        stepRecord(proc, {
          ts,
          assistant,
          answer,
          calls,
          action,
          inbox,
          afterCheck,
          interrupted,
          offered: this.#offered,
        }),
      ),
    );
    proc.recordedStep = proc.step;
    this.#turns.recorded();
  }

  /** Whether the answer would end the run, as far as that is known when its step is recorded. */
  #ends({ content, tool_calls, stop_reason, stop_word }: LLMAnswer): boolean {
    const { completion, spec } = this.#proc;
    if (spec.opts.chat) return false;
    if (completion !== null) return this.#finalAnswer.isLast(completion);
    if (tool_calls.length > 0 || stop_reason === "paused") return false;
    if (!this.#ports.inboxes.of(this.#proc).isEmpty) return false;
    const isCut = cutShort(stop_reason, stop_word, { cutByBudget: this.#model.cutByBudget }) !== undefined;
    return isCut || this.#finalAnswer.isLast(this.#withPauses(content));
  }

  async #outcomeOf(answer: LLMAnswer): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    if (proc.completion !== null) {
      const outcome = this.#finalAnswer.take(proc.completion);
      return outcome?.kind === "finished" ? this.#complete(outcome) : outcome;
    }
    // A model that paused is called again, with its own text as the last message.
    if (answer.tool_calls.length > 0 || answer.stop_reason === "paused") return undefined;
    return this.#finish(answer);
  }

  /** Ends the run with an answer without calls, unless the answer is not the last. */
  async #finish({ content, stop_reason, stop_word }: Answered): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    const whole = this.#withPauses(content);
    const cut = cutShort(stop_reason, stop_word, { cutByBudget: this.#model.cutByBudget });
    if (proc.spec.opts.chat) {
      if (cut?.kind === "broken") this.#ports.emit(proc, { type: "notice", text: cut.error.message });
      return this.#endTurn(whole);
    }
    if (cut === undefined) return this.#conclude(whole);
    if (!(await this.#ports.inboxes.of(proc).finish())) return undefined;
    proc.result = whole;
    proc.partial = true;
    return cut;
  }

  /** The answer with the text of the pauses before it. */
  #withPauses(content: string): string {
    const { messages } = this.#ports.ctx.prompt(this.#proc);
    const before = messages.slice(0, -1);
    const other = before.findLastIndex(
      ({ role, tool_calls }) => role !== "assistant" || tool_calls !== undefined,
    );
    return [...before.slice(other + 1).map((message) => message.content), content].join("");
  }

  /** Ends the run with the final answer, unless new messages are in the inbox: the model reads them first. */
  async #conclude(answer: string): Promise<RunOutcome | undefined> {
    if (!this.#finalAnswer.fits(answer)) return this.#finalAnswer.take(answer);
    // If messages are waiting, they begin another turn.
    this.#proc.turnOver = true;
    const inbox = this.#ports.inboxes.of(this.#proc);
    if (!inbox.isEmpty || (this.#checks.isLast && !(await inbox.finish()))) return undefined;
    const outcome = await this.#checked(this.#finalAnswer.take(answer));
    return outcome?.kind !== "finished" || (await inbox.finish()) ? outcome : undefined;
  }

  /** The answer to the user's message is complete. The chat waits for the next one. */
  async #endTurn(answer: string): Promise<undefined> {
    const proc = this.#proc;
    proc.completion = null;
    proc.result = answer;
    proc.partial = false;
    this.#turns.end();
    this.#isAnswered = true;
    await this.#ports.saveInfo(proc);
  }

  /** Ends the run as `outcome` says, unless a check fails and the run continues with its output. */
  async #checked(outcome: RunOutcome | undefined): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    this.#isAnswered = true;
    const passed = await this.#checks.pass();
    if (proc.stopped) return { kind: "stopped", status: proc.stopped };
    if (passed) return outcome;
    this.#isAnswered = false;
    proc.completion = null;
    proc.output = null;
    return undefined;
  }

  #checkLoop(calls: readonly ToolCallRecord[]): RunOutcome | undefined {
    const trip = this.#guard.step(calls);
    if (!trip) return undefined;
    this.keepPartial();
    return broken(trip.reason, trip.message);
  }

  #log(kind: "text" | "thought" | "inbox", text: string | undefined): void {
    if (!text) return;
    const ts = new Date(this.#ports.clock.now()).toISOString();
    const entry = textEntry({ ts, step: this.#proc.step }, kind, text);
    this.#ports.emit(this.#proc, { type: "log", entry });
  }
}

type JournaledAnswer = LLMAnswer & { served?: true; interrupted?: true };

/** How far an answer's step was when the run was cut off. */
interface AnswerState {
  /** Calls that are not made again, by id. */
  settled?: ReadonlyMap<string, ToolCallRecord>;
  /** The user interrupted the answer. */
  interrupted?: boolean;
}

type Answered = Pick<LLMAnswer, "content" | "stop_word"> & { stop_reason?: LLMAnswer["stop_reason"] };

/** The ends that the loop guard causes. */
const LOOPS: ReadonlySet<ExitReason> = new Set(["loop_detected", "circuit_breaker"]);

/** The model can't answer, also after all retries and fallbacks. */
function isModelFailure(thrown: unknown): thrown is RunError {
  return thrown instanceof RunError && thrown.reason === "llm_error";
}

function broken(reason: ExitReason, message: string): RunOutcome {
  return { kind: "broken", reason, error: new SyscallError("EXHAUSTED", message) };
}

/** The answer that a program's text before its tool calls is recorded as. */
function turnAnswer(text: string, reasoning: string): LLMAnswer {
  return {
    content: text,
    ...(reasoning !== "" && { reasoning }),
    tool_calls: [],
    stop_reason: "tool_calls",
    usage: noUsage(),
    tokens_used: 0,
  };
}
