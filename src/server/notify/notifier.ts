/** Notifies a command or an address of an event: for example a question that waits. */

import { sleep } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { Logger } from "../../lib/logger.ts";
import { Semaphore } from "../../lib/semaphore.ts";
import type { Receiver, SendPorts } from "./send.ts";

interface NotifierPorts extends SendPorts {
  logger: Logger;
}

const CLOSE_MS = 3_000;
/** The waits before the attempts. */
const WAITS_MS = [0, 1_000, 5_000] as const;
/** Maximum notifications under way or waiting; more are dropped and logged. */
const MAX_OPEN = 50;
const MAX_CONCURRENT = 4;

/** Sends notifications, a few at a time. It never fails and nothing waits for it. */
export class Notifier {
  readonly #ports: NotifierPorts;
  readonly #slots = new Semaphore(MAX_CONCURRENT);
  readonly #open = new Set<Promise<void>>();
  readonly #closing = new AbortController();

  constructor(ports: NotifierPorts) {
    this.#ports = ports;
  }

  notify(receiver: Receiver, event: object): void {
    if (this.#open.size >= MAX_OPEN) {
      this.#ports.logger.warn(
        "notify",
        `${MAX_OPEN} notifications wait: one for ${receiver.target} was dropped`,
      );
      return;
    }
    const body = JSON.stringify(event);
    const done = this.#slots.run(() => this.#send(receiver, body)).finally(() => this.#open.delete(done));
    this.#open.add(done);
  }

  /** Lets notifications under way finish for a moment, then ends them. */
  async close(): Promise<void> {
    const timer = this.#ports.clock.timer(CLOSE_MS, () => this.#closing.abort());
    try {
      while (this.#open.size > 0) await Promise.all(this.#open);
    } finally {
      timer.cancel();
      this.#closing.abort();
    }
  }

  async #send(receiver: Receiver, body: string): Promise<void> {
    const { signal } = this.#closing;
    let why = "rnix stops";
    for (const wait of WAITS_MS) {
      if (wait > 0) await sleep(this.#ports.clock, wait, signal).catch(() => undefined);
      if (signal.aborted) break;
      try {
        const { sendTo } = await import("./send.ts");
        return await sendTo(receiver, body, this.#ports, signal);
      } catch (thrown) {
        why = messageOf(thrown);
      }
    }
    this.#ports.logger.warn("notify", `${receiver.target} was not notified: ${why}`);
  }
}
