import { type LLMAnswer, type LLMEvent, SyscallError, type Usage } from "../../plugin/index.ts";
import {
  type BudgetShortage,
  type CallBudget,
  costOf,
  reserveCall,
  reserveTurn,
} from "../budget/call-budget.ts";
import { AttemptUsage, addUsage, lessUsage, noUsage } from "../budget/usage.ts";
import type { Debugger } from "../debugger.ts";
import { RunError } from "../errors/run-error.ts";
import type { Process } from "../process/process.ts";
import { ProgramToolCalls, type ProgramTurn } from "../tools/program-tool-calls.ts";
import type { ToolCallPorts } from "../tools/tool-calls.ts";
import type { Wake } from "../types.ts";
import { Fallback, type FallbackPorts } from "./fallback.ts";
import { type GateObserver, GateOptions } from "./gate-options.ts";
import { ModelDeviceFile } from "./model-device.ts";
import type { ModelCallOptions, ModelGate } from "./model-gate.ts";
import type { ModelRequest } from "./model-request.ts";
import { isRetryable } from "./retry.ts";

const ANSWER_PIECE = 1024 * 1024;

export interface ModelCallPorts extends FallbackPorts {
  debug: Debugger;
  gate: ModelGate;
  tools: ToolCallPorts;
  /** The run lays itself down. */
  suspend(proc: Process, reason: string, wake: Wake): void;
}

/** What becomes of an asking, step by step: a program that calls tools by itself makes several of one answer. */
export interface AskEvents {
  /** The budget covers a step, and it is begun. Not called for what is none. */
  begin(): void;
  /** The program is about to call the first tool of this step, after it has said this. Absent: it may call none. */
  called?(text: string, reasoning: string): void;
  /** The step is over. False: no further one is wanted. */
  ended?(turn: ProgramTurn, usage: Usage): boolean;
}

/** What is special about one asking. */
interface AskTerms {
  /** Steps of the run that it is, before any further one; 1 if absent. */
  steps?: 0 | 1;
  /** Instead of the run's limit of a model call. */
  totalMs?: number;
  /** False: where it fails it is not made with another model. */
  fallback?: false;
}

/**
 * Asks one process's model, one call at a time: holds back what the call may cost, makes it through the gate
 * that all processes of one provider and key share, and pays what it has used, also when it fails.
 */
export class ModelCall implements GateObserver {
  readonly #ports: ModelCallPorts;
  readonly #proc: Process;
  readonly #device: ModelDeviceFile;
  readonly #fallback: Fallback;
  #arriving = "";
  #roomFromBudget = false;
  /** What the attempts of the call under way have reported: it is spent, also when the call fails for good. */
  #spent = new AttemptUsage();
  /** Of that, what was paid for with the steps before. */
  #paid = noUsage();
  #budget: CallBudget | undefined;
  #served: ProgramToolCalls | undefined;
  #toolRunner: boolean | undefined;
  /** Askings in a row that broke off after a tool call of their own. */
  #brokenOff = 0;

  constructor(ports: ModelCallPorts, proc: Process) {
    this.#ports = ports;
    this.#proc = proc;
    this.#fallback = new Fallback(ports, proc);
    this.#device = new ModelDeviceFile(ports, proc);
  }

  /** Text of the answer that is arriving: what is kept when the run is cut off in its middle. */
  get arriving(): string {
    return this.#arriving;
  }

  /** The last answer was given less room than the model has, because the budget has no more. */
  get roomFromBudget(): boolean {
    return this.#roomFromBudget;
  }

  /** An answer, whole, that is no step, of a model that may call no tools by itself meanwhile. Throws as `converse` does. */
  async ask(request: ModelRequest, terms: Omit<AskTerms, "steps">): Promise<LLMAnswer> {
    const answer = await this.converse(request, { begin: () => undefined }, { ...terms, steps: 0 });
    if (!answer) throw new SyscallError("INTERNAL", "An answer without calls of its own has come to no end.");
    return answer;
  }

  /**
   * The answer, whole, or of one in several steps what belongs to the last. undefined: there is none, for `ended`
   * wants no more, or it broke off after calls that must not be made again; then it is to be asked anew, with what
   * they came to. Throws Broken for what ends the run; the signal's reason when it is told to stop meanwhile, as it is
   * when the provider asks for a longer wait than it sits out: then it has laid itself down. A model that fails has
   * the run's next one asked, in the same step.
   */
  async converse(
    request: ModelRequest,
    events: AskEvents,
    terms: AskTerms = {},
  ): Promise<LLMAnswer | undefined> {
    for (let begun = false; ; begun = true) {
      const { provider, effort } = this.#proc;
      const asked = { ...request, model: provider.model, effort: request.effort && effort };
      const answer = await this.#once(asked, events, begun, terms);
      if (answer !== AGAIN) return answer;
    }
  }

