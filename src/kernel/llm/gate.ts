import { type LLMAnswer, type LLMEvent, SyscallError } from "../../plugin/index.ts";
import type { Clock } from "../clock.ts";
import { AnswerReader, type ModelDevice } from "./answer.ts";
import type { ModelRequest } from "./request.ts";
import { askedMs, backoffMs, isRetryable } from "./retry.ts";
import { Slots, type Ticket } from "./slots.ts";
import { Watch } from "./watch.ts";

export type { ModelDevice } from "./answer.ts";

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
  /** Calls of one key at once; 32 when the provider's entry says nothing. */
  concurrency?: number;
  /** Told as they come; an answer that breaks off has been told in part. `onRetry` says that it begins anew. */
  onEvent(event: LLMEvent): void;
  /** Before the wait. `attempt` counts the failed ones, from 1. */
  onRetry(info: { attempt: number; delayMs: number; error: SyscallError }): void;
}

/**
 * Stands between the loop and the model devices (design §4): one queue per provider and key, shared by all
 * processes, with retries, `Retry-After`, and a total and an idle deadline. Drivers never retry.
 */
export class ModelGate {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #slots = new Map<string, Slots>();
  #tickets = 0;

  constructor(ports: { clock: Clock; random: () => number }) {
    this.#clock = ports.clock;
    this.#random = ports.random;
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
    const slots = this.#slotsOf(key, options.concurrency ?? DEFAULT_CONCURRENCY);
    slots.calls++;
    const patienceMs = Math.min(options.patienceMs ?? Infinity, options.totalMs);
    const ticket = { order: this.#tickets++, patienceMs };
    const reader = new AnswerReader(device, request, options.onEvent);
    const total = new Watch(options.clock ?? this.#clock, options.signal);
    try {
      for (let attempt = 1; ; attempt++) {
        const outcome = await this.#attempt(slots, ticket, reader, total, options);
        if (!(outcome instanceof SyscallError)) return outcome;
        await this.#backOff(outcome, attempt, slots, total, { ...options, patienceMs });
      }
    } finally {
      total.stop();
      slots.calls--;
      if (slots.idle) this.#slots.delete(key);
    }
  }

  /** Under way, those that wait for their place or for a retry included. */
  get calls(): number {
    let calls = 0;
    for (const slots of this.#slots.values()) calls += slots.calls;
    return calls;
  }

  #slotsOf(key: string, limit: number): Slots {
    const slots = this.#slots.get(key) ?? new Slots(this.#clock, limit);
    slots.limit = limit;
    this.#slots.set(key, slots);
    return slots;
  }

  /** Throws what ends the call; returns the error that another attempt may get over. */
  async #attempt(
    slots: Slots,
    ticket: Ticket,
    reader: AnswerReader,
    total: Watch,
    options: ModelCallOptions,
  ): Promise<LLMAnswer | SyscallError> {
    await slots.acquire(ticket, total.signal);
    total.arm(options.totalMs, () => tooSlow("did not finish its answer", options.totalMs, "total"));
    const idle = new Watch(options.clock ?? this.#clock, total.signal);
    if (reader.streams) idle.arm(options.idleMs, () => tooSlow("sent nothing", options.idleMs, "idle"));
    try {
      return await reader.read(idle);
    } catch (thrown) {
      idle.signal.throwIfAborted();
      const error = asSyscallError(thrown);
      if (!isRetryable(error)) throw error;
      return error;
    } finally {
      idle.stop();
      slots.release();
    }
  }

  /** Waits before the next attempt, or throws the error when there will be none. */
  async #backOff(
    error: SyscallError,
    attempt: number,
    slots: Slots,
    total: Watch,
    options: ModelCallOptions & { patienceMs: number },
  ): Promise<void> {
    const now = this.#clock.now();
    const asked = askedMs(error, now);
    const later = asked === undefined ? error : comeBackLater(error, asked, now);
    // A quota is that of the key: all who have it wait.
    if (asked !== undefined && error.code === "EXHAUSTED") slots.holdOff(asked, later);
    const delayMs = backoffMs(error, attempt, now, this.#random);
    if (delayMs >= total.leftMs || (asked ?? 0) > options.patienceMs) throw later;
    if (attempt > options.retries) throw asked === undefined ? error : usedUp(later);
    options.onRetry({ attempt, delayMs, error });
    await sleep(options.clock ?? this.#clock, delayMs, total.signal);
  }
}

const DEFAULT_CONCURRENCY = 32;

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
  return new SyscallError(code, `${message}. ${wait}`, { cause: error, retryAfterMs, resetAtMs: now + ms });
}

/** It would have been waited for once more. */
function usedUp({ code, message, cause }: SyscallError): SyscallError {
  return new SyscallError(code, message, { cause });
}

function tooSlow(what: string, ms: number, which: "total" | "idle"): SyscallError {
  const name = which === "total" ? "model call, total" : "model call, idle";
  return new SyscallError(
    "TIMEOUT",
    `the model ${what} within ${ms / 1000} s. Raise the limit "${name}", or try another model or provider`,
  );
}

function asSyscallError(thrown: unknown): SyscallError {
  if (thrown instanceof SyscallError) return thrown;
  return new SyscallError("DRIVER", `the model's driver failed: ${String(thrown)}`, { cause: thrown });
}
