/** The latest events of the chosen run, as they happen. */

import { realClock } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { StoryLine } from "../../protocol/methods.ts";
import { formatElapsed, oneLine } from "../output/format.ts";
import type { Look } from "../terminal/look.ts";
import type { TopLink } from "./link.ts";
import type { TopRun } from "./now.ts";

/** Steps from which on the events are read at first. */
const LATEST = 20;
const MAX_LINES = 500;
/** The chosen row stays for this time before its events are read: a key that is held reads nothing. */
const SETTLE_MS = 150;

/** What is shown of each event; the others are no news beside these. */
const WORDS: Partial<Record<StoryLine["t"], string>> = {
  answer: "model",
  call_start: "call",
  call_end: "result",
  inbox: "message",
  unit: "unit",
  state: "state",
  verdict: "answer",
  compact: "compact",
  switch: "model",
  change: "file",
};

/** Owns the stream of one run's events. */
export class LogPane {
  readonly #link: TopLink;
  readonly #redraw: () => void;
  #uuid = "";
  #lines: StoryLine[] = [];
  #problem = "";
  #stop = (): void => undefined;

  constructor(link: TopLink, redraw: () => void) {
    this.#link = link;
    this.#redraw = redraw;
  }

  /** undefined: no run. */
  show(run: TopRun | undefined): void {
    const uuid = run?.uuid ?? "";
    if (uuid === this.#uuid) return;
    this.close();
    this.#uuid = uuid;
    if (run === undefined) return;
    const timer = realClock.timer(SETTLE_MS, () => {
      this.#follow(run).catch((error: unknown) => {
        if (this.#uuid !== uuid) return;
        this.#problem = messageOf(error);
        this.#redraw();
      });
    });
    this.#stop = () => timer.cancel();
  }

  close(): void {
    this.#stop();
    this.#uuid = "";
    this.#lines = [];
    this.#problem = "";
  }

  /** The newest ones that fit. */
  lines(rows: number, columns: number, look: Look): string[] {
    if (this.#problem !== "") return [look.red(oneLine(this.#problem, columns))];
    if (this.#lines.length === 0) return [look.dim("no event yet")];
    return this.#lines.slice(-rows).map((event) => lineOf(event, columns, look));
  }

  async #follow({ uuid, steps }: TopRun): Promise<void> {
    const after = Math.max(0, steps - LATEST - 1);
    const [first] =
      after === 0 ? [] : (await this.#link.request("list_steps", { uuid, after, limit: 1 })).steps;
    if (this.#uuid !== uuid) return;
    const stream = await this.#link.events(uuid, first?.n ?? 0);
    if (this.#uuid !== uuid) return stream.close();
    this.#stop = () => stream.close();
    for await (const event of stream) {
      if (this.#uuid !== uuid) return;
      if (event.type !== "run_event" || !isNews(event.payload)) continue;
      this.#lines.push(event.payload);
      if (this.#lines.length > MAX_LINES) this.#lines.shift();
      this.#redraw();
    }
  }
}

/** An answer that only calls tools has no text, and not every change names a file. */
function isNews({ t, title }: StoryLine): boolean {
  return WORDS[t] !== undefined && (Boolean(title) || (t !== "answer" && t !== "change"));
}

function lineOf(
  { t, ts, title = "", status = "", duration_ms, id }: StoryLine,
  columns: number,
  look: Look,
): string {
  const time = ts === undefined ? "" : new Date(ts).toTimeString().slice(0, 8);
  const took = duration_ms === undefined ? "" : `${look.glyph.dot}${formatElapsed(duration_ms)}`;
  const text = oneLine(
    [t === "unit" ? id : "", status, title].filter(Boolean).join(" ") + took,
    columns - 18,
  );
  const word = (WORDS[t] ?? "").padEnd(8);
  return `${look.dim(`${time.padEnd(8)} `)}${t === "call_start" ? look.cyan(word) : word} ${text}`;
}
