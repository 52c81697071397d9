/** Sends telemetry to a collector: bounded retries, and a queue of spans that never delays a run. */

import { type Clock, sleep, type Timer } from "../lib/clock.ts";
import { messageOf } from "../lib/error-detail.ts";
import type { OtelConfig, Target } from "./otel-config.ts";
import { encode, type Message } from "./protobuf.ts";

export interface ExportPorts {
  clock: Clock;
  random(): number;
  warn(text: string): void;
  /** Nothing is retried from then on: what waits for a retry is tried once more. */
  closing: AbortSignal;
  /** Ends requests. */
  stop: AbortSignal;
}

/** Attempts for one request, and the waits between them. */
const ATTEMPTS = 5;
const FIRST_WAIT_MS = 1000;
const MAX_WAIT_MS = 30_000;
/** What the protocol names as temporary. */
const TEMPORARY = new Set([429, 502, 503, 504]);

/** Sends requests of one signal. */
export class Sender {
  readonly #target: Target;
  readonly #message: string;
  readonly #ports: ExportPorts;
  #isFailing = false;

  /** `message`: of the requests, such as `TracesRequest`. */
  constructor(target: Target, message: string, ports: ExportPorts) {
    this.#target = target;
    this.#message = message;
    this.#ports = ports;
  }

  /** Returns whether the collector has taken it; a series of failures is logged once. */
  async send(request: Message): Promise<boolean> {
    const { clock, random, closing } = this.#ports;
    let wait = FIRST_WAIT_MS;
    for (let attempt = 1; ; attempt++) {
      const failure = await this.#attempt(request);
      if (failure === undefined) {
        this.#isFailing = false;
        return true;
      }
      if (!failure.temporary || attempt === ATTEMPTS || closing.aborted) return this.#failed(failure.why);
      const ms = Math.min(failure.afterMs ?? wait * (0.5 + random()), MAX_WAIT_MS);
      wait *= 2;
      await sleep(clock, ms, closing).catch(() => undefined);
    }
  }

  #failed(why: string): false {
    if (!this.#isFailing) this.#ports.warn(`${this.#target.url}: what waits is dropped: ${why}`);
    this.#isFailing = true;
    return false;
  }

  async #attempt(
    request: Message,
  ): Promise<{ why: string; temporary: boolean; afterMs?: number } | undefined> {
    const { url, timeoutMs } = this.#target;
    const signal = AbortSignal.any([this.#ports.stop, AbortSignal.timeout(timeoutMs)]);
    try {
      const content = encoded(request, this.#message, this.#target);
      const answer = await fetch(url, { method: "POST", redirect: "error", signal, ...content });
      await answer.body?.cancel();
      if (answer.ok) return undefined;
      const after = Number(answer.headers.get("retry-after") || Number.NaN);
      const temporary = TEMPORARY.has(answer.status);
      return { why: `it answered ${answer.status}`, temporary, ...(after >= 0 && { afterMs: after * 1000 }) };
    } catch (thrown) {
      return { why: messageOf(thrown), temporary: true };
    }
  }
}

function encoded(request: Message, message: string, { protocol, headers, gzip }: Target) {
  const isJson = protocol === "http/json";
  const bytes = new Uint8Array(isJson ? Buffer.from(JSON.stringify(request)) : encode(message, request));
  return {
    body: gzip ? Bun.gzipSync(bytes) : bytes,
    headers: {
      ...headers,
      "content-type": isJson ? "application/json" : "application/x-protobuf",
      ...(gzip && { "content-encoding": "gzip" }),
    },
  };
}

interface QueuePorts {
  clock: Clock;
  send(spans: Message[]): Promise<boolean>;
  /** Counts spans that were sent, or dropped. */
  count(outcome: "sent" | "dropped", spans: number): void;
  /** From then on what waits is dropped. */
  stop: AbortSignal;
}

/** Queues spans and sends them in batches, one at a time. Owns its timer. */
export class SpanQueue {
  readonly #config: Pick<OtelConfig, "queue" | "batch" | "delayMs">;
  readonly #ports: QueuePorts;
  readonly #waiting: Message[] = [];
  #timer: Timer | undefined;
  #sending: Promise<void> | undefined;

  constructor(config: Pick<OtelConfig, "queue" | "batch" | "delayMs">, ports: QueuePorts) {
    this.#config = config;
    this.#ports = ports;
  }

  /** Never waits. A full queue drops the span. */
  add(span: Message): void {
    if (this.#waiting.length >= this.#config.queue) {
      this.#ports.count("dropped", 1);
      return;
    }
    this.#waiting.push(span);
    if (this.#waiting.length >= this.#config.batch) this.#begin();
    else this.#timer ??= this.#ports.clock.timer(this.#config.delayMs, () => this.#begin());
  }

  /** Sends what waits. */
  async close(): Promise<void> {
    this.#begin();
    await this.#sending;
    this.#timer?.cancel();
  }

  #begin(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const spans = this.#waiting.splice(0, this.#config.batch);
      const isSent = !this.#ports.stop.aborted && (await this.#ports.send(spans));
      this.#ports.count(isSent ? "sent" : "dropped", spans.length);
    }
  }
}
