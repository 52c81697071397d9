/** Notifies a command or an address of an event: for example a question that waits. */

import { onceAborted } from "../../lib/cancellation.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Logger } from "../../lib/logger.ts";
import type { Children } from "../../os/children.ts";
import { SyscallError } from "../../plugin/index.ts";

/** What is notified: a shell command, which reads the event as JSON on stdin, or an address, which gets it by POST. */
interface Hook {
  target: string;
  /** The folder of the command. Absolute. */
  cwd: string;
}

interface NotifierPorts {
  children: Pick<Children, "exec">;
  clock: Clock;
  /** Absolute. Nothing is written there. */
  spillDir: string;
  env: Record<string, string>;
  logger: Logger;
}

/** Programs need an owner; these belong to no run. */
const OWNER = "notify";
const COMMAND_MS = 30_000;
const POST_MS = 10_000;
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

  notify(hook: Hook, event: object): void {
    if (this.#queue.length + this.#running.size >= MAX_OPEN) {
      this.#ports.logger.warn("notify", `${MAX_OPEN} notifications wait: one for ${hook.target} was dropped`);
      return;
    }
    this.#queue.push(() => this.#send(hook, JSON.stringify(event)));
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

  async #send(hook: Hook, body: string): Promise<void> {
    const { logger } = this.#ports;
    for (let attempt = 0; ; attempt++) {
      try {
        if (/^https?:\/\//i.test(hook.target)) await this.#post(hook.target, body);
        else await this.#run(hook, body);
        return;
      } catch (thrown) {
        const why = thrown instanceof Error ? thrown.message : String(thrown);
        const wait = WAITS_MS[attempt];
        if (wait === undefined || this.#closing.signal.aborted) {
          logger.warn("notify", `${hook.target} was not notified: ${why}`);
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

  async #post(url: string, body: string): Promise<void> {
    const answer = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
      // An address that redirects may send the question to another place.
      redirect: "manual",
      signal: AbortSignal.any([this.#closing.signal, AbortSignal.timeout(POST_MS)]),
    });
    await answer.body?.cancel();
    if (!answer.ok) throw new SyscallError("UNAVAILABLE", `it answered ${answer.status}`);
  }

  async #run({ target, cwd }: Hook, body: string): Promise<void> {
    const { children, clock, env, spillDir } = this.#ports;
    const child = await children.exec(
      { uuid: OWNER, spillDir, clock },
      {
        argv: ["/bin/sh", "-c", target],
        cwd,
        env,
        stdin: body,
        timeoutMs: COMMAND_MS,
        maxOutput: 0,
        life: "process",
      },
    );
    const stop = onceAborted(this.#closing.signal, () => void child.kill());
    let said = "";
    for (let piece = await child.read(); piece !== null; piece = await child.read())
      if (said.length < 500) said += new TextDecoder().decode(piece.data);
    const { code, signal, timedOut } = await child.exited();
    stop();
    if (code === 0) return;
    const how = timedOut ? "did not end in time" : `ended with ${code ?? signal}`;
    throw new SyscallError("UNAVAILABLE", `it ${how}${said === "" ? "" : `: ${said.trim().slice(0, 200)}`}`);
  }
}
