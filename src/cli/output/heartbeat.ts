/** Prints a line from time to time while a run in CI prints nothing. */

import type { Activity, StreamEvent } from "../../protocol/methods.ts";
import type { Io } from "../io.ts";
import { formatElapsed, oneLine } from "./format.ts";

/** A CI service ends a step that prints nothing for some minutes. */
const SILENCE_MS = 60_000;
const WIDTH = 100;

/** Says, once a minute, what a run does that prints nothing else. */
export class Heartbeat {
  readonly #io: Pick<Io, "timer">;
  readonly #say: (line: string) => void;
  readonly #now: () => number;
  #activity: Activity | null = null;
  #beat: { cancel(): void } | undefined;

  constructor(io: Pick<Io, "timer">, say: (line: string) => void, now: () => number = Date.now) {
    this.#io = io;
    this.#say = say;
    this.#now = now;
  }

  seen(event: StreamEvent): void {
    if (event.type === "progress" && event.payload.event === "activity")
      this.#activity = event.payload.activity;
    if (event.type === "complete") this.stop();
    else if (isPrinted(event) || this.#beat === undefined) this.#wait();
  }

  stop(): void {
    this.#beat?.cancel();
    this.#beat = undefined;
  }

  #wait(): void {
    this.stop();
    this.#beat = this.#io.timer(SILENCE_MS, () => {
      const { text, since_ms } = this.#activity ?? { text: "", since_ms: this.#now() };
      const doing = text === "" ? "" : `: ${oneLine(text, WIDTH)}, ${formatElapsed(this.#now() - since_ms)}`;
      this.#say(`still running${doing}`);
      this.#wait();
    });
  }
}

/** Whether the plain output prints a line for it. */
function isPrinted({ type, payload }: StreamEvent): boolean {
  if (type === "log_entry") return true;
  return type === "progress" && "event" in payload && ["step", "retry", "notice"].includes(payload.event);
}
