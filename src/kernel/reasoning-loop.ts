import {
  type Data,
  type LLMAnswer,
  type LLMRequest,
  type LLMTool,
  type Message,
  SyscallError,
  type Usage,
} from "../plugin/index.ts";
import type { ToolCallRecord } from "../store/schema.ts";
import type { Clock } from "./clock.ts";
import type { ContextSyscalls } from "./context-syscalls.ts";
import type { Debugger } from "./debugger.ts";
import type { FileSystem } from "./file-system.ts";
import type { Inboxes } from "./ipc/inboxes.ts";
import { stepText } from "./ipc/wording.ts";
import { type CallBudget, reserveCall } from "./llm/call-budget.ts";
import type { ModelDevice, ModelGate } from "./llm/gate.ts";
import { Spending } from "./llm/spending.ts";
import { wordsEntry } from "./log-entry.ts";
import { LoopGuard } from "./loop-guard.ts";
import type { Process } from "./process.ts";
import type { OpenStep } from "./resume/history.ts";
import { actionOf, soFar, stepRecord } from "./step-record.ts";
import { runToolCalls, type ToolCallPorts, toolMessage } from "./tool-call.ts";
import { asTold } from "./tool-list.ts";
import type { ExitReason, ProcessEvent, Wake } from "./types.ts";
import type { Outcome } from "./verdict.ts";
import type { WaitingCalls } from "./waiting-calls.ts";

const ANSWER_PIECE = 1024 * 1024;

export interface LoopPorts {
  clock: Clock;
  ctx: ContextSyscalls;
  files: FileSystem;
  debug: Debugger;
  gate: ModelGate;
  inboxes: Inboxes;
  waiting: WaitingCalls;
  /** The run lays itself down. */
  suspend(proc: Process, reason: string, wake: Wake): void;
  tools: ToolCallPorts;
  onStep(proc: Process): void;
  emit(proc: Process, event: ProcessEvent): void;
}

/**
 * The reasoning loop of one process (design §4): one task, native tool calls; calls present means act,
 * none means finished. It always returns an outcome; what it throws is a defect of ours.
 */
export async function reason(ports: LoopPorts, proc: Process): Promise<Outcome> {
  const loop = new ReasoningLoop(ports, proc);
  try {
    for (;;) {
      await proc.gate();
      const stopped = proc.stopped;
      const outcome: Outcome | undefined = stopped ? { kind: "stopped", status: stopped } : await loop.step();
      if (outcome?.kind === "stopped") loop.keepPartial();
      if (outcome) return outcome;
    }
  } catch (thrown) {
    loop.keepPartial();
    if (proc.stopped) return { kind: "stopped", status: proc.stopped };
    if (thrown instanceof Broken) return { kind: "broken", reason: thrown.reason, error: thrown.error };
    throw thrown;
  } finally {
    // What came now would be told to nobody. A run that is suspended is told when it goes on.
    if (proc.stopped?.reason !== "suspended") ports.inboxes.of(proc).close();
  }
}

/** What ends a run from inside a step. */
class Broken extends Error {
  readonly reason: ExitReason;
  readonly error: SyscallError;

  constructor(reason: ExitReason, error: SyscallError) {
    super(error.message, { cause: error });
    this.reason = reason;
    this.error = error;
  }
}

class ReasoningLoop {
  readonly #ports: LoopPorts;
  readonly #proc: Process;
  readonly #guard: LoopGuard;
  #tools: LLMTool[] = [];
  readonly #device: ModelDevice;
  /** Text of the answer that is arriving: what is kept when the run is cut off in its middle. */
  #arriving = "";
  #lastText = "";
  /** Numbers of what this step was told of the inbox, if it was told something. */
  #told: number[] | undefined;
  #planned: boolean;
  /** The answer under way was given less room than the model has, because the budget has no more. */
  #roomFromBudget = false;
  #reads = 0;
  #readBytes = 0;
  /** What the attempts of the call under way have reported: it is spent, also when the call fails for good. */
  #spent = new Spending();

