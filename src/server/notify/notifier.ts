/** Notifies a command or an address of an event: for example a question that waits. */

import { onceAborted } from "../../lib/cancellation.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { Logger } from "../../lib/logger.ts";
import type { Receiver, SendPorts } from "./send.ts";

interface NotifierPorts extends SendPorts {
  logger: Logger;
}

const CLOSE_MS = 3_000;
/** The waits before the second and the third attempt. */
const WAITS_MS = [1_000, 5_000] as const;
/** Maximum notifications under way or waiting; more are dropped and logged. */
const MAX_OPEN = 50;
const MAX_CONCURRENT = 4;

/** Sends notifications one after the other per place, a few at a time. It never fails and nothing waits for it. */
export class Notifier {
  readonly #ports: NotifierPorts;
  readonly #queue: (() => Promise<void>)[] = [];
  readonly #running = new Set<Promise<void>>();
  readonly #closing = new AbortController();

  constructor(ports: NotifierPorts) {
    this.#ports = ports;
  }

  notify(receiver: Receiver, event: object): void {
    if (this.#queue.length + this.#running.size >= MAX_OPEN) {
      this.#ports.logger.warn(
        "notify",
        `${MAX_OPEN} notifications wait: one for ${receiver.target} was dropped`,
      );
      return;
    }
    this.#queue.push(() => this.#send(receiver, JSON.stringify(event)));
    this.#next();
  }

  /** Lets notifications under way finish for a moment, then ends them. */
  async close(): Promise<void> {
    const timer = this.#ports.clock.timer(CLOSE_MS, () => this.#closing.abort());
    try {
      while (this.#running.size > 0) await Promise.all(this.#running);
    } finally {
      timer.cancel();
      this.#closing.abort();
    }
  }

  #next(): void {
    while (this.#running.size < MAX_CONCURRENT && !this.#closing.signal.aborted) {
      const work = this.#queue.shift();
      if (!work) return;
      const done = work().finally(() => {
        this.#running.delete(done);
        this.#next();
      });
      this.#running.add(done);
    }
  }

  async #send(receiver: Receiver, body: string): Promise<void> {
    const { logger } = this.#ports;
    for (let attempt = 0; ; attempt++) {
      try {
        const { sendTo } = await import("./send.ts");
        await sendTo(receiver, body, this.#ports, this.#closing.signal);
        return;
      } catch (thrown) {
        const why = messageOf(thrown);
        const wait = WAITS_MS[attempt];
        if (wait === undefined || this.#closing.signal.aborted) {
          logger.warn("notify", `${receiver.target} was not notified: ${why}`);
          return;
        }
        await this.#pause(wait);
      }
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      let ignore = (): void => undefined;
      const timer = this.#ports.clock.timer(ms, () => {
        ignore();
        resolve();
      });
      ignore = onceAborted(this.#closing.signal, () => {
        timer.cancel();
        resolve();
      });
    });
  }
}
