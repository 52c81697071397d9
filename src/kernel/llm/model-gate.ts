/** The gate that every model call passes: slots, retries, deadlines. */

import { type Cancellation, type Clock, sleep } from "../../lib/clock.ts";
import { formatDuration } from "../../lib/duration.ts";
import { type LLMAnswer, type LLMEvent, SyscallError } from "../../plugin/index.ts";
import type { ProviderChoice } from "../types.ts";
import { AnswerReader, IdleTimeout } from "./answer-reader.ts";
import {
  type CallOutcome,
  KeyLimiter,
  type KeyLimiterStatus,
  type SlotObserver,
  type SlotRequest,
} from "./key-limiter.ts";
import type { ModelDevice, ModelRequest } from "./model-device.ts";
import { OpenRequests } from "./request-limits.ts";
import { isRetryable, type RetryLimits, RetrySchedule, requestedWaitMs } from "./retry.ts";

interface ModelCallOptions {
  signal: Cancellation;
  /** The clock of the deadlines and of the waits between attempts. */
  clock: Clock;
  /** The time limit of all attempts together, without the waits between them. */
  totalMs: number;
  /** The longest silence of a streamed answer, including the time to its first event. */
  idleMs: number;
  /** The longest wait that a provider may ask for. At most `totalMs` counts. */
  patienceMs: number;
  /** The name of the provider, and the limits of its key. */
  provider: Pick<ProviderChoice, "name" | "concurrency" | "requestsPerMinute">;
  /** The process tree, for fairness. */
  tree: string;
  observer: GateObserver;
}

/** The model call that the gate reports to. One object, because thousands may wait, and closures take memory. */
export interface GateObserver extends SlotObserver {
  /** Read again after each attempt. */
  readonly retryLimits: RetryLimits;
  /** Read at the deadlines: true while a program that is the model waits for its own tool call. */
  readonly isBusy?: boolean;
  /** Gets the slot of each attempt. A program releases it while its own tool calls run. */
  onSlot?(slot: SlotLease): void;
  /** Gets the events as they arrive. If an answer breaks off, `onRetry` says that it starts again. */
  onEvent?(event: LLMEvent): void;
  /** Called before the wait. */
  onRetry?(retry: Retry): void;
}

/** An attempt failed, and the next one is made after `delayMs`. */
export interface Retry {
  /** Failed attempts, from 1. */
  attempt: number;
  delayMs: number;
  /** Ms from now in which attempts are made. */
  leftMs: number;
  error: SyscallError;
}

/** One provider and key, as `/proc/llm` shows it. It contains neither the key nor anything derived from it. */
export interface GateStatus extends KeyLimiterStatus {
  provider: string;
  /** Calls under way, including those that wait for a slot or a retry. */
  calls: number;
}

/**
 * Makes all model calls of a kernel. Each provider and key has one queue, in which process trees take turns. The gate
 * applies retries, `Retry-After`, rate limits, a total timeout and an idle timeout. All keys share a limit on open
 * requests. Drivers never retry.
 */
export class ModelGate {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #keys = new Map<string, { provider: string; limiter: KeyLimiter }>();
  readonly #openRequests: OpenRequests;
  #calls = 0;

  /** `openRequests`: the limit on open requests of all keys together; default: none. */
  constructor(ports: { clock: Clock; random: () => number; openRequests?: number }) {
    this.#clock = ports.clock;
    this.#random = ports.random;
    this.#openRequests = new OpenRequests(ports.openRequests);
  }

