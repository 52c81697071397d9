/** The clients that are attached to a process. */

import type { Channel } from "../../lib/channel.ts";
import type { LiveEvent } from "../../run/live-event.ts";

/** The channels of attached clients. */
export class Watchers extends Set<Channel<LiveEvent>> {
  /** Called after each change. */
  onChange: (() => void) | undefined;

  /** Whether a client follows the run that may send something; not one that reads the log or waits for its end. */
  get isAttended(): boolean {
    return [...this].some(({ isPassive }) => !isPassive);
  }

  override add(channel: Channel<LiveEvent>): this {
    super.add(channel);
    this.onChange?.();
    return this;
  }

  override delete(channel: Channel<LiveEvent>): boolean {
    const had = super.delete(channel);
    this.onChange?.();
    return had;
  }
}