  constructor(ports: LoopPorts, proc: Process) {
    this.#ports = ports;
    this.#proc = proc;
    this.#guard = new LoopGuard(proc.spec.opts.limits.loopThreshold);
    this.#planned = proc.plan !== null;
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

  /** One step, whole: an outcome when it was the last one. */
  async step(): Promise<Outcome | undefined> {
    const proc = this.#proc;
    const { openStep, answered } = proc;
    proc.openStep = null;
    proc.answered = null;
    if (openStep) return this.#goOn(openStep);
    if (answered !== null && (await this.#ports.inboxes.of(proc).finish())) {
      proc.result = answered;
      return { kind: "finished" };
    }
    await this.#drainInbox();
    const request = this.#request();
    const budget = await this.#reserve(request);
    proc.step++;
    this.#ports.onStep(proc);
    const ts = new Date(this.#ports.clock.now()).toISOString();
    const answer = await this.#ask(request, budget);
    const assistant: Message = { role: "assistant", content: answer.content };
    if (answer.tool_calls.length > 0) assistant.tool_calls = answer.tool_calls;
    recorded(() =>
      proc.record.journal({
        t: "answer",
        v: 1,
        step: proc.step,
        ts,
        message: assistant,
        usage: answer.usage,
        stop_reason: answer.stop_reason,
        so_far: soFar(proc),
        messages: proc.unrecorded.length > 0 ? [...proc.unrecorded] : undefined,
        inbox: this.#told,
      }),
    );
    this.#log("thought", answer.reasoning);
    this.#log("text", answer.content);

    return this.#act(ts, assistant, answer);
  }

  /** Finishes the step that was open when the run was cut off: its answer is there, and some of its calls are. */
  async #goOn({
    step,
    ts,
    message,
    usage,
    stopReason,
    inbox,
    settled,
    waiting,
  }: OpenStep): Promise<Outcome | undefined> {
    const proc = this.#proc;
    proc.step = step;
    this.#ports.onStep(proc);
    this.#told = inbox;
    this.#lastText = message.content;
    this.#ports.waiting.restore(proc, waiting);
    const answer: LLMAnswer = {
      content: message.content,
      tool_calls: message.tool_calls ?? [],
      stop_reason: stopReason,
      usage,
      tokens_used: usage.input_tokens + usage.output_tokens,
    };
    return this.#act(ts, message, answer, settled);
  }

  /** What follows an answer: its calls, the record of both, and whether it was the last. */
  async #act(
    ts: string,
    assistant: Message,
    answer: LLMAnswer,
    settled?: ReadonlyMap<string, ToolCallRecord>,
  ): Promise<Outcome | undefined> {
    const proc = this.#proc;
    const calls = await this.#call(answer, settled);
    // The step stays open in the journal, and is finished when the run goes on.
    if (proc.stopped && calls.at(-1)?.state === "waiting") return { kind: "stopped", status: proc.stopped };
    await this.#ports.ctx.appendTurn(proc, assistant, calls.map(toolMessage));
    this.#record(ts, assistant, answer, calls);
    if (proc.stopped) return { kind: "stopped", status: proc.stopped };
    return (await this.#finished(answer)) ?? this.#circles(calls);
  }

  /** What there is of an answer when the run is cut off. Not called for a run that finished. */
  keepPartial(): void {
    const text = this.#arriving || this.#lastText;
    if (text === "") return;
    this.#proc.result = text;
    this.#proc.partial = true;
  }

  /** What has arrived becomes one message; the step record that holds it acknowledges it. */
  async #drainInbox(): Promise<void> {
    const entries = this.#ports.inboxes.take(this.#proc);
    this.#told = entries.length > 0 ? entries.map(({ seq }) => seq) : undefined;
    if (entries.length === 0) return;
    await this.#ports.ctx.append(this.#proc, { role: "user", content: stepText(entries) });
  }