  /**
   * Resolves to one complete answer that is not empty. Its usage includes that of failed attempts. Throws the last
   * attempt's error when the retries are used up, TIMEOUT at a deadline, or the signal's reason. The error has
   * `resetAtMs` only if the provider asks for a longer wait than the patience or the time left. Waiting in the queue
   * for the first attempt counts towards no deadline, because the calls before it have deadlines.
   */
  async call(
    key: string,
    device: ModelDevice,
    request: ModelRequest,
    options: ModelCallOptions,
  ): Promise<LLMAnswer> {
    const limiter = this.#limiterOf(key, options);
    limiter.calls++;
    const { observer } = options;
    const slotRequest = {
      order: this.#calls++,
      patienceMs: Math.min(options.patienceMs, options.totalMs),
      tree: options.tree,
      model: request.model,
      isRetry: false,
      observer,
    };
    const reader = new AnswerReader(device, request, (event) => {
      if (event.type === "limits") limiter.report(request.model, event.limits);
      // Each request that a program makes has the whole time.
      if (event.type === "turn") total.touch();
      observer.onEvent?.(event);
    });
    const total = new IdleTimeout(options.clock, options.signal, observer);
    try {
      let schedule: RetrySchedule | undefined;
      for (;;) {
        slotRequest.isRetry = schedule !== undefined;
        const result = await this.#attempt(limiter, slotRequest, reader, total, options);
        if (!(result instanceof SyscallError)) return result;
        schedule ??= new RetrySchedule(options.clock, this.#random);
        await this.#backOff(result, schedule, limiter, slotRequest, total.signal, options);
      }
    } finally {
      total.stop();
      limiter.calls--;
    }
  }

  /** Calls under way, including those that wait for a slot or a retry. */
  get calls(): number {
    return this.#keys.values().reduce((sum, { limiter }) => sum + limiter.calls, 0);
  }

  /** The status of all recently used keys, in the order of their first use. */
  status(): GateStatus[] {
    const keys = [...this.#keys.values()];
    return keys.map(({ provider, limiter }) => ({ provider, calls: limiter.calls, ...limiter.status }));
  }

  /** The limiter of a key; an idle one is kept for a while, with what it has learned. */
  #limiterOf(key: string, { provider }: ModelCallOptions): KeyLimiter {
    const limiter = this.#keys.get(key)?.limiter ?? this.#newKey(key, provider);
    limiter.limits = provider;
    return limiter;
  }

  #newKey(key: string, { name, concurrency }: ModelCallOptions["provider"]): KeyLimiter {
    for (const [old, { limiter }] of this.#keys) if (limiter.isIdleSince(IDLE_KEY_MS)) this.#keys.delete(old);
    const limiter = new KeyLimiter(this.#clock, concurrency, this.#openRequests);
    this.#keys.set(key, { provider: name, limiter });
    return limiter;
  }

  /** Throws an error that ends the call; returns one that a retry may fix. */
  async #attempt(
    limiter: KeyLimiter,
    slotRequest: SlotRequest,
    reader: AnswerReader,
    total: IdleTimeout,
    options: ModelCallOptions,
  ): Promise<LLMAnswer | SyscallError> {
    try {
      // Before the first slot nothing but the caller ends the call, and a signal of its own takes a KiB of each that waits.
      await limiter.acquire(slotRequest, slotRequest.isRetry ? total.signal : options.signal);
    } catch (thrown) {
      total.signal.throwIfAborted();
      throw thrown;
    }
    const slot = new SlotLease(limiter, slotRequest, total.signal);
    options.observer.onSlot?.(slot);
    const { totalMs, idleMs } = options;
    total.arm(totalMs, () =>
      timeoutError(`did not finish its answer within ${totalMs / 1000} s in total`, "model_timeout"),
    );
    const idle = new IdleTimeout(options.clock, total.signal, options.observer);
    if (reader.streams)
      idle.arm(idleMs, () => timeoutError(`sent nothing for ${idleMs / 1000} s`, "model_idle_timeout"));
    let outcome: CallOutcome = "other";
    try {
      const answer = await reader.read(idle);
      outcome = "answered";
      return answer;
    } catch (thrown) {
      idle.signal.throwIfAborted();
      const cause = thrown;
      const message = `the model's driver failed: ${String(thrown)}`;
      const error = thrown instanceof SyscallError ? thrown : new SyscallError("DRIVER", message, { cause });
      if (!isRetryable(error)) throw error;
      if (error.code === "EXHAUSTED") outcome = "refused";
      return error;
    } finally {
      idle.stop();
      total.pause();
      slot.end(outcome);
    }
  }

  /** Waits before the next attempt, or throws the error if there is none. */
  async #backOff(
    error: SyscallError,
    schedule: RetrySchedule,
    limiter: KeyLimiter,
    { model, patienceMs }: SlotRequest,
    signal: AbortSignal,
    { clock, observer }: ModelCallOptions,
  ): Promise<void> {
    const now = this.#clock.now();
    const requestedMs = requestedWaitMs(error, now);
    const later = requestedMs === undefined ? error : withResetTime(error, requestedMs, now);
    const limits = observer.retryLimits;
    // A refusal because of concurrent calls does not count. It ends: each refusal lowers the concurrency limit.
    const counts = error.code !== "EXHAUSTED" || limiter.running === 0 || limits.retries === 0;
    // The quota belongs to the key and the model, so all their calls wait.
    if (requestedMs !== undefined && error.code === "EXHAUSTED") limiter.holdOff(model, requestedMs, later);
    if ((requestedMs ?? 0) > patienceMs) throw later;
    const wait = schedule.next(error, limits, counts);
    if (!wait) {
      const { code, message, cause, retryAfterMs } = later;
      throw requestedMs
        ? new SyscallError(code, message, { cause, retryAfterMs })
        : retriesUsedUp(error, schedule);
    }
    observer.onRetry?.({ attempt: schedule.failures, ...wait, error });
    await sleep(clock, wait.delayMs, signal);
  }
}

