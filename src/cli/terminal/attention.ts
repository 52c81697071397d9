/** Rings or notifies when a run that the user waits for ends or asks, if a setting asks for it. */

import type { Receipt, StreamEvent } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";
import type { Io } from "../io.ts";

/** No setting is read for a shorter wait: the user is still there. */
const SHORT_MS = 1000;

export class Attention {
  readonly #io: Io;
  readonly #now: () => number;
  #since: number;
  #intent = "";

  constructor(io: Io, now: () => number = Date.now) {
    this.#io = io;
    this.#now = now;
    this.#since = now();
  }

  /** Called with each event of the run. */
  async seen(event: StreamEvent): Promise<void> {
    if (event.type === "progress" && event.payload.event === "spawn") this.#intent = event.payload.intent;
    if (event.type === "complete") await this.#get(endOf(event.payload));
    if (event.type === "ask_user") await this.#get("asks");
  }

  async #get(what: string): Promise<void> {
    const waitedMs = this.#now() - this.#since;
    this.#since = this.#now();
    if (!this.#io.stderr.isTTY || waitedMs < SHORT_MS) return;
    const { notify } = await import("./notify.ts");
    await notify(this.#io, { text: `rnix: ${what}: ${this.#intent}`, waitedMs });
  }
}

function endOf({ exit_code }: Pick<Receipt, "exit_code">): string {
  if (exit_code === EXIT.ok) return "done";
  return exit_code === EXIT.suspended ? "suspended" : "failed";
}
