import type { Clock } from "../../lib/clock.ts";
import { type LLMAnswer, type LLMEvent, SyscallError } from "../../plugin/index.ts";
import { AnswerReader, type ModelDevice } from "./answer-reader.ts";
import { IdleTimeout } from "./idle-timeout.ts";
import { type CallOutcome, KeyLimiter, type KeyLimiterStatus, type SlotRequest } from "./key-limiter.ts";
import type { ModelRequest } from "./model-request.ts";
import { OpenRequests } from "./open-requests.ts";
import { backoffMs, isRetryable, requestedWaitMs } from "./retry.ts";
import { SlotLease } from "./slot-lease.ts";

export type { ModelDevice } from "./answer-reader.ts";

export interface ModelCallOptions {
  signal: AbortSignal;
  /** Whose time the deadlines and the waits between attempts are counted in; the gate's own when absent. */
  clock?: Clock;
  /** From the first attempt's start to the answer's end, retries and the waits between them included. */
  totalMs: number;
  /** The longest silence of a streamed answer, the time to its first word included. */
  idleMs: number;
  /** Attempts after the first one. */
  retries: number;
  /** The longest wait a provider may ask for that is sat out; `totalMs` when absent. */
  patienceMs?: number;
  /** What the provider is called where queues are shown. */
  provider?: string;
  /** Calls of one key at once, at most; 32 when the provider's entry says nothing. */
  concurrency?: number;
  /** Requests of one key within a minute, at most. */
  requestsPerMinute?: number;
  /** The process tree in whose turn it goes; all that name none are one. */
  tree?: string;
  /** Told of the place that each attempt has: a program gives it back while it waits for tool calls of its own. */
  onPlace?(place: SlotLease): void;
  /** Asked at the deadlines: a program that is the model waits for a tool call of its own. */
  busy?(): boolean;
  /** Told as they come; an answer that breaks off has been told in part. `onRetry` says that it begins anew. */
  onEvent(event: LLMEvent): void;
  /** Before the wait. `attempt` counts the failed ones, from 1. */
  onRetry(info: { attempt: number; delayMs: number; error: SyscallError }): void;
}

/** One provider and key, as `/proc/llm` shows it. Never the key, nor anything made of it. */
export interface GateStatus extends KeyLimiterStatus {
  provider: string;
  /** Under way, those that wait for their place or for a retry included. */
  calls: number;
}

/**
 * Stands between the loop and the model devices (design §4): one queue per provider and key, shared by all
 * processes, in which the process trees take turns, with retries, `Retry-After`, rate limits, and a total and an
 * idle deadline. All keys together share a limit on open requests. Drivers never retry.
 */
export class ModelGate {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #keys = new Map<string, { provider: string; slots: KeyLimiter }>();
  readonly #open: OpenRequests;
  #tickets = 0;

  /** `openRequests`: the limit on requests open at the same time, all keys together; none by default. */
  constructor(ports: { clock: Clock; random: () => number; openRequests?: number }) {
    this.#clock = ports.clock;
    this.#random = ports.random;
    this.#open = new OpenRequests(ports.openRequests);
  }

  /**
   * One answer of the model, whole and not empty. Throws the last attempt's error when the retries are used
   * up; one with `resetAtMs` when the provider asks for a wait that is longer than the caller's patience or than
   * what is left of `totalMs`, and then alone; TIMEOUT at a deadline; the signal's reason or CANCELLED when the
   * caller gave up. Waiting in the queue for the first attempt counts towards no deadline: whoever is before us
   * has one, which stands still only while a person has paused it. Usage includes what broken attempts have
   * reported.
   */
  async call(
    key: string,
    device: ModelDevice,
    request: ModelRequest,
    options: ModelCallOptions,
  ): Promise<LLMAnswer> {
    const slots = this.#slotsOf(key, options);
    slots.calls++;
    const patienceMs = Math.min(options.patienceMs ?? Infinity, options.totalMs);
    const ticket = {
      order: this.#tickets++,
      patienceMs,
      tree: options.tree ?? "",
      model: request.model,
      again: false,
    };
    const reader = new AnswerReader(device, request, (event) => {
      if (event.type === "limits") slots.report(request.model, event.limits);
      // A program asks its model anew: each of its requests has the whole time.
      if (event.type === "turn") total.touch();
      options.onEvent(event);
    });
    const total = new IdleTimeout(options.clock ?? this.#clock, options.signal, options);
    try {
      let counted = 0;
      for (let attempt = 1; ; attempt++) {
        ticket.again = attempt > 1;
        const outcome = await this.#attempt(slots, ticket, reader, total, options);
        if (!(outcome instanceof SyscallError)) return outcome;
        // Too many at once is nobody's own failure. It ends: each time fewer are let in.
        if (outcome.code !== "EXHAUSTED" || slots.running === 0 || options.retries === 0) counted++;
        const last = counted > options.retries;
        const { model } = request;
        await this.#backOff(outcome, { attempt, last, model, patienceMs }, slots, total, options);
      }
    } finally {
      total.stop();
      slots.calls--;
    }
  }

  /** Under way, those that wait for their place or for a retry included. */
  get calls(): number {
    let calls = 0;
    for (const { slots } of this.#keys.values()) calls += slots.calls;
    return calls;
  }

  /** Every key that was used not long ago, in the order of their first use. */
  status(): GateStatus[] {
    return [...this.#keys.values()].map(({ provider, slots }) => ({
      provider,
      calls: slots.calls,
      ...slots.status,
    }));
  }

