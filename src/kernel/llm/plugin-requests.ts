/** The service `llm`: model requests of a driver, for the process that opened its device. */

import { type LLMAnswer, type LlmReply, type LlmRequest, O_RDWR, SyscallError } from "../../plugin/index.ts";
import { addUsage, noUsage } from "../../run/usage.ts";
import { CallCharge, reserveCall } from "../budget/call-budget.ts";
import type { FileSystem } from "../file-system.ts";
import type { Process } from "../process/process.ts";
import type { Core } from "../tiers/core.ts";
import type { ModelRequest } from "./model-device.ts";
import { ModelDeviceFile } from "./model-device.ts";
import type { ModelGate } from "./model-gate.ts";
import { retryLimitsOf } from "./retry.ts";

interface PluginRequestParts extends Core {
  files: FileSystem;
  gate: ModelGate;
  /** Reads an answer by a JSON Schema: the document, or what is wrong. Fails with INVALID for a bad schema. */
  readOutput(schema: object, answer: string): { text: string } | { problem: string };
}

/** Maximum requests of one process at a time. */
const MAX_OPEN = 8;
/** Maximum characters of prompt and system text. */
const MAX_CHARACTERS = 1_000_000;

/** Each request is charged to the process's budget and waits in the model's queue, but is no step of the run. */
export class PluginRequests {
  readonly #parts: PluginRequestParts;
  readonly #open = new Map<Process, number>();

  constructor(parts: PluginRequestParts) {
    this.#parts = parts;
  }

  /** `callId`: the tool call whose record gets the usage. `signal` ends the wait. */
  async ask(
    proc: Process,
    callId: string | undefined,
    asked: LlmRequest,
    signal: AbortSignal,
  ): Promise<LlmReply> {
    requireModel(proc);
    requireRequest(asked);
    const open = this.#open.get(proc) ?? 0;
    if (open >= MAX_OPEN) {
      const message = `${MAX_OPEN} model requests of drivers are open. Wait for some of them.`;
      throw new SyscallError("EXHAUSTED", message);
    }
    this.#open.set(proc, open + 1);
    try {
      const { content, usage } = await this.#request(proc, callId, requestOf(proc, asked), signal);
      if (asked.output_schema === undefined) return { text: content, usage };
      const read = this.#parts.readOutput(asked.output_schema, content);
      if ("text" in read) return { text: read.text, usage };
      throw new SyscallError("DRIVER", `The model's answer does not fit the output_schema: ${read.problem}`);
    } finally {
      const left = (this.#open.get(proc) ?? 1) - 1;
      if (left > 0) this.#open.set(proc, left);
      else this.#open.delete(proc);
    }
  }

  async #request(
    proc: Process,
    callId: string | undefined,
    request: ModelRequest,
    signal: AbortSignal,
  ): Promise<LLMAnswer> {
    const { spec, model } = proc;
    const terms = { input: proc.model.estimate.of(request), steps: 0 } as const;
    const budget = await reserveCall(spec.budget, request, model.provider, signal, terms);
    if ("reason" in budget) throw budget.error;
    request.max_output = Math.min(request.max_output ?? Infinity, budget.maxOutput ?? Infinity);
    if (request.max_output === Infinity) delete request.max_output;
    const charge = new CallCharge(proc, budget);
    let answer: LLMAnswer | undefined;
    try {
      answer = complete(await this.#call(proc, request, charge, signal));
      return answer;
    } finally {
      const paid = charge.pay(answer?.usage, 0);
      if (callId !== undefined) {
        const begun = () => ({ requests: 0, usage: noUsage() });
        const use = proc.run.modelUse.getOrInsertComputed(callId, begun);
        use.requests++;
        addUsage(use.usage, { ...paid.used, cost_usd: paid.cost_usd });
      }
      this.#parts.watchers.used(proc, paid);
    }
  }

  /** On a file of its own: the process's is in use while a program that is its model calls a tool. */
  async #call(
    proc: Process,
    request: ModelRequest,
    charge: CallCharge,
    signal: AbortSignal,
  ): Promise<LLMAnswer> {
    const { files, gate } = this.#parts;
    const { model, spec, clock } = proc;
    const { provider } = model;
    const { limits } = spec.opts;
    const fd = await files.open(proc, provider.device, O_RDWR, { kind: "kernel" }, signal);
    try {
      return await gate.call(provider.gateKey, new ModelDeviceFile(files, proc, fd), request, {
        signal,
        clock,
        totalMs: limits.model_timeout,
        idleMs: limits.model_idle_timeout,
        patienceMs: limits.model_wait,
        provider,
        tree: spec.tree,
        observer: {
          retryLimits: retryLimitsOf(limits, { brief: true }),
          onEvent: (event) => event.type === "usage" && charge.report(event.usage),
          onRetry: () => charge.nextAttempt(),
        },
      });
    } finally {
      // A failing close is in the trace, and does not change the answer.
      await files.close(proc, fd).catch(() => undefined);
    }
  }
}

function requireModel({ pid, model, state }: Process): void {
  const why =
    pid === 0
      ? "No run has made this call: there is no model to ask."
      : `Process ${pid} has no model that can be asked now.`;
  if (model.provider.device === "" || state !== "running") throw new SyscallError("UNAVAILABLE", why);
}

function requireRequest({ prompt, system = "", max_output }: LlmRequest): void {
  if (prompt.trim() === "") throw new SyscallError("INVALID", "llm: expected a text in prompt.");
  const length = prompt.length + system.length;
  if (length > MAX_CHARACTERS) {
    const message = `llm: prompt and system have ${length} characters; at most ${MAX_CHARACTERS} are allowed.`;
    throw new SyscallError("INVALID", message);
  }
  if (max_output !== undefined && !(Number.isSafeInteger(max_output) && max_output > 0)) {
    const message = `llm: expected a whole number above 0 in max_output, got ${max_output}.`;
    throw new SyscallError("INVALID", message);
  }
}

function requestOf(
  proc: Process,
  { prompt, system = "", max_output, output_schema }: LlmRequest,
): ModelRequest {
  const form =
    output_schema === undefined
      ? ""
      : `Answer with one JSON document that fits this JSON Schema, and nothing else: ${JSON.stringify(output_schema)}`;
  return {
    intent: proc.spec.intent,
    system_prompt: [system.trim(), form].filter((part) => part !== "").join("\n\n"),
    model: proc.model.provider.model,
    turn: null,
    messages: [{ role: "user", content: prompt }],
    stream: true,
    ...(max_output !== undefined && { max_output }),
    ...(output_schema !== undefined && { output_schema }),
  };
}

function complete(answer: LLMAnswer): LLMAnswer {
  const { stop_reason, stop_word, tool_calls } = answer;
  if (tool_calls.length === 0 && (stop_reason === "end_turn" || stop_reason === "max_tokens")) return answer;
  const why = tool_calls.length > 0 ? "it called a tool" : (stop_word ?? stop_reason);
  throw new SyscallError("DRIVER", `The model gave no complete answer: ${why}.`);
}
