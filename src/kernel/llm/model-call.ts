/** The model calls of one run, with their budget, fallbacks and progress. */

import { firstLine } from "../../lib/call-title.ts";
import { sleep } from "../../lib/clock.ts";
import { type Effort, type LLMAnswer, type LLMEvent, SyscallError, type Usage } from "../../plugin/index.ts";
import type { Activity, LiveEvent } from "../../run/live-event.ts";
import { noUsage } from "../../run/usage.ts";
import {
  type BudgetShortage,
  type CallBudget,
  CallCharge,
  reserveCall,
  reserveTurn,
} from "../budget/call-budget.ts";
import { RunError } from "../errors/kernel-errors.ts";
import type { Process } from "../process/process.ts";
import type { Core } from "../tiers/core.ts";
import type { Io } from "../tiers/io.ts";
import { ProgramToolCalls, type ProgramTurn } from "../tools/program-tool-calls.ts";
import type { ProviderChoice, SuspendCause } from "../types.ts";
import { Fallback } from "./fallback.ts";
import type { SlotWait } from "./key-limiter.ts";
import { ModelDeviceFile, type ModelRequest } from "./model-device.ts";
import type { GateObserver, Retry, SlotLease } from "./model-gate.ts";
import {
  isRetryable,
  NO_RETRY,
  outageWaitMs,
  type RetryLimits,
  RetrySchedule,
  retryLimitsOf,
} from "./retry.ts";

const READ_LENGTH = 1024 * 1024;

/** The steps of one answer. A program that calls tools itself makes several steps of it. */
export interface AnswerEvents {
  /** A step starts, and the budget covers it. Not called for a call that is not a step. */
  begin(): void;
  /** The program is about to call the first tool of this step. If absent, it may call none. */
  called?(text: string, reasoning: string): void;
  /** The step is over. Return false to end the answer. */
  ended?(turn: ProgramTurn, usage: Usage): boolean;
}

interface AnswerOptions {
  /** 0 if the call is not a step of the run; default 1. */
  steps?: 0 | 1;
  /** Overrides the run's time limit of a model call. */
  totalMs?: number;
  /**
   * The run continues without its answer, which is part of something else, such as a compaction: it is retried only
   * briefly and by no other model, no events are emitted, and a failure does not suspend the run.
   */
  optional?: true;
}

/** One request to the model. A call makes several if the run gets another key or model. */
interface Attempt extends ReportedCall {
  request: ModelRequest;
  options: AnswerOptions;
  progress: CallProgress;
}

/** How an attempt ended. */
type AttemptEnd =
  /** `begins`: the program had recorded all its steps, so the answer is a step of its own. */
  | { kind: "answered"; answer: LLMAnswer; begins: boolean }
  /** The run has another key or model: the same step asks again. */
  | { kind: "recovered" }
  /** The answer broke off after tool calls, which the next request contains. `retry`: when the same model is asked. */
  | { kind: "brokeOff"; retry?: Retry }
  /** A step of the program was the last one that is wanted. */
  | { kind: "stopped" }
  | { kind: "failed"; error: unknown };

/**
 * Calls the model of one process, one call at a time: reserves the call's budget, makes the call through the gate
 * that all processes share, and charges what it used, also if it fails.
 */
export class ModelCall {
  readonly #parts: Io;
  readonly #proc: Process;
  /** Made by the first failure after an answer. */
  #fallback: Fallback | undefined;
  /** Set while calls break off one after another after the program called a tool. */
  #breaks: RetrySchedule | undefined;
  /** What the last attempt was charged. */
  paid = noUsage();
  /** The last answer's output limit was lowered to fit the budget. */
  cutByBudget = false;

  constructor(parts: Io, proc: Process) {
    this.#parts = parts;
    this.#proc = proc;
  }