  #request(): LLMRequest {
    const proc = this.#proc;
    const prompt = this.#ports.ctx.prompt(proc);
    return {
      intent: proc.spec.intent,
      system_prompt: prompt.systemPrompt,
      model: proc.provider.model,
      timeout_ms: proc.spec.opts.limits.modelTotalMs,
      messages: [...prompt.messages],
      tools: this.#shownTools(),
      stream: true,
    };
  }

  #shownTools(): LLMTool[] {
    const { tools } = this.#proc;
    if (tools.size > this.#tools.length) {
      this.#tools = [...tools.values()].map(({ tool }) => asTold(tool));
    }
    return this.#tools;
  }

  /**
   * The budget check before the call. The answer gets no more room than there is, and a call that does not fit
   * is not made. Stopped while it waits for what others hold back, it throws.
   */
  async #reserve(request: LLMRequest): Promise<CallBudget> {
    const { spec, provider, signal } = this.#proc;
    const budget = await reserveCall(spec.envelope, request, provider, signal);
    if ("reason" in budget) throw new Broken(budget.reason, budget.error);
    this.#roomFromBudget = budget.lowered;
    if (budget.maxOutput !== undefined) request.max_output = budget.maxOutput;
    return budget;
  }

  /** The model's answer, through the gate that all processes of one provider and key share. */
  async #ask(request: LLMRequest, budget: CallBudget): Promise<LLMAnswer> {
    const proc = this.#proc;
    const { provider } = proc;
    const { limits } = proc.spec.opts;
    this.#arriving = "";
    this.#reads = 0;
    this.#readBytes = 0;
    this.#spent = new Spending();
    let used: Usage | undefined;
    try {
      const answer = await this.#ports.debug.call(
        proc,
        "Read",
        { fd: proc.llmFd, length: ANSWER_PIECE },
        () =>
          this.#ports.gate.call(provider.gateKey, this.#device, request, {
            signal: proc.signal,
            clock: proc.clock,
            totalMs: limits.modelTotalMs,
            idleMs: limits.modelIdleMs,
            retries: limits.modelRetries,
            patienceMs: limits.modelWaitMs,
            concurrency: provider.concurrency,
            onEvent: (event) => {
              if (event.type === "usage") this.#spent.report(event.usage);
              if (event.type !== "text_delta") return;
              this.#arriving += event.text;
              this.#ports.emit(proc, { type: "text_delta", step: proc.step, text: event.text });
            },
            onRetry: ({ attempt, delayMs, error }) => {
              this.#arriving = "";
              this.#spent.nextAttempt();
              this.#ports.emit(proc, {
                type: "retry",
                step: proc.step,
                attempt,
                delayMs,
                message: error.message,
              });
            },
          }),
        () => ({ bytes: this.#readBytes, pieces: this.#reads }),
      );
      used = answer.usage;
      if (answer.content !== "") this.#lastText = answer.content;
      this.#arriving = "";
      return answer;
    } catch (thrown) {
      if (proc.stopped || !(thrown instanceof SyscallError)) throw thrown;
      if (!isWindow(thrown)) throw new Broken("llm_error", thrown);
      // It does not spin: it is gone on with when the window ends (design §4).
      this.#ports.suspend(proc, thrown.message, { on: "at", at_ms: thrown.resetAtMs });
      throw thrown;
    } finally {
      this.#pay(used ?? this.#spent.total(), budget);
    }
  }

  #pay(used: Usage, budget: CallBudget): void {
    const { usage } = this.#proc;
    usage.input_tokens += used.input_tokens;
    usage.output_tokens += used.output_tokens;
    usage.cached_tokens += used.cached_tokens;
    budget.pay(used);
  }

  async #call(
    answer: LLMAnswer,
    settled: ReadonlyMap<string, ToolCallRecord> | undefined,
  ): Promise<ToolCallRecord[]> {
    if (answer.tool_calls.length === 0) return [];
    try {
      return await runToolCalls(this.#ports.tools, this.#proc, answer.tool_calls, settled);
    } catch (thrown) {
      throw thrown instanceof SyscallError ? new Broken("record_error", thrown) : thrown;
    }
  }

  #record(ts: string, assistant: Message, answer: LLMAnswer, calls: ToolCallRecord[]): void {
    const proc = this.#proc;
    const action = actionOf(calls, this.#planned);
    if (action === "plan") this.#planned = true;
    const told = this.#told;
    recorded(() => proc.record.step(stepRecord(proc, { ts, assistant, answer, calls, action, told })));
    proc.recordedStep = proc.step;
  }

  async #finished(answer: LLMAnswer): Promise<Outcome | undefined> {
    const proc = this.#proc;
    if (proc.completion !== null) {
      proc.result = proc.completion;
      return { kind: "finished" };
    }
    if (answer.tool_calls.length > 0) return undefined;
    // What came in the meantime is told to the model before the run may end.
    if (!(await this.#ports.inboxes.of(proc).finish())) return undefined;
    if (answer.stop_reason === "max_tokens" || answer.stop_reason === "refusal") {
      proc.result = answer.content;
      proc.partial = true;
      return this.#cutShort(answer.stop_reason);
    }
    proc.result = answer.content;
    return { kind: "finished" };
  }

  #circles(calls: readonly ToolCallRecord[]): Outcome | undefined {
    const trip = this.#guard.step(calls);
    if (!trip) return undefined;
    this.keepPartial();
    return broken(trip.reason, trip.message);
  }

  #cutShort(why: "max_tokens" | "refusal"): Outcome {
    if (why === "refusal") {
      return broken("failed", "The model declined to answer.");
    }
    if (this.#roomFromBudget) {
      return broken(
        "budget_exceeded",
        "The answer was cut off where the token budget ended. Give it more with --budget.",
      );
    }
    return broken(
      "llm_error",
      "The answer was cut off at the model's output limit before the agent finished.",
    );
  }

  #log(kind: "text" | "thought", text: string | undefined): void {
    if (!text) return;
    const ts = new Date(this.#ports.clock.now()).toISOString();
    const entry = wordsEntry({ ts, step: this.#proc.step }, kind, text);
    this.#ports.emit(this.#proc, { type: "log", entry });
  }
}

/** The gate's word that the provider asks for a longer wait than the run sits out. */
function isWindow(error: SyscallError): error is SyscallError & { resetAtMs: number } {
  return error.resetAtMs !== undefined && error.retryable !== false;
}

function broken(reason: ExitReason, message: string): Outcome {
  return { kind: "broken", reason, error: new SyscallError("EXHAUSTED", message) };
}

/** A step that cannot be written down ends the run before its effects. */
function recorded(write: () => void): void {
  try {
    write();
  } catch (thrown) {
    throw thrown instanceof SyscallError ? new Broken("record_error", thrown) : thrown;
  }
}
