/** The connection of a conversation to the daemon: it outlives a restart of the daemon. */

import { SyscallError } from "../../plugin/index.ts";
import type { ProcRef, Receipt, StreamEvent } from "../../protocol/methods.ts";
import type { Answers, Payload, PlainMethod } from "../../server/methods/method-table.ts";
import { type ConnectOptions, environment, type Io, type Session, type Wire } from "../io.ts";
import { isLostConnection, withReconnects } from "../run/follow.ts";
import type { LogEntry } from "../transcript/transcript.ts";

type FollowMethod = "spawn" | "resume" | "attach";
type RunStream = AsyncIterable<StreamEvent> & { readonly answer: ProcRef; close(): void };

interface FollowHandlers {
  /** The next event is read when this has resolved. */
  event(event: StreamEvent): Promise<void> | void;
  /** The run has ended or was suspended. */
  ended(receipt: Receipt): void;
  /** The run can't be followed any more: the daemon is gone. */
  lost(error: unknown): void;
}

export interface Followed {
  readonly ref: ProcRef;
  /** Ends the following. The run is not affected. */
  close(): void;
}

export class Link {
  readonly #io: Io;
  readonly #question: ConnectOptions["question"];
  #session: Promise<Session> | null = null;
  #wire: Wire | null = null;
  readonly #sessions = new Set<Session>();

  /** `question` gives the terminal to a question that comes up while it connects. */
  constructor(io: Io, question: ConnectOptions["question"]) {
    this.#io = io;
    this.#question = question;
  }

  /** Sends a request. A connection that was lost since the last request is replaced. */
  async request<M extends PlainMethod>(
    method: M,
    payload: Payload<M>,
    o: { timeoutMs?: number | null } = {},
  ): Promise<Answers[M]> {
    const known = this.#wire;
    try {
      const wire = known ?? (await this.#connect());
      this.#wire = wire;
      return await wire.request(method, payload, o);
    } catch (error) {
      if (!isLostConnection(error)) throw error;
      this.#wire = null;
      this.#session = null;
      if (known === null) throw error;
      return this.request(method, payload, o);
    }
  }

  /** Opens a stream and follows its run, over lost connections, until it ends. */
  async follow<M extends FollowMethod>(
    method: M,
    payload: Payload<M>,
    on: FollowHandlers,
  ): Promise<Followed> {
    let stream: RunStream = await (await this.#connect()).open(method, payload);
    const ref = stream.answer;
    let isClosed = false;
    const again = async (after?: number): Promise<RunStream | null> => {
      if (isClosed) return null;
      // A failed reconnection is the lost connection, which is reported.
      const next = await this.#reconnect(ref.uuid, after).catch(() => null);
      stream = next ?? stream;
      return next;
    };
    const read = async (): Promise<void> => {
      for await (const event of withReconnects(stream, again)) {
        if (isClosed) return;
        if (event.type === "error") throw new SyscallError("UNAVAILABLE", event.payload.error_message);
        await on.event(event);
        if (event.type !== "complete" || isClosed) continue;
        const { event: _, ...receipt } = event.payload;
        on.ended(receipt);
      }
    };
    read().catch((error: unknown) => {
      if (!isClosed) on.lost(error);
    });
    const close = (): void => {
      isClosed = true;
      stream.close();
    };
    return { ref, close };
  }

  /** Makes a live copy of a conversation that waits for a message. */
  async fork(uuid: string): Promise<ProcRef> {
    const request = { uuid, fork: true, env: environment(this.#io), attended: true as const };
    const stream = await (await this.#connect()).open("resume", request);
    stream.close();
    return stream.answer;
  }

  async log(uuid: string, take: (entry: LogEntry) => void): Promise<void> {
    const stream = await (await this.#connect()).open("attach_log", { uuid, follow: false });
    for await (const event of stream) if (event.type === "log_entry") take(event.payload);
  }

  /** After a run could not begin: lets the user set up a provider, if there is none. Returns whether that was done. */
  async offerSetup(error: unknown): Promise<boolean> {
    const { offerSetup } = await import("../setup/offer.ts");
    this.#session ??= this.#open();
    return offerSetup(this.#io, await this.#session, error);
  }

  async close(): Promise<void> {
    for (const session of this.#sessions) await session.close();
  }

  async #connect(): Promise<Wire> {
    for (let isSecond = false; ; isSecond = true) {
      this.#session ??= this.#open();
      try {
        return await (await this.#session).connect();
      } catch (error) {
        // The daemon has stopped since: a new session starts another.
        this.#session = null;
        if (isSecond || !isLostConnection(error)) throw error;
      }
    }
  }

  async #open(): Promise<Session> {
    const session = await this.#io.session({ question: this.#question });
    if (session === null) throw new SyscallError("UNAVAILABLE", "no daemon runs and none could be started");
    this.#sessions.add(session);
    return session;
  }

  /** null when no daemon runs: a new one would not have the run. */
  async #reconnect(uuid: string, after?: number): Promise<RunStream | null> {
    const session = await this.#io.session({ onlyRunning: true, question: this.#question });
    if (session === null) return null;
    this.#sessions.add(session);
    this.#session = Promise.resolve(session);
    this.#wire = null;
    return (await session.connect()).open("attach", { uuid, attended: true, after });
  }
}
