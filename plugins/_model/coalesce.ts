/** Joins the small pieces of an answer that arrive in one burst. */

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
