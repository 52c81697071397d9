/** The connections of `rnix top` to the daemon: its stream of changes outlives a restart of the daemon. */

import type { ProcChanges, StreamEvent } from "../../protocol/methods.ts";
import type { Answers, Payload, PlainMethod } from "../../server/methods/method-table.ts";
import { environment, type Io, type Session, type Wire } from "../io.ts";
import { isLostConnection } from "../run/follow.ts";

/** How often a daemon is looked for that is gone. */
const AGAIN_MS = 1000;

interface Watcher {
  change(change: ProcChanges): void;
  lost(): void;
}

/** Owns its sessions until it is closed. */
export class TopLink {
  readonly #io: Io;
  #session: Session;
  /** A connection for requests that no request uses. */
  #idle: Wire | undefined;
  /** Gives the terminal to a question about a daemon of another version. */
  lend: <T>(work: () => Promise<T>) => Promise<T> = (work) => work();
  /** Ends a wait. */
  #wake = (): void => undefined;
  #isClosed = false;

  private constructor(io: Io, session: Session) {
    this.#io = io;
    this.#session = session;
  }

  /** Starts the daemon when none runs. */
  static async open(io: Io): Promise<TopLink | null> {
    const session = await io.session();
    return session && new TopLink(io, session);
  }

  /** Follows the changes until it is closed. Fails when the daemon refuses it. */
  async watch(on: Watcher): Promise<void> {
    while (!this.#isClosed) {
      try {
        const stream = await (await this.#session.connect()).open("watch_procs", {});
        for await (const event of stream) if (event.type === "procs") on.change(event.payload);
      } catch (error) {
        if (this.#isClosed) return;
        if (!isLostConnection(error)) throw error;
      }
      on.lost();
      await this.#again();
    }
  }

  async request<M extends PlainMethod>(method: M, payload: Payload<M>): Promise<Answers[M]> {
    const wire = this.#idle ?? (await this.#session.connect());
    this.#idle = undefined;
    try {
      // A suspend waits for programs that end.
      const answer = await wire.request(method, payload, { timeoutMs: null });
      if (this.#idle === undefined) this.#idle = wire;
      else wire.close();
      return answer;
    } catch (error) {
      wire.close();
      throw error;
    }
  }

  async resume(uuid: string): Promise<{ pid: number }> {
    const wire = await this.#session.connect();
    try {
      return (await wire.open("resume", { uuid, env: environment(this.#io) })).answer;
    } finally {
      wire.close();
    }
  }

  /** The events of a run after a number. The caller closes the stream. */
  async events(uuid: string, after: number): Promise<AsyncIterable<StreamEvent> & { close(): void }> {
    return (await this.#session.connect()).open("run_events", { uuid, after });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#wake();
    await this.#session.close();
  }

  async #again(): Promise<void> {
    const question = this.lend;
    while (!this.#isClosed) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = this.#io.timer(AGAIN_MS, resolve);
      this.#wake = resolve;
      await promise;
      timer.cancel();
      if (this.#isClosed) return;
      const session = await this.#io.session({ onlyRunning: true, question }).catch((error: unknown) => {
        if (isLostConnection(error)) return null;
        throw error;
      });
      if (session === null) continue;
      await this.#session.close();
      this.#session = session;
      this.#idle = undefined;
      return;
    }
  }
}
