/** The model calls of one run, with their budget and fallbacks. */

import { sleep } from "../../lib/cancellation.ts";
import { type Effort, type LLMAnswer, SyscallError, type Usage } from "../../plugin/index.ts";
import { noUsage } from "../../run/usage.ts";
import { type BudgetShortage, type CallBudget, reserveCall, reserveTurn } from "../budget/call-budget.ts";
import { RunError } from "../errors/kernel-errors.ts";
import type { Process } from "../process/process.ts";
import type { Io } from "../tiers/io.ts";
import { ProgramToolCalls, type ProgramTurn } from "../tools/program-tool-calls.ts";
import type { ProviderChoice, SuspendCause } from "../types.ts";
import { CallCharge } from "./call-charge.ts";
import { CallProgress } from "./call-progress.ts";
import { Fallback } from "./fallback.ts";
import type { ModelRequest } from "./model-device.ts";
import { ModelDeviceFile } from "./model-device.ts";
import type { GateObserver, Retry } from "./model-gate.ts";
import { isRetryable, outageWaitMs, RetrySchedule, retryLimitsOf } from "./retry.ts";

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

/**
 * Calls the model of one process, one call at a time: reserves the call's budget, makes the call through the gate
 * that all processes share, and charges what it used, also if it fails.
 */
export class ModelCall {
  readonly #parts: Io;
  readonly #proc: Process;
  readonly #device: ModelDeviceFile;
  readonly #fallback: Fallback;
  #cutByBudget = false;
  #paid = noUsage();
  #programCalls: ProgramToolCalls | undefined;
  #callsTools: boolean | undefined;
  /** Set while calls break off one after another after the program called a tool. */
  #breaks: RetrySchedule | undefined;
  #optional = false;

  constructor(parts: Io, proc: Process) {
    this.#parts = parts;
    this.#proc = proc;
    this.#fallback = new Fallback(parts, proc);
    this.#device = new ModelDeviceFile(parts.files, proc);
  }

  /** What the last attempt was charged. */
  get paid(): Usage {
    return this.#paid;
  }

  /** Takes another model or effort for the next call. Fails, and changes nothing, if it can't be used. */
  async change(provider: ProviderChoice | undefined, effort: Effort | undefined): Promise<void> {
    await this.#fallback.change(provider, effort);
    this.#callsTools = undefined;
    this.#breaks = undefined;
  }

  /** The last answer's output limit was lowered to fit the budget. */
  get cutByBudget(): boolean {
    return this.#cutByBudget;
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
    for (let begun = false; ; begun = true) {
      const { provider, effort } = this.#proc.model;
      const sent = { ...request, model: provider.model, effort: request.effort && effort };
      const answer = await this.#attempt(sent, events, begun, options);
      if (answer !== CALL_AGAIN) return answer;
    }
  }

