/** The parts of a streamed answer: joined where they come in a burst, and signs of life between them. */

import type { LLMEvent } from "rnix/plugin";

/** Maximum events read ahead of the consumer. */
const MAX_BUFFERED = 256;
/** Maximum characters of one event. */
const MAX_CHARS = 16 * 1024;

/**
 * The same events, with the text deltas of one burst joined: each event costs a read, and a line to every watcher of
 * the run. Deltas that arrive one by one stay apart.
 */
export async function* coalesced(events: AsyncIterable<LLMEvent>): AsyncGenerator<LLMEvent> {
  const buffer = new ReadAhead(events);
  try {
    for (let event = await buffer.take(); event !== undefined; event = await buffer.take()) yield event;
  } finally {
    buffer.stop();
  }
}

class ReadAhead {
  readonly #events: AsyncIterator<LLMEvent>;
  readonly #buffered: LLMEvent[] = [];
  #ended: { error?: unknown } | undefined;
  #hasText = false;
  #wakeConsumer: (() => void) | undefined;
  #wakeProducer: (() => void) | undefined;

  constructor(events: AsyncIterable<LLMEvent>) {
    this.#events = events[Symbol.asyncIterator]();
    void this.#readAhead();
  }

  /** The next event; undefined at the end. Throws the error that ended them. */
  async take(): Promise<LLMEvent | undefined> {
    while (this.#buffered.length === 0 && this.#ended === undefined) {
      await new Promise<void>((resolve) => {
        this.#wakeConsumer = resolve;
      });
    }
    // The rest of a burst is there one turn of the event loop later. The first text does not wait for it.
    if (this.#hasText && this.#ended === undefined && isText(this.#buffered[0])) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    const event = this.#buffered.shift();
    this.#hasText ||= isText(event) && event.text !== "";
    this.#wakeProducer?.();
    if (event === undefined && this.#ended?.error !== undefined) throw this.#ended.error;
    return event;
  }

  stop(): void {
    this.#ended ??= {};
    this.#wakeProducer?.();
    // A consumer that has stopped is not interested in a late failure.
    this.#events.return?.().catch(() => undefined);
  }

  async #readAhead(): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.#events.next();
        if (done === true || this.#ended !== undefined) break;
        this.#add(value);
        if (this.#buffered.length >= MAX_BUFFERED) await this.#untilSpace();
      }
      this.#ended ??= {};
    } catch (error) {
      this.#ended ??= { error };
    }
    this.#wakeConsumer?.();
  }

  async #untilSpace(): Promise<void> {
    while (this.#buffered.length >= MAX_BUFFERED && this.#ended === undefined) {
      await new Promise<void>((resolve) => {
        this.#wakeProducer = resolve;
      });
    }
  }

  #add(event: LLMEvent): void {
    const last = this.#buffered.at(-1);
    if (isText(last) && isText(event) && event.type === last.type && fitsInto(last, event))
      last.text += event.text;
    else this.#buffered.push(isText(event) ? { ...event } : event);
    this.#wakeConsumer?.();
  }
}

type TextDelta = Extract<LLMEvent, { type: "text_delta" | "reasoning_delta" }>;

function isText(event: LLMEvent | undefined): event is TextDelta {
  return event?.type === "text_delta" || event?.type === "reasoning_delta";
}

function fitsInto(last: TextDelta, next: TextDelta): boolean {
  return last.text.length + next.text.length <= MAX_CHARS;
}

/** Bytes arrived that complete no part: a keep-alive comment, a piece of a long line. */
export const ALIVE = Symbol("alive");

type Pending<T> = PromiseWithResolvers<T | typeof ALIVE | undefined>;

/**
 * The parts of an answer, and ALIVE between them while bytes arrive. A working server may send no part for minutes, and
 * a provider package does not report the comments that it skips.
 */
export class Heartbeat<T> {
  readonly #readPart: () => Promise<T | undefined>;
  #pending: Pending<T> | undefined;
  #isReading = false;
  /** A result that arrived while no call of `next` was pending. */
  #arrived: ((pending: Pending<T>) => void) | undefined;
  #isChecking = false;

  /** `readPart` gives the next part, undefined at the end. It is called for one part at a time. */
  constructor(readPart: () => Promise<T | undefined>) {
    this.#readPart = readPart;
  }

  /** The next part, or ALIVE; undefined at the end. One call at a time. */
  next(): Promise<T | typeof ALIVE | undefined> {
    const pending: Pending<T> = Promise.withResolvers();
    const arrived = this.#arrived;
    this.#arrived = undefined;
    if (arrived !== undefined) {
      arrived(pending);
      return pending.promise;
    }
    this.#pending = pending;
    if (!this.#isReading) this.#read();
    return pending.promise;
  }

  /** Bytes have arrived. If they complete no part by the next turn of the event loop, the pending call gets ALIVE. */
  onBytes(): void {
    const pending = this.#pending;
    if (this.#isChecking || pending === undefined) return;
    this.#isChecking = true;
    setImmediate(() => {
      this.#isChecking = false;
      if (pending !== this.#pending) return;
      this.#pending = undefined;
      pending.resolve(ALIVE);
    });
  }

  #read(): void {
    this.#isReading = true;
    this.#readPart().then(
      (part) => this.#settle((pending) => pending.resolve(part)),
      (error: unknown) => this.#settle((pending) => pending.reject(error)),
    );
  }

  #settle(settle: (pending: Pending<T>) => void): void {
    this.#isReading = false;
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending === undefined) this.#arrived = settle;
    else settle(pending);
  }
}
