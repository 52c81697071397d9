/** Reports how far a model call is: to the clients that follow its run, and to its budget. */

import { firstLine } from "../../lib/call-title.ts";
import type { LLMEvent } from "../../plugin/index.ts";
import type { Activity, LiveEvent } from "../../run/live-event.ts";
import type { CallCharge } from "../budget/call-budget.ts";
import type { Process } from "../process/process.ts";
import type { Core } from "../tiers/core.ts";
import type { ProgramToolCalls } from "../tools/program-tool-calls.ts";
import type { SlotWait } from "./key-limiter.ts";
import type { GateObserver, Retry, SlotLease } from "./model-gate.ts";
import { NO_RETRY, type RetryLimits, retryLimitsOf } from "./retry.ts";

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