  async #attempt(
    request: ModelRequest,
    events: AnswerEvents,
    begun: boolean,
    options: AnswerOptions,
  ): Promise<LLMAnswer | undefined | typeof CALL_AGAIN> {
    this.#optional = options.optional === true;
    const charge = new CallCharge(this.#proc, await this.#reserve(request, options));
    if (!begun && options.steps !== 0) events.begin();
    this.#device.reads = 0;
    this.#device.readBytes = 0;
    this.#programCalls = this.#acceptCalls(events, charge);
    this.#proc.model.served = this.#programCalls;
    const call = { charge, programCalls: this.#programCalls, optional: this.#optional };
    const progress = new CallProgress(this.#parts, this.#proc, call);
    let answer: LLMAnswer | undefined;
    let end: Ending;
    let again = false;
    let retry: Retry | undefined;
    try {
      answer = await this.#call(request, progress, options);
      this.#breaks = undefined;
      this.#proc.model.outageWaitMs = undefined;
      this.#fallback.reset();
      this.#learn(request, charge.attempt);
    } catch (thrown) {
      retry = this.#retryAfterBreak(thrown);
      again = retry === undefined && (await this.#recover(thrown));
      end = { error: retry || again ? undefined : this.#failed(thrown) };
    }
    again &&= !this.#programCalls?.hasCalled;
    const settled = await this.#settle();
    end ??= settled;
    const further = charge.isPaid;
    // A step that is interrupted before its answer begins does not count.
    const isNone = again || (this.#proc.work.interrupted && !answer && this.#proc.work.arriving === "");
    const usage = this.#pay(charge, answer?.usage, isNone ? 0 : options.steps);
    this.#paid = usage;
    if (again) return CALL_AGAIN;
    if (end?.error !== undefined) throw end.error;
    if (retry) {
      progress.onRetry(retry);
      await sleep(this.#proc.clock, retry.delayMs, this.#proc.work.signal);
    }
    if (end || !answer) return undefined;
    progress.arrived("");
    if (!this.#programCalls) return answer;
    if (further) events.begin();
    return {
      ...answer,
      ...this.#lastTurn(answer),
      usage,
      tokens_used: usage.input_tokens + usage.output_tokens,
    };
  }

  /** A program reports its usage of all turns together: neither the estimate nor the conversation's size is in it. */
  #learn(request: ModelRequest, { input_tokens, output_tokens }: Readonly<Usage>): void {
    const proc = this.#proc;
    if (!this.#programCalls) proc.model.estimate.learn(request, input_tokens);
    if (!this.#optional && input_tokens > 0)
      proc.run.contextTokens = this.#programCalls ? null : input_tokens + output_tokens;
  }

  /** Whether the model is a program that calls tools itself. */
  #runsTools(): boolean {
    const { model, spec } = this.#proc;
    this.#callsTools ??= spec.namespace.resolve(model.provider.device).entry.needs.includes("tools");
    return this.#callsTools;
  }

  /** Accepts no more tool calls of the program, and waits for those under way. */
  async #settle(): Promise<Ending> {
    this.#proc.model.served = undefined;
    try {
      await this.#programCalls?.settle();
      return undefined;
    } catch (thrown) {
      return { error: thrown === STOP ? undefined : asRunError(thrown) };
    }
  }

  /** Lets a program that is the model call tools; each of its turns is a step. */
  #acceptCalls(events: AnswerEvents, charge: CallCharge): ProgramToolCalls | undefined {
    if (!events.called || !this.#runsTools()) return undefined;
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
  async #reserve(request: ModelRequest, { steps, optional }: AnswerOptions): Promise<CallBudget> {
    const { spec, model, work } = this.#proc;
    const { provider, estimate } = model;
    const input = estimate.of(request);
    if (!optional) this.#proc.run.contextTokens = this.#runsTools() ? null : input;
    // A program makes its own model requests: it gets their maximum number.
    const turns = this.#runsTools() ? spec.budget.left("steps") : Infinity;
    if (turns >= 1 && turns < Infinity) request.max_turns = turns;
    const onWait = (): void =>
      this.#parts.watchers.doing(this.#proc, "slot", "waiting for budget that other calls have reserved");
    const reserving = reserveCall(spec.budget, request, provider, work.signal, { input, steps, onWait });
    const budget = requireBudget(await reserving);
    this.#cutByBudget = budget.lowered;
    if (budget.maxOutput !== undefined) request.max_output = budget.maxOutput;
    return budget;
  }

  #call(request: ModelRequest, observer: GateObserver, { totalMs }: AnswerOptions): Promise<LLMAnswer> {
    const { debug, gate } = this.#parts;
    const proc = this.#proc;
    const { limits } = proc.spec.opts;
    const gateOptions = {
      signal: this.#programCalls?.signal ?? proc.work.signal,
      clock: proc.clock,
      totalMs: totalMs ?? limits.model_timeout,
      idleMs: limits.model_idle_timeout,
      patienceMs: limits.model_wait,
      provider: proc.model.provider,
      tree: proc.spec.tree,
      observer,
    };
    return debug.call(
      proc,
      "Read",
      { fd: proc.model.fd, length: READ_LENGTH },
      () => gate.call(proc.model.provider.gateKey, this.#device, request, gateOptions),
      () => ({ bytes: this.#device.readBytes, pieces: this.#device.reads }),
    );
  }

  /** Tries another key or model. */
  async #recover(thrown: unknown): Promise<boolean> {
    if (this.#optional || this.#programCalls?.stopped || this.#proc.work.interrupted) return false;
    if (!(await this.#fallback.recover(thrown))) return false;
    this.#callsTools = undefined;
    this.#breaks = undefined;
    return true;
  }

  /** If a program broke off after it called tools, the same model is asked again with their results. */
  #retryAfterBreak(thrown: unknown): Retry | undefined {
    const { stopped, hasCalled = false } = this.#programCalls ?? {};
    if (stopped || !hasCalled || this.#proc.stopped || this.#proc.work.interrupted) return undefined;
    if (!(thrown instanceof SyscallError) || !isRetryable(thrown) || asksForLongWait(thrown))
      return undefined;
    this.#breaks ??= new RetrySchedule(this.#proc.clock, this.#parts.random);
    const wait = this.#breaks.next(thrown, retryLimitsOf(this.#proc.spec.opts.limits));
    return wait && { attempt: this.#breaks.failures, ...wait, error: thrown };
  }

  /** The error to throw; undefined if the run continues. */
  #failed(thrown: unknown): unknown {
    const { stopped } = this.#programCalls ?? {};
    if (stopped) return stopped.because === STOP ? undefined : asRunError(stopped.because);
    if (this.#proc.stopped || this.#proc.work.interrupted || !(thrown instanceof SyscallError)) return thrown;
    if (asksForLongWait(thrown)) {
      // The run does not wait in memory. It is suspended, and resumes when the quota is reset.
      this.#suspend(thrown.message, Math.ceil(thrown.resetAtMs));
      return thrown;
    }
    if (!this.#outlastsOutage(thrown)) return new RunError("llm_error", thrown);
    this.#suspendForOutage(thrown);
    return thrown;
  }

  /** Returns true when the run is suspended after all retries: no client follows it, and the model may answer later. */
  #outlastsOutage(error: SyscallError): boolean {
    const { opts, wakes = false } = this.#proc.spec;
    const detached = opts.detached === true && wakes && !this.#optional;
    return detached && opts.limits.model_retry_time > 0 && isRetryable(error);
  }

  #suspendForOutage({ message }: SyscallError): void {
    const { model, spec } = this.#proc;
    const ms = outageWaitMs(spec.opts.limits.model_retry_time, model.outageWaitMs, this.#parts.random);
    this.#suspend(message, Math.round(this.#parts.clock.now() + ms), "model");
  }

  #suspend(reason: string, atMs: number, cause?: SuspendCause): void {
    if (!this.#optional) this.#parts.suspend(this.#proc, reason, { on: "at", at_ms: atMs }, cause);
  }

  #pay(charge: CallCharge, total?: Usage, steps?: 0 | 1): Usage {
    const paid = charge.pay(total, steps);
    this.#parts.watchers.used(this.#proc, paid);
    return paid.used;
  }

  /** The text and reasoning since the program's last tool call. */
  #lastTurn({ content }: LLMAnswer): Pick<LLMAnswer, "content" | "reasoning"> {
    const { text = "", reasoning = "" } = this.#programCalls?.turnText ?? {};
    return { content: text || content, reasoning: reasoning || undefined };
  }
}

/** Set if there is no answer; without an error, the run continues. */
type Ending = { error?: unknown } | undefined;

/** The step is not over: ask the run's new key or model. */
const CALL_AGAIN = Symbol("again");

/** Thrown when no further step is wanted. */
const STOP = Symbol("no more");

function requireBudget(budget: CallBudget | BudgetShortage): CallBudget {
  if ("reason" in budget) throw new RunError(budget.reason, budget.error);
  return budget;
}

/** A step that can't be recorded ends the run. */
function asRunError(thrown: unknown): unknown {
  return thrown instanceof SyscallError ? new RunError("record_error", thrown) : thrown;
}

/** Whether the gate reports that the provider asks for a longer wait than the run's patience. */
function asksForLongWait(error: SyscallError): error is SyscallError & { resetAtMs: number } {
  return error.resetAtMs !== undefined && error.retryable !== false;
}
