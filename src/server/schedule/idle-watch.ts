/** Waits until the runs of a project have done nothing for a while. */

import type { EventSource, JobEvents } from "../../cron/ports.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import { MAX_AGE_MS, parseDuration } from "../../lib/duration.ts";

interface IdleWatchPorts {
  clock: Pick<Clock, "timer" | "now">;
  /** A run of the project works now, other than one of the job. */
  works(): boolean;
  warn(text: string): void;
}

/** One event for each time of idleness: the next one needs a run that has worked since. */
export class IdleWatch implements EventSource {
  readonly #afterMs: number;
  readonly #events: Pick<JobEvents, "accept">;
  readonly #ports: IdleWatchPorts;
  #timer: Timer | undefined;
  /** When it has worked last; unix ms. */
  #since = 0;

  constructor(trigger: { on_idle: string }, events: Pick<JobEvents, "accept">, ports: IdleWatchPorts) {
    this.#afterMs = parseDuration(trigger.on_idle, MAX_AGE_MS);
    this.#events = events;
    this.#ports = ports;
  }

  /** A run of the project, other than one of the job, has made a step or has ended. */
  worked(): void {
    this.#timer?.cancel();
    this.#since = this.#ports.clock.now();
    this.#timer = this.#ports.clock.timer(this.#afterMs, () => this.#look());
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #look(): void {
    // A step may take longer than this.
    if (this.#ports.works()) {
      this.worked();
      return;
    }
    this.#events
      .accept({ cause: `idle since ${new Date(this.#since).toISOString()}` })
      .catch((thrown: unknown) => this.#ports.warn(String(thrown)));
  }
}