  /** What was learnt of a key is kept for a while after its last call. */
  #slotsOf(key: string, { provider = "", concurrency, requestsPerMinute }: ModelCallOptions): KeyLimiter {
    const slots = this.#keys.get(key)?.slots ?? this.#newKey(key, provider, concurrency);
    slots.pace = { concurrency, requestsPerMinute };
    return slots;
  }

  #newKey(key: string, provider: string, concurrency: number | undefined): KeyLimiter {
    for (const [old, { slots }] of this.#keys) if (slots.isIdleSince(KEPT_MS)) this.#keys.delete(old);
    const slots = new KeyLimiter(this.#clock, concurrency, this.#open);
    this.#keys.set(key, { provider, slots });
    return slots;
  }

  /** Throws what ends the call; returns the error that another attempt may get over. */
  async #attempt(
    slots: KeyLimiter,
    ticket: SlotRequest,
    reader: AnswerReader,
    total: IdleTimeout,
    options: ModelCallOptions,
  ): Promise<LLMAnswer | SyscallError> {
    await slots.acquire(ticket, total.signal);
    const place = new SlotLease(slots, ticket, total.signal);
    options.onPlace?.(place);
    total.arm(options.totalMs, () => unfinished(options.totalMs));
    const idle = new IdleTimeout(options.clock ?? this.#clock, total.signal, options);
    if (reader.streams) idle.arm(options.idleMs, () => silent(options.idleMs));
    let ending: CallOutcome = "other";
    try {
      const answer = await reader.read(idle);
      ending = "answered";
      return answer;
    } catch (thrown) {
      idle.signal.throwIfAborted();
      const error = asSyscallError(thrown);
      if (!isRetryable(error)) throw error;
      if (error.code === "EXHAUSTED") ending = "refused";
      return error;
    } finally {
      idle.stop();
      place.end(ending);
    }
  }

  /** Waits before the next attempt, or throws the error when there will be none. */
  async #backOff(
    error: SyscallError,
    o: { attempt: number; last: boolean; model: string; patienceMs: number },
    slots: KeyLimiter,
    total: IdleTimeout,
    options: ModelCallOptions,
  ): Promise<void> {
    const { attempt, last, model, patienceMs } = o;
    const now = this.#clock.now();
    const asked = requestedWaitMs(error, now);
    const later = asked === undefined ? error : comeBackLater(error, asked, now);
    // A quota is that of the key and the model: all who have it wait.
    if (asked !== undefined && error.code === "EXHAUSTED") slots.holdOff(model, asked, later);
    const delayMs = backoffMs(error, attempt, now, this.#random);
    if (delayMs >= total.leftMs || (asked ?? 0) > patienceMs) throw later;
    if (last) throw asked ? usedUp(later) : inVain(error, attempt);
    options.onRetry({ attempt, delayMs, error });
    await sleep(options.clock ?? this.#clock, delayMs, total.signal);
  }
}

const KEPT_MS = 10 * 60_000;

function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const timer = clock.timer(ms, () => {
      signal.removeEventListener("abort", leave);
      resolve();
    });
    const leave = () => {
      timer.cancel();
      reject(signal.reason);
    };
    signal.addEventListener("abort", leave, { once: true });
  });
}

/** The same error, for whoever will not wait that long: now or later, so the end of the wait is a fixed time. */
function comeBackLater(error: SyscallError, ms: number, now: number): SyscallError {
  const { code, message, retryAfterMs } = error;
  const wait = `It asks to be left alone for ${Math.ceil(ms / 1000)} s: come back then, or use another provider`;
  return new SyscallError(code, ms > 0 ? `${message}. ${wait}` : message, {
    cause: error,
    retryAfterMs,
    resetAtMs: now + ms,
  });
}

/** It would have been waited for once more. */
function usedUp({ code, message, cause }: SyscallError): SyscallError {
  return new SyscallError(code, message, { cause });
}

/** The same error, for whoever reads it as the last: nobody has said when to come back. */
function inVain(error: SyscallError, attempts: number): SyscallError {
  const { code, message, retryable } = error;
  const tried = attempts === 1 ? "It was tried once" : `It was tried ${attempts} times`;
  const told = `${message}. ${tried}: come back later, or use another model or provider`;
  return new SyscallError(code, told, { cause: error, retryable });
}

function unfinished(ms: number): SyscallError {
  return tooSlow(`did not finish its answer within ${ms / 1000} s in total`, "model_timeout");
}

function silent(ms: number): SyscallError {
  return tooSlow(`sent nothing for ${ms / 1000} s`, "model_idle_timeout");
}

function tooSlow(what: string, setting: string): SyscallError {
  const advice = `Raise ${setting} in config.yaml, or use another model or provider`;
  return new SyscallError("TIMEOUT", `the model ${what}. ${advice}`);
}

function asSyscallError(thrown: unknown): SyscallError {
  if (thrown instanceof SyscallError) return thrown;
  return new SyscallError("DRIVER", `the model's driver failed: ${String(thrown)}`, { cause: thrown });
}
