/** What the page knows of one run: its facts, the index of its steps, and its latest events, as they happen. */

import { signal } from "@preact/signals";
import type { StoryLine } from "../protocol/methods.ts";
import { type Child, type Run, type RunDetail, read, type Step } from "./page-api.ts";

/** Of a run, in one answer. */
const ALL = 10_000;
/** Steps whose events are loaded at first. */
const LATEST = 200;

/** Owns the stream of the run's events; `close` ends it. */
export class FollowedRun {
  readonly detail = signal<RunDetail | null>(null);
  readonly steps = signal<readonly Step[]>([]);
  readonly events = signal<readonly StoryLine[]>([]);
  readonly children = signal<readonly Child[]>([]);
  readonly problem = signal("");
  /** The step before the first one whose events are loaded. */
  readonly loadedAfter = signal(0);
  readonly uuid: string;
  #stream: EventSource | undefined;
  #pending: StoryLine[] = [];
  #due = false;
  #closed = false;
  #reading: Promise<void> | undefined;
  #again = false;

  constructor(uuid: string) {
    this.uuid = uuid;
    this.refresh().then(() => this.load(Math.max(0, this.steps.value.length - LATEST)));
  }

  /** Loads the events of the steps after this one, and follows those to come. */
  load(step: number): void {
    this.#stream?.close();
    if (this.#closed) return;
    this.loadedAfter.value = step;
    this.#pending = [];
    this.events.value = [];
    this.#open(this.steps.value[step - 1]?.n ?? 0);
  }

  /** Reads what is new. A run that lives again is followed again. */
  renew(isLive: boolean): void {
    void this.refresh();
    if (isLive && this.#stream?.readyState === EventSource.CLOSED)
      this.#open(this.events.value.at(-1)?.n ?? 0);
  }

  #open(after: number): void {
    this.#stream = new EventSource(`/api/run_events?uuid=${this.uuid}&after=${after}`);
    this.#stream.onmessage = ({ data }: MessageEvent<string>) => {
      this.#pending.push(JSON.parse(data));
      this.#flushSoon();
    };
    this.#stream.addEventListener("eof", () => this.#stream?.close());
    this.#stream.addEventListener("failed", () => this.#stream?.close());
  }

  /** The facts, the new steps and the children; one reading at a time. */
  refresh(): Promise<void> {
    if (this.#reading) {
      // It may have passed what is new by now.
      this.#again = true;
      return this.#reading;
    }
    this.#reading = this.#read().finally(() => {
      this.#reading = undefined;
      if (this.#again) void this.refresh();
    });
    return this.#reading;
  }

  close(): void {
    this.#closed = true;
    this.#stream?.close();
  }

  async #read(): Promise<void> {
    const { uuid } = this;
    this.#again = false;
    const after = this.steps.value.at(-1)?.step ?? 0;
    try {
      const [detail, { steps }, { children }] = await Promise.all([
        read("show", { uuid }),
        read("list_steps", { uuid, after, limit: ALL }),
        read("children", { uuid }),
      ]);
      this.detail.value = detail;
      this.children.value = children;
      if (steps.length > 0) this.steps.value = [...this.steps.value, ...steps];
    } catch (error) {
      this.problem.value = String(error instanceof Error ? error.message : error);
    }
  }

  /** Events that come together are one change of the page: the more there are, the longer it takes to draw them. */
  #flushSoon(): void {
    if (this.#due) return;
    this.#due = true;
    setTimeout(
      () => {
        this.#due = false;
        const last = this.steps.value.at(-1)?.step ?? 0;
        const isNews = this.#pending.some(
          ({ t, step = 0 }) => t === "state" || (t === "step" && step > last),
        );
        this.events.value = [...this.events.value, ...this.#pending];
        this.#pending = [];
        if (isNews) void this.refresh();
      },
      Math.min(1000, this.events.value.length / 20),
    );
  }
}

export function isLive(run: Run): boolean {
  return run.ended_at_ms === null;
}