  /** Takes another model or effort for the next call. Fails, and changes nothing, if it can't be used. */
  async change(provider: ProviderChoice | undefined, effort: Effort | undefined): Promise<void> {
    await new Fallback(this.#parts, this.#proc).change(provider, effort);
    this.#fallback = undefined;
    this.#breaks = undefined;
  }

  /** One complete answer that is not a step, from a model that may call no tools itself. Throws as `converse` does. */
  async answer(request: ModelRequest, options: Omit<AnswerOptions, "steps">): Promise<LLMAnswer> {
    const answer = await this.converse(request, { begin: () => undefined }, { ...options, steps: 0 });
    if (!answer) throw new SyscallError("INTERNAL", "A model call without tool calls gave no answer.");
    return answer;
  }

  /**
   * The complete answer, or of an answer in several steps the last step's part. Returns undefined if `ended` wants no
   * more, or if the answer broke off after calls that must not be repeated: then call again with their results. Throws
   * a RunError that ends the run, or the signal's reason. If the provider asks for too long a wait, the run suspends
   * itself. If the model fails, the run's next model is asked in the same step.
   */
  async converse(
    request: ModelRequest,
    events: AnswerEvents,
    options: AnswerOptions = {},
  ): Promise<LLMAnswer | undefined> {
    for (let begins = options.steps !== 0; ; begins = false) {
      const { provider, effort } = this.#proc.model;
      const sent = { ...request, model: provider.model, effort: request.effort && effort };
      const attempt = await this.#begin(sent, begins, events, options);
      const end = await this.#run(attempt);
      switch (end.kind) {
        case "recovered":
          continue;
        case "failed":
          throw end.error;
        case "stopped":
          return undefined;
        case "brokeOff":
          if (!end.retry) return undefined;
          attempt.progress.onRetry(end.retry);
          await sleep(this.#proc.clock, end.retry.delayMs, this.#proc.work.signal);
          return undefined;
        case "answered":
          attempt.progress.arrived("");
          if (end.begins) events.begin();
          return end.answer;
      }
    }
  }

  /** Reserves the attempt's budget, begins its step, and lets a program that is the model call tools. */
  async #begin(
    request: ModelRequest,
    begins: boolean,
    events: AnswerEvents,
    options: AnswerOptions,
  ): Promise<Attempt> {
    const { model, spec } = this.#proc;
    const isProgram = spec.namespace.resolve(model.provider.device).entry.needs.includes("tools");
    const charge = new CallCharge(this.#proc, await this.#reserve(request, isProgram, options));
    if (begins) events.begin();
    const programCalls = events.called && isProgram ? this.#acceptCalls(events, charge) : undefined;
    this.#proc.model.served = programCalls;
    const call = { charge, programCalls, optional: options.optional === true };
    return { ...call, request, options, progress: new CallProgress(this.#parts, this.#proc, call) };
  }

  /** Makes the attempt and charges it. */
  async #run(attempt: Attempt): Promise<AttemptEnd> {
    const { charge, programCalls, options } = attempt;
    const { work } = this.#proc;
    // A fallback that can't be recorded ends the run; the attempt is charged all the same.
    const end = await this.#send(attempt).catch((error: unknown): AttemptEnd => ({ kind: "failed", error }));
    // Accepts no more tool calls, and waits for those under way: they may end the answer.
    this.#proc.model.served = undefined;
    const settled = await programCalls?.settle().then(() => undefined, endedBy);
    const begins = charge.isPaid;
    const answer = end.kind === "answered" ? end.answer : undefined;
    // A step that is interrupted before its answer begins does not count.
    const isNone = end.kind === "recovered" || (work.interrupted && !answer && work.arriving === "");
    this.paid = this.#pay(charge, answer?.usage, isNone ? 0 : options.steps);
    if (!answer) return end;
    if (settled || !programCalls) return settled ?? end;
    // The last turn of a program: what came after its last tool call.
    const { text, reasoning } = programCalls.turnText;
    const tokens_used = this.paid.input_tokens + this.paid.output_tokens;
    const last = { content: text || answer.content, reasoning: reasoning || undefined };
    return { kind: "answered", answer: { ...answer, ...last, usage: this.paid, tokens_used }, begins };
  }

  async #send(attempt: Attempt): Promise<AttemptEnd> {
    const { request, charge, programCalls, optional } = attempt;
    const { model, run, work } = this.#proc;
    try {
      const answer = await this.#call(attempt);
      this.#breaks = undefined;
      model.outageWaitMs = undefined;
      this.#fallback = undefined;
      // A program reports its usage of all turns together: neither the estimate nor the conversation's size is in it.
      const { input_tokens, output_tokens } = charge.attempt;
      if (!programCalls) model.estimate.learn(request, input_tokens);
      if (!optional && input_tokens > 0)
        run.contextTokens = programCalls ? null : input_tokens + output_tokens;
      return { kind: "answered", answer, begins: false };
    } catch (thrown) {
      const retry = this.#retryAfterBreak(thrown, programCalls);
      if (retry) return { kind: "brokeOff", retry };
      const mayRecover = !optional && !programCalls?.stopped && !work.interrupted;
      if (!mayRecover) return this.#failed(thrown, attempt);
      this.#fallback ??= new Fallback(this.#parts, this.#proc);
      if (!(await this.#fallback.recover(thrown))) return this.#failed(thrown, attempt);
      this.#breaks = undefined;
      return { kind: programCalls?.hasCalled ? "brokeOff" : "recovered" };
    }
  }

  /** Accepts the tool calls of a program; each of its turns is a step. */
  #acceptCalls(events: AnswerEvents, charge: CallCharge): ProgramToolCalls {
    return new ProgramToolCalls(this.#parts, this.#proc, {
      called: (text, reasoning) => events.called?.(text, reasoning),
      ended: (turn) => {
        if (!events.ended?.(turn, this.#pay(charge))) throw STOP;
        this.#proc.work.arriving = "";
      },
      next: () => {
        charge.budget = requireBudget(reserveTurn(this.#proc.spec.budget, this.#proc.model.provider));
        events.begin();
      },
    });
  }

  /** Reserves the call's budget, and lowers its output limit to what is left. Throws if the call does not fit. */
  async #reserve(
    request: ModelRequest,
    isProgram: boolean,
    { steps, optional }: AnswerOptions,
  ): Promise<CallBudget> {
    const { spec, model, work, run } = this.#proc;
    const input = model.estimate.of(request);
    if (!optional) run.contextTokens = isProgram ? null : input;
    // A program makes its own model requests: it gets their maximum number.
    const turns = isProgram ? spec.budget.left("steps") : Infinity;
    if (turns >= 1 && turns < Infinity) request.max_turns = turns;
    const onWait = (): void =>
      this.#parts.watchers.doing(this.#proc, "slot", "waiting for budget that other calls have reserved");
    const terms = { input, steps, onWait };
    const reserved = await reserveCall(spec.budget, request, model.provider, work.cancellation, terms);
    const budget = requireBudget(reserved);
    this.cutByBudget = budget.lowered;
    if (budget.maxOutput !== undefined) request.max_output = budget.maxOutput;
    return budget;
  }

  #call({ request, programCalls, progress, options }: Attempt): Promise<LLMAnswer> {
    const { debug, gate } = this.#parts;
    const proc = this.#proc;
    const device = new ModelDeviceFile(this.#parts.files, proc);
    const { limits } = proc.spec.opts;
    const gateOptions = {
      signal: programCalls?.signal ?? proc.work.cancellation,
      clock: proc.clock,
      totalMs: options.totalMs ?? limits.model_timeout,
      idleMs: limits.model_idle_timeout,
      patienceMs: limits.model_wait,
      provider: proc.model.provider,
      tree: proc.spec.tree,
      observer: progress,
    };
    const args = { fd: proc.model.fd, length: READ_LENGTH };
    const read = () => gate.call(proc.model.provider.gateKey, device, request, gateOptions);
    const result = () => ({ bytes: device.readBytes, pieces: device.reads });
    return debug.call(proc, "Read", args, read, result);
  }

  /** If a program broke off after it called tools, the same model is asked again with their results. */
  #retryAfterBreak(thrown: unknown, programCalls: ProgramToolCalls | undefined): Retry | undefined {
    if (!programCalls?.hasCalled || programCalls.stopped || this.#isStopped) return undefined;
    if (!(thrown instanceof SyscallError) || !isRetryable(thrown) || asksForLongWait(thrown))
      return undefined;
    this.#breaks ??= new RetrySchedule(this.#proc.clock, this.#parts.random);
    const wait = this.#breaks.next(thrown, retryLimitsOf(this.#proc.spec.opts.limits));
    return wait && { attempt: this.#breaks.failures, ...wait, error: thrown };
  }

  /** Ends an attempt without an answer. A run whose model may answer later is suspended; it does not wait in memory. */
  #failed(thrown: unknown, { programCalls, optional }: Attempt): AttemptEnd {
    if (programCalls?.stopped) return endedBy(programCalls.stopped.because);
    if (this.#isStopped || !(thrown instanceof SyscallError)) return { kind: "failed", error: thrown };
    const wake = this.#wakeAfter(thrown, optional);
    if (!wake) return { kind: "failed", error: new RunError("llm_error", thrown) };
    const { atMs, cause } = wake;
    if (!optional) this.#parts.suspend(this.#proc, thrown.message, { on: "at", at_ms: atMs }, cause);
    return { kind: "failed", error: thrown };
  }

  /** When the quota is reset; after all retries of a run that no client follows, when the model may be up again. */
  #wakeAfter(error: SyscallError, optional: boolean): { atMs: number; cause?: SuspendCause } | undefined {
    if (asksForLongWait(error)) return { atMs: Math.ceil(error.resetAtMs) };
    const { model, spec } = this.#proc;
    const { detached, limits } = spec.opts;
    const retryMs = limits.model_retry_time;
    if (optional || !detached || !spec.wakes || retryMs <= 0 || !isRetryable(error)) return undefined;
    const ms = outageWaitMs(retryMs, model.outageWaitMs, this.#parts.random);
    return { atMs: Math.round(this.#parts.clock.now() + ms), cause: "model" };
  }

  get #isStopped(): boolean {
    return this.#proc.stopped !== undefined || this.#proc.work.interrupted;
  }

  #pay(charge: CallCharge, total?: Usage, steps?: 0 | 1): Usage {
    const paid = charge.pay(total, steps);
    this.#parts.watchers.used(this.#proc, paid);
    return paid.used;
  }
}

/** Thrown when no further step is wanted. */
const STOP = Symbol("no more");

/** The end by what a step of a program has thrown. A step that can't be recorded ends the run. */
function endedBy(thrown: unknown): AttemptEnd {
  if (thrown === STOP) return { kind: "stopped" };
  const error = thrown instanceof SyscallError ? new RunError("record_error", thrown) : thrown;
  return { kind: "failed", error };
}

function requireBudget(budget: CallBudget | BudgetShortage): CallBudget {
  if ("reason" in budget) throw new RunError(budget.reason, budget.error);
  return budget;
}

/** Whether the gate reports that the provider asks for a longer wait than the run's patience. */
function asksForLongWait(error: SyscallError): error is SyscallError & { resetAtMs: number } {
  return error.resetAtMs !== undefined && error.retryable !== false;
}

export interface ReportedCall {
  charge: CallCharge;
  /** The tool calls of a program that acts as the model. */
  programCalls: ProgramToolCalls | undefined;
  /** The call is part of other work, such as a compaction: clients see nothing of it. */
  optional: boolean;
}

/** What the gate reports of one model call. */
export class CallProgress implements GateObserver {
  readonly #parts: Core;
  readonly #proc: Process;
  readonly #call: ReportedCall;
  /** What arrives of the answer. */
  #phase: "text_delta" | "reasoning_delta" | undefined;

  constructor(parts: Core, proc: Process, call: ReportedCall) {
    this.#parts = parts;
    this.#proc = proc;
    this.#call = call;
    this.arrived("");
  }

  /** No retries as soon as the program has called a tool, which a retry would repeat. */
  get retryLimits(): RetryLimits {
    if (this.#call.programCalls?.hasCalled) return NO_RETRY;
    const brief = this.#call.optional || this.#proc.model.fallbacks.length > 0;
    return retryLimitsOf(this.#proc.spec.opts.limits, { brief });
  }

  get isBusy(): boolean {
    return this.#call.programCalls?.busy ?? false;
  }

  onWait({ for: what, untilMs }: SlotWait): void {
    const wanted = what === "slot" ? "a free slot" : "the rate limit";
    this.#doing("slot", `waiting for ${wanted} of ${this.#proc.model.provider.name}`, untilMs);
  }

  onSlot(slot: SlotLease): void {
    this.#call.programCalls?.setSlot(slot);
    this.onGrant();
  }

  /** The call has its slot: the request is sent, and the answer is waited for. */
  onGrant(): void {
    this.#phase = undefined;
    this.#doing("model", `waiting for ${this.#proc.model.provider.model}`);
  }

  onEvent(event: LLMEvent): void {
    const { charge, programCalls } = this.#call;
    if (event.type === "usage") charge.report(event.usage);
    programCalls?.onEvent(event);
    if (event.type === "turn") this.onGrant();
    if (event.type !== "text_delta" && event.type !== "reasoning_delta") return;
    if (event.type === "text_delta") this.arrived(this.#proc.work.arriving + event.text);
    this.#answering(event.type);
    this.#emit({ event: event.type, step: this.#proc.run.step, text: event.text });
  }

  onRetry({ attempt, delayMs, leftMs, error }: Retry): void {
    this.arrived("");
    const untilMs = Math.ceil(this.#parts.clock.now() + delayMs);
    this.#doing("retry", `attempt ${attempt} failed: ${firstLine(error.message)}`, untilMs);
    this.#call.charge.nextAttempt();
    const { step } = this.#proc.run;
    const [delay_ms, left_ms] = [Math.round(delayMs), Math.round(leftMs)];
    this.#emit({ event: "retry", step, attempt, delay_ms, left_ms, message: error.message });
  }

  /** The text of the incomplete answer, as far as it has arrived. */
  arrived(text: string): void {
    if (!this.#call.optional) this.#proc.work.arriving = text;
  }

  /** The first delta of each kind is a change of what the model does. */
  #answering(phase: "text_delta" | "reasoning_delta"): void {
    if (this.#phase === phase) return;
    this.#phase = phase;
    this.#doing("model", phase === "text_delta" ? "writing" : "thinking");
  }

  #doing(kind: Activity["kind"], text: string, untilMs: number | null = null): void {
    if (!this.#call.optional) this.#parts.watchers.doing(this.#proc, kind, text, untilMs);
  }

  #emit(event: LiveEvent): void {
    if (!this.#call.optional) this.#parts.watchers.emit(this.#proc, event);
  }
}
