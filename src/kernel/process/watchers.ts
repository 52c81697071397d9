/** The clients that are attached to a process. */

import { Channel } from "../../lib/channel.ts";
import type { LiveEvent } from "../../run/live-event.ts";

/** Which events a client gets: all, those of the log, or questions, notices and the end. */
export type Watched = "all" | "log" | "end";
type EventType = LiveEvent["event"];

const TYPES: Record<Watched, ReadonlySet<EventType> | undefined> = {
  all: undefined,
  log: new Set<EventType>(["log", "retry", "unit"]),
  end: new Set<EventType>(["spawn", "notice", "ask", "ask_closed"]),
};

/** The channel of one client. */
export class Watcher extends Channel<LiveEvent> {
  readonly #types: ReadonlySet<EventType> | undefined;
  override readonly isPassive: boolean;

  constructor(watched: Watched, ...options: ConstructorParameters<typeof Channel<LiveEvent>>) {
    super(...options);
    this.#types = TYPES[watched];
    this.isPassive = watched === "log";
  }

  takes(type: EventType): boolean {
    return this.#types?.has(type) ?? true;
  }

  override push(event: LiveEvent): void {
    if (this.takes(event.event)) super.push(event);
  }
}

/** The channels of attached clients. */
export class Watchers extends Set<Watcher> {
  /** Called after each change. */
  onChange: (() => void) | undefined;

  /** Whether a client gets events of this type. Others need not be made. */
  takes(type: EventType): boolean {
    for (const watcher of this) if (watcher.takes(type)) return true;
    return false;
  }

  /** Whether a client follows the run that may send something; not one that reads the log or waits for its end. */
  get isAttended(): boolean {
    return [...this].some(({ isPassive }) => !isPassive);
  }

  override add(channel: Watcher): this {
    super.add(channel);
    this.onChange?.();
    return this;
  }

  override delete(channel: Watcher): boolean {
    const had = super.delete(channel);
    this.onChange?.();
    return had;
  }
}
