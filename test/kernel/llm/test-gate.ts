import type { ModelDevice, ModelRequest } from "../../../src/kernel/llm/model-device.ts";
import { type GateStatus, ModelGate, type Retry } from "../../../src/kernel/llm/model-gate.ts";
import type { LLMAnswer, LLMEvent } from "../../../src/plugin/index.ts";
import { FakeClock } from "../../support/fake-clock.ts";

/** Of one call. What a test leaves out is the same for all. */
export interface CallTerms {
  signal?: AbortSignal;
  totalMs?: number;
  idleMs?: number;
  patienceMs?: number;
  retries?: number;
  retryMs?: number;
  provider?: string;
  concurrency?: number;
  requestsPerMinute?: number;
  tree?: string;
  onEvent?(event: LLMEvent): void;
  onRetry?(retry: Retry): void;
}

/** A gate on a clock that stands still, for calls of one request. */
export class TestGate {
  readonly clock: FakeClock;
  readonly #gate: ModelGate;

  constructor({
    clock = new FakeClock(),
    random = () => 0.5,
    openRequests,
  }: {
    clock?: FakeClock;
    random?: () => number;
    openRequests?: number;
  } = {}) {
    this.clock = clock;
    this.#gate = new ModelGate({ clock, random, openRequests });
  }

  call(key: string, device: ModelDevice, request: ModelRequest, terms: CallTerms = {}): Promise<LLMAnswer> {
    const {
      provider: name = "acme",
      concurrency,
      requestsPerMinute,
      retries = 2,
      retryMs = Infinity,
    } = terms;
    const { onEvent, onRetry, totalMs = 600_000 } = terms;
    return this.#gate.call(key, device, request, {
      signal: terms.signal ?? new AbortController().signal,
      clock: this.clock,
      totalMs,
      idleMs: terms.idleMs ?? 120_000,
      patienceMs: terms.patienceMs ?? totalMs,
      provider: { name, concurrency, requestsPerMinute },
      tree: terms.tree ?? "",
      observer: { retryLimits: { retries, retryMs }, onEvent, onRetry },
    });
  }

  get calls(): number {
    return this.#gate.calls;
  }

  status(): GateStatus[] {
    return this.#gate.status();
  }
}
