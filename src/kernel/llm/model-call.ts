import { type Data, type LLMAnswer, type LLMEvent, SyscallError } from "../../plugin/index.ts";
import { Broken } from "../broken.ts";
import type { Debugger } from "../debugger.ts";
import type { FileSystem } from "../file-system.ts";
import type { Process } from "../process.ts";
import type { ProcessEvent, Wake } from "../types.ts";
import { type CallBudget, reserveCall } from "./call-budget.ts";
import type { ModelCallOptions, ModelDevice, ModelGate } from "./gate.ts";
import type { ModelRequest } from "./request.ts";
import { addUsage, Spending } from "./spending.ts";

const ANSWER_PIECE = 1024 * 1024;

export interface ModelCallPorts {
  files: FileSystem;
  debug: Debugger;
  gate: ModelGate;
  /** The run lays itself down. */
  suspend(proc: Process, reason: string, wake: Wake): void;
  emit(proc: Process, event: ProcessEvent): void;
}

/**
 * Asks one process's model, one call at a time: holds back what the call may cost, makes it through the gate
 * that all processes of one provider and key share, and pays what it has used, also when it fails.
 */
export class ModelCall {
  readonly #ports: ModelCallPorts;
  readonly #proc: Process;
  readonly #device: ModelDevice;
  #arriving = "";
  #roomFromBudget = false;
  #reads = 0;
  #readBytes = 0;
  /** What the attempts of the call under way have reported: it is spent, also when the call fails for good. */
  #spent = new Spending();

  constructor(ports: ModelCallPorts, proc: Process) {
    this.#ports = ports;
    this.#proc = proc;
    this.#device = {
      write: (data, signal) => ports.files.write(proc, proc.llmFd, data, signal),
      read: async (max, signal) => {
        const data: Data = await ports.files.readQuietly(proc, proc.llmFd, max, signal);
        this.#reads++;
        this.#readBytes += data.length;
        return data;
      },
    };
  }

  /** Text of the answer that is arriving: what is kept when the run is cut off in its middle. */
  get arriving(): string {
    return this.#arriving;
  }

  /** The last answer was given less room than the model has, because the budget has no more. */
  get roomFromBudget(): boolean {
    return this.#roomFromBudget;
  }

  /**
   * The answer, whole. `begin` is called when the budget covers the call, before it is made. Throws Broken for
   * what ends the run; the signal's reason when it is told to stop meanwhile, as it is when the provider asks
   * for a longer wait than it sits out: then it has laid itself down.
   */
  async ask(request: ModelRequest, begin: () => void): Promise<LLMAnswer> {
    const budget = await this.#reserve(request);
    begin();
    this.#arriving = "";
    this.#reads = 0;
    this.#readBytes = 0;
    this.#spent = new Spending();
    let answer: LLMAnswer | undefined;
    try {
      answer = await this.#call(request);
      this.#arriving = "";
      return answer;
    } catch (thrown) {
      throw this.#failed(thrown);
    } finally {
      this.#pay(answer?.usage ?? this.#spent.total(), budget);
    }
  }

  /**
   * The budget check before the call. The answer gets no more room than there is, and a call that does not fit
   * is not made. Stopped while it waits for what others hold back, it throws.
   */
  async #reserve(request: ModelRequest): Promise<CallBudget> {
    const { spec, provider, signal } = this.#proc;
    const budget = await reserveCall(spec.envelope, request, provider, signal);
    if ("reason" in budget) throw new Broken(budget.reason, budget.error);
    this.#roomFromBudget = budget.lowered;
    if (budget.maxOutput !== undefined) request.max_output = budget.maxOutput;
    return budget;
  }

  #call(request: ModelRequest): Promise<LLMAnswer> {
    const { debug, gate } = this.#ports;
    const proc = this.#proc;
    return debug.call(
      proc,
      "Read",
      { fd: proc.llmFd, length: ANSWER_PIECE },
      () => gate.call(proc.provider.gateKey, this.#device, request, this.#options()),
      () => ({ bytes: this.#readBytes, pieces: this.#reads }),
    );
  }

  #options(): ModelCallOptions {
    const { signal, clock, provider, spec } = this.#proc;
    const { limits } = spec.opts;
    return {
      signal,
      clock,
      totalMs: limits.modelTotalMs,
      idleMs: limits.modelIdleMs,
      retries: limits.modelRetries,
      patienceMs: limits.modelWaitMs,
      provider: provider.name,
      concurrency: provider.concurrency,
      onEvent: (event) => this.#told(event),
      requestsPerMinute: provider.requestsPerMinute,
      tree: spec.tree,
      onRetry: (retry) => this.#again(retry),
    };
  }

  #told(event: LLMEvent): void {
    if (event.type === "usage") this.#spent.report(event.usage);
    if (event.type !== "text_delta" && event.type !== "reasoning_delta") return;
    if (event.type === "text_delta") this.#arriving += event.text;
    this.#ports.emit(this.#proc, { type: event.type, step: this.#proc.step, text: event.text });
  }

  #again({ attempt, delayMs, error }: Parameters<ModelCallOptions["onRetry"]>[0]): void {
    this.#arriving = "";
    this.#spent.nextAttempt();
    const { step } = this.#proc;
    this.#ports.emit(this.#proc, { type: "retry", step, attempt, delayMs, message: error.message });
  }

  #failed(thrown: unknown): unknown {
    if (this.#proc.stopped || !(thrown instanceof SyscallError)) return thrown;
    if (!isWindow(thrown)) return new Broken("llm_error", thrown);
    // It does not spin: it is gone on with when the window ends (design §4).
    this.#ports.suspend(this.#proc, thrown.message, { on: "at", at_ms: thrown.resetAtMs });
    return thrown;
  }

  #pay(used: LLMAnswer["usage"], budget: CallBudget): void {
    const { usage } = this.#proc;
    addUsage(usage, used);
    budget.pay(used);
  }
}

/** The gate's word that the provider asks for a longer wait than the run sits out. */
function isWindow(error: SyscallError): error is SyscallError & { resetAtMs: number } {
  return error.resetAtMs !== undefined && error.retryable !== false;
}