  async #once(
    request: ModelRequest,
    events: AskEvents,
    begun: boolean,
    terms: AskTerms,
  ): Promise<LLMAnswer | undefined | typeof AGAIN> {
    this.#budget = await this.#reserve(request, terms);
    if (!begun && terms.steps !== 0) events.begin();
    this.#arriving = "";
    this.#device.reads = 0;
    this.#device.readBytes = 0;
    this.#spent = new AttemptUsage();
    this.#paid = noUsage();
    this.#served = this.#serve(events);
    this.#proc.served = this.#served;
    let answer: LLMAnswer | undefined;
    let end: Ending;
    let again = false;
    try {
      answer = await this.#call(request, terms);
      this.#brokenOff = 0;
      this.#fallback.reset();
      // What a program has used in several turns says nothing of the first.
      if (!this.#served) this.#proc.estimate.learn(request, this.#spent.attempt.input_tokens);
    } catch (thrown) {
      again = terms.fallback !== false && (await this.#getsOver(thrown));
      end = { error: again ? undefined : this.#failed(thrown) };
    }
    again &&= !this.#served?.made;
    const settled = await this.#settle();
    end ??= settled;
    const further = this.#budget === undefined;
    const usage = this.#pay(answer?.usage ?? this.#spent.total(), again ? 0 : terms.steps);
    if (again) return AGAIN;
    if (end?.error !== undefined) throw end.error;
    if (end || !answer) return undefined;
    this.#arriving = "";
    if (!this.#served) return answer;
    if (further) events.begin();
    return { ...answer, ...this.#last(answer), usage, tokens_used: usage.input_tokens + usage.output_tokens };
  }

  /** Whether the program that is the model calls tools by itself. */
  #runsTools(): boolean {
    const { provider, spec } = this.#proc;
    this.#toolRunner ??= spec.namespace.resolve(provider.device).entry.needs.includes("tools");
    return this.#toolRunner;
  }

  /** No more calls are taken; those under way have ended. */
  async #settle(): Promise<Ending> {
    this.#proc.served = undefined;
    try {
      await this.#served?.settle();
      return undefined;
    } catch (thrown) {
      return { error: thrown === NO_MORE ? undefined : asBroken(thrown) };
    }
  }

  /** Lets the program that is the model call tools, each of its turns a step. */
  #serve(events: AskEvents): ProgramToolCalls | undefined {
    if (!events.called || !this.#runsTools()) return undefined;
    return new ProgramToolCalls(this.#ports.tools, this.#proc, {
      called: (text, reasoning) => events.called?.(text, reasoning),
      ended: (turn) => {
        if (!events.ended?.(turn, this.#pay(this.#spent.total()))) throw NO_MORE;
        this.#arriving = "";
      },
      next: () => {
        this.#budget = covered(reserveTurn(this.#proc.spec.budget, this.#proc.provider));
        events.begin();
      },
    });
  }

  /**
   * The budget check before the call. The answer gets no more room than there is, and a call that does not fit
   * is not made. Stopped while it waits for what others hold back, it throws.
   */
  async #reserve(request: ModelRequest, { steps }: AskTerms): Promise<CallBudget> {
    const { spec, provider, signal, estimate } = this.#proc;
    const input = estimate.of(request);
    // A program that asks by itself is told how often it may.
    const turns = this.#runsTools() ? spec.budget.left("steps") : Infinity;
    if (turns >= 1 && turns < Infinity) request.max_turns = turns;
    const budget = covered(await reserveCall(spec.budget, request, provider, signal, { input, steps }));
    this.#roomFromBudget = budget.lowered;
    if (budget.maxOutput !== undefined) request.max_output = budget.maxOutput;
    return budget;
  }

  #call(request: ModelRequest, terms: AskTerms): Promise<LLMAnswer> {
    const { debug, gate } = this.#ports;
    const proc = this.#proc;
    return debug.call(
      proc,
      "Read",
      { fd: proc.llmFd, length: ANSWER_PIECE },
      () => gate.call(proc.provider.gateKey, this.#device, request, this.#options(terms)),
      () => ({ bytes: this.#device.readBytes, pieces: this.#device.reads }),
    );
  }

  #options({ totalMs }: AskTerms): ModelCallOptions {
    const { signal, clock, provider, spec } = this.#proc;
    const { limits } = spec.opts;
    const served = this.#served;
    return new GateOptions(this, {
      signal: served?.signal ?? signal,
      clock,
      totalMs: totalMs ?? limits.model_timeout,
      idleMs: limits.model_idle_timeout,
      patienceMs: limits.model_wait,
      provider,
      tree: spec.tree,
      served,
    });
  }

  /** Attempts after the first. Looked at after each: what has called a tool is not asked the same again. */
  get retries(): number {
    return this.#served?.made ? 0 : this.#proc.spec.opts.limits.model_retries;
  }

  told(event: LLMEvent): void {
    if (event.type === "usage") this.#spent.report(event.usage);
    this.#served?.told(event);
    if (event.type !== "text_delta" && event.type !== "reasoning_delta") return;
    if (event.type === "text_delta") this.#arriving += event.text;
    this.#ports.emit(this.#proc, { type: event.type, step: this.#proc.step, text: event.text });
  }

  again({ attempt, delayMs, error }: Parameters<ModelCallOptions["onRetry"]>[0]): void {
    this.#arriving = "";
    this.#spent.nextAttempt();
    const { step } = this.#proc;
    this.#ports.emit(this.#proc, { type: "retry", step, attempt, delayMs, message: error.message });
  }

  /** Whether the run goes on with another key or model. One that has called tools is asked anew before that. */
  async #getsOver(thrown: unknown): Promise<boolean> {
    const { stopped, made = false } = this.#served ?? {};
    if (stopped || (made && this.#mayAskAnew(thrown)) || !(await this.#fallback.getsOver(thrown)))
      return false;
    this.#toolRunner = undefined;
    this.#brokenOff = 0;
    return true;
  }

  #mayAskAnew(thrown: unknown): boolean {
    const { model_retries } = this.#proc.spec.opts.limits;
    return thrown instanceof SyscallError && isRetryable(thrown) && this.#brokenOff < model_retries;
  }

  /** What to throw; undefined where the run goes on. */
  #failed(thrown: unknown): unknown {
    const { stopped, made = false } = this.#served ?? {};
    if (stopped) return stopped.because === NO_MORE ? undefined : asBroken(stopped.because);
    if (this.#proc.stopped || !(thrown instanceof SyscallError)) return thrown;
    if (!isWindow(thrown)) {
      if (!made || !this.#mayAskAnew(thrown)) return new RunError("llm_error", thrown);
      this.#brokenOff++;
      return undefined;
    }
    // It does not spin: it is gone on with when the window ends (design §4).
    this.#ports.suspend(this.#proc, thrown.message, { on: "at", at_ms: thrown.resetAtMs });
    return thrown;
  }

  /** Pays what has come to what was paid already: that of the step under way. */
  #pay(total: Usage, steps: 0 | 1 = 1): Usage {
    const used = lessUsage(total, this.#paid);
    const budget = this.#budget;
    if (budget === undefined) return used;
    this.#budget = undefined;
    const cost_usd = costOf(used, this.#proc.provider.price) ?? undefined;
    addUsage(this.#paid, { ...used, cost_usd });
    addUsage(this.#proc.usage, used);
    budget.pay(used, steps);
    return used;
  }

  /** What was said and thought since the last call. */
  #last({ content }: LLMAnswer): Pick<LLMAnswer, "content" | "reasoning"> {
    const { text = "", reasoning = "" } = this.#served?.said ?? {};
    return { content: text || content, reasoning: reasoning || undefined };
  }
}

/** There is no answer: the error that says why; none where the run goes on. */
type Ending = { error?: unknown } | undefined;

/** The step is not over: its model has changed. */
const AGAIN = Symbol("again");

/** No further step is wanted. */
const NO_MORE = Symbol("no more");

function covered(budget: CallBudget | BudgetShortage): CallBudget {
  if ("reason" in budget) throw new RunError(budget.reason, budget.error);
  return budget;
}

/** What can't be recorded ends the run. */
function asBroken(thrown: unknown): unknown {
  return thrown instanceof SyscallError ? new RunError("record_error", thrown) : thrown;
}

/** The gate's word that the provider asks for a longer wait than the run sits out. */
function isWindow(error: SyscallError): error is SyscallError & { resetAtMs: number } {
  return error.resetAtMs !== undefined && error.retryable !== false;
}