const IDLE_KEY_MS = 10 * 60_000;

/** The same error with the time at which the provider's wait ends, for callers that won't wait. */
function withResetTime(error: SyscallError, ms: number, now: number): SyscallError {
  const { code, message, retryAfterMs } = error;
  const wait = `It asks for a wait of ${Math.ceil(ms / 1000)} s. Try again then, or use another provider`;
  return new SyscallError(code, ms > 0 ? `${message}. ${wait}` : message, {
    cause: error,
    retryAfterMs,
    resetAtMs: now + ms,
  });
}

/** The same error with the number of attempts. */
function retriesUsedUp(error: SyscallError, { failures, elapsedMs }: RetrySchedule): SyscallError {
  const { code, message, retryable } = error;
  const within = elapsedMs < 5000 ? "" : ` within ${formatDuration(Math.round(elapsedMs / 1000) * 1000)}`;
  const tried = failures === 1 ? "It was tried once" : `It was tried ${failures} times${within}`;
  return new SyscallError(code, `${message}. ${tried}: try again later, or use another model or provider`, {
    cause: error,
    retryable,
  });
}

function timeoutError(what: string, setting: string): SyscallError {
  const advice = `Raise ${setting} in config.yaml, or use another model or provider`;
  return new SyscallError("TIMEOUT", `the model ${what}. ${advice}`);
}

/**
 * The slot of one model call. A program that serves as the model releases it while its own tool calls run, because
 * one of them may be an agent that needs a slot. It acquires a slot again before it asks its model again.
 */
export class SlotLease {
  readonly #limiter: KeyLimiter;
  readonly #request: SlotRequest;
  readonly #signal: AbortSignal;
  #hasSlot = true;
  #ended = false;
  /** Tool calls under way, each with one `release`. */
  #openCalls = 0;

  /** The caller has acquired the slot. */
  constructor(limiter: KeyLimiter, request: SlotRequest, signal: AbortSignal) {
    this.#limiter = limiter;
    this.#request = request;
    this.#signal = signal;
  }

  release(): void {
    if (this.#openCalls++ === 0) this.#free("other");
  }

  /** Undoes one `release`. The last one waits for a slot, and also resolves if none can be had. */
  async reacquire(): Promise<void> {
    if (--this.#openCalls > 0 || this.#ended) return;
    try {
      await this.#limiter.acquire(this.#request, this.#signal);
      this.#hasSlot = true;
    } catch {
      // The run is stopping, or the model is on hold: the model call itself fails with the reason.
      return;
    }
    if (this.#openCalls > 0 || this.#ended) this.#free("other");
  }

  end(outcome: CallOutcome): void {
    this.#ended = true;
    this.#free(outcome);
  }

  #free(outcome: CallOutcome): void {
    if (!this.#hasSlot) return;
    this.#hasSlot = false;
    this.#limiter.release(outcome);
  }
}
