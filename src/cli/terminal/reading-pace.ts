/** Plays the events of a run at the pace at which a person reads them. */

import { Channel } from "../../lib/channel.ts";
import type { Clock } from "../../lib/clock.ts";
import type { StreamEvent } from "../../protocol/methods.ts";

/** Characters of text that appear at a time, and the time between. */
const PIECE_CHARS = 3;
const PIECE_MS = 25;
/** Time to read a character of what has appeared, and the longest such pause. */
const CHAR_MS = 18;
const MAX_READ_MS = 2500;
/** How long a call is seen to run at least, and its result before what follows. */
const CALL_MS = 600;
const RESULT_MS = 700;

export class ReadingPace {
  readonly #clock: Clock;
  readonly #hurried = Promise.withResolvers<void>();
  #isHurried = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Shows the rest at once. */
  hurry(): void {
    this.#isHurried = true;
    this.#hurried.resolve();
  }

  /** The events in order, each when it is to be shown. They are read ahead: the run is not delayed. */
  async *play(events: AsyncIterable<StreamEvent>): AsyncGenerator<StreamEvent> {
    const queue = new Channel<StreamEvent>(Number.POSITIVE_INFINITY);
    const reading = readAhead(events, queue);
    // Reported below, when what came before it has been shown.
    reading.catch(() => undefined);
    let text = "";
    for await (const event of queue) {
      if (event.type === "text_delta" || event.type === "reasoning_delta") {
        text += event.payload.text;
        yield* this.#typed(event);
        continue;
      }
      if (event.type === "log_entry" && event.payload.kind === "tool") {
        // What was said is read before something is done.
        await this.#wait(Math.min(MAX_READ_MS, text.length * CHAR_MS));
        text = "";
        yield event;
        await this.#wait(CALL_MS);
        continue;
      }
      if (event.type === "complete") await this.#wait(Math.min(MAX_READ_MS, text.length * CHAR_MS));
      yield event;
      if (event.type === "log_entry" && event.payload.kind === "result") {
        await this.#wait(RESULT_MS + Math.min(MAX_READ_MS, event.payload.text.length * (CHAR_MS / 3)));
      }
    }
    await reading;
  }

  /** A text as if it were typed, in whole characters. */
  async *#typed(event: Extract<StreamEvent, { type: "text_delta" | "reasoning_delta" }>) {
    const characters = [...event.payload.text];
    for (let at = 0; at < characters.length; ) {
      const count = this.#isHurried ? characters.length - at : PIECE_CHARS;
      const text = characters.slice(at, at + count).join("");
      at += count;
      yield { ...event, payload: { ...event.payload, text } };
      await this.#wait(PIECE_MS);
    }
  }

  async #wait(ms: number): Promise<void> {
    if (this.#isHurried || ms <= 0) return;
    const over = Promise.withResolvers<void>();
    const timer = this.#clock.timer(ms, over.resolve);
    await Promise.race([over.promise, this.#hurried.promise]);
    timer.cancel();
  }
}

async function readAhead(events: AsyncIterable<StreamEvent>, to: Channel<StreamEvent>): Promise<void> {
  try {
    for await (const event of events) to.push(event);
  } finally {
    to.end();
  }
}
