import type { Clock } from "../../lib/clock.ts";
import type { LLMEvent } from "../../plugin/index.ts";
import type { ProgramToolCalls } from "../tools/program-tool-calls.ts";
import type { ProviderChoice } from "../types.ts";
import type { ModelCallOptions } from "./model-gate.ts";
import type { SlotLease } from "./slot-lease.ts";

/** Who makes the call. */
export interface GateObserver {
  /** Attempts after the first. Looked at after each. */
  readonly retries: number;
  told(event: LLMEvent): void;
  again(retry: Parameters<ModelCallOptions["onRetry"]>[0]): void;
}

/** What the gate is told of one call. Thousands may wait: functions of an object of its own take room, methods none. */
export class GateOptions implements ModelCallOptions {
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly totalMs: number;
  readonly idleMs: number;
  readonly patienceMs: number;
  readonly tree: string;
  readonly #provider: ProviderChoice;
  readonly #served: ProgramToolCalls | undefined;
  readonly #asker: GateObserver;

  constructor(
    asker: GateObserver,
    o: Pick<GateOptions, "signal" | "clock" | "totalMs" | "idleMs" | "patienceMs" | "tree"> & {
      provider: ProviderChoice;
      served: ProgramToolCalls | undefined;
    },
  ) {
    this.signal = o.signal;
    this.clock = o.clock;
    this.totalMs = o.totalMs;
    this.idleMs = o.idleMs;
    this.patienceMs = o.patienceMs;
    this.tree = o.tree;
    this.#provider = o.provider;
    this.#served = o.served;
    this.#asker = asker;
  }

  get retries(): number {
    return this.#asker.retries;
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

  onPlace(place: SlotLease): void {
    this.#served?.sit(place);
  }

  busy(): boolean {
    return this.#served?.busy ?? false;
  }

  onEvent(event: LLMEvent): void {
    this.#asker.told(event);
  }

  onRetry(retry: Parameters<ModelCallOptions["onRetry"]>[0]): void {
    this.#asker.again(retry);
  }
}
