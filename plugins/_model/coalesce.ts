import type { LLMEvent } from "rnix/plugin";

/** Events read ahead of whoever takes them. */
const AHEAD = 256;
/** Characters told as one. */
const TOGETHER = 16 * 1024;

/**
 * The same events, where pieces of text that came in one burst are one: each costs a read, a look at it, and a line to
 * everybody who follows the run. What comes piece by piece is told so.
 */
export async function* gathered(events: AsyncIterable<LLMEvent>): AsyncGenerator<LLMEvent> {
  const ahead = new Ahead(events);
  try {
    for (let event = await ahead.take(); event !== undefined; event = await ahead.take()) yield event;
  } finally {
    ahead.stop();
  }
}

class Ahead {
  readonly #events: AsyncIterator<LLMEvent>;
  readonly #ready: LLMEvent[] = [];
  #end: { error?: unknown } | undefined;
  #spoke = false;
  /** Of whoever waits for an event, and of the reading ahead where there is no room. */
  #wakeTaker: (() => void) | undefined;
  #wakeReader: (() => void) | undefined;

  constructor(events: AsyncIterable<LLMEvent>) {
    this.#events = events[Symbol.asyncIterator]();
    void this.#readAhead();
  }

  /** The next event; undefined at the end. Throws what has ended them. */
  async take(): Promise<LLMEvent | undefined> {
    while (this.#ready.length === 0 && this.#end === undefined) {
      await new Promise<void>((resolve) => {
        this.#wakeTaker = resolve;
      });
    }
    // What came together with it is there one turn of the event loop later. The first word waits for nothing.
    if (this.#spoke && this.#end === undefined && isText(this.#ready[0])) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    const event = this.#ready.shift();
    this.#spoke ||= isText(event) && event.text !== "";
    this.#wakeReader?.();
    if (event === undefined && this.#end?.error !== undefined) throw this.#end.error;
    return event;
  }

  stop(): void {
    this.#end ??= {};
    this.#wakeReader?.();
    // Whoever has given it up hears nothing more of it.
    this.#events.return?.().catch(() => undefined);
  }

  async #readAhead(): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.#events.next();
        if (done === true || this.#end !== undefined) break;
        this.#add(value);
        if (this.#ready.length >= AHEAD) await this.#room();
      }
      this.#end ??= {};
    } catch (error) {
      this.#end ??= { error };
    }
    this.#wakeTaker?.();
  }

  async #room(): Promise<void> {
    while (this.#ready.length >= AHEAD && this.#end === undefined) {
      await new Promise<void>((resolve) => {
        this.#wakeReader = resolve;
      });
    }
  }

  #add(event: LLMEvent): void {
    const last = this.#ready.at(-1);
    if (isText(last) && isText(event) && event.type === last.type && fits(last, event))
      last.text += event.text;
    else this.#ready.push(isText(event) ? { ...event } : event);
    this.#wakeTaker?.();
  }
}

type Text = Extract<LLMEvent, { type: "text_delta" | "reasoning_delta" }>;

function isText(event: LLMEvent | undefined): event is Text {
  return event?.type === "text_delta" || event?.type === "reasoning_delta";
}

function fits(last: Text, next: Text): boolean {
  return last.text.length + next.text.length <= TOGETHER;
}
