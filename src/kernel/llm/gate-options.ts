/** The options of a call through the model gate. */

import type { Clock } from "../../lib/clock.ts";
import type { LLMEvent } from "../../plugin/index.ts";
import type { ProgramToolCalls } from "../tools/program-tool-calls.ts";
import type { ProviderChoice } from "../types.ts";
import type { SlotWait } from "./key-limiter.ts";
import type { ModelCallOptions, Retry } from "./model-gate.ts";
import type { RetryLimits } from "./retry.ts";
import type { SlotLease } from "./slot-lease.ts";

/** The model call that the gate reports to. */
export interface GateObserver {
  /** Read again after each attempt. */
  readonly retryLimits: RetryLimits;
  onEvent(event: LLMEvent): void;
  onRetry(retry: Retry): void;
  /** The call has a slot: an attempt begins, or a program asks its model again. */
  onSlot(): void;
  onWait(wait: SlotWait): void;
}

/** The gate's options for one call. A class, because thousands may wait, and methods take no memory per call. */
export class GateOptions implements ModelCallOptions {
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly totalMs: number;
  readonly idleMs: number;
  readonly patienceMs: number;
  readonly tree: string;
  readonly #provider: ProviderChoice;
  readonly #programCalls: ProgramToolCalls | undefined;
  readonly #observer: GateObserver;

  constructor(
    observer: GateObserver,
    o: Pick<GateOptions, "signal" | "clock" | "totalMs" | "idleMs" | "patienceMs" | "tree"> & {
      provider: ProviderChoice;
      programCalls: ProgramToolCalls | undefined;
    },
  ) {
    this.signal = o.signal;
    this.clock = o.clock;
    this.totalMs = o.totalMs;
    this.idleMs = o.idleMs;
    this.patienceMs = o.patienceMs;
    this.tree = o.tree;
    this.#provider = o.provider;
    this.#programCalls = o.programCalls;
    this.#observer = observer;
  }

  get retries(): number {
    return this.#observer.retryLimits.retries;
  }

  get retryMs(): number {
    return this.#observer.retryLimits.retryMs;
  }

  get provider(): string {
    return this.#provider.name;
  }

  get concurrency(): number | undefined {
    return this.#provider.concurrency;
  }

  get requestsPerMinute(): number | undefined {
    return this.#provider.requestsPerMinute;
  }

  onSlot(slot: SlotLease): void {
    this.#programCalls?.setSlot(slot);
    this.#observer.onSlot();
  }

  onWait(wait: SlotWait): void {
    this.#observer.onWait(wait);
  }

  onGrant(): void {
    this.#observer.onSlot();
  }

  busy(): boolean {
    return this.#programCalls?.busy ?? false;
  }

  onEvent(event: LLMEvent): void {
    this.#observer.onEvent(event);
  }

  onRetry(retry: Retry): void {
    this.#observer.onRetry(retry);
  }
}
