import { unitOfClient } from "./caller.ts";
import { type ByteStream, Connection } from "./connection.ts";
import { dispatch } from "./dispatch.ts";
import { encode, Room } from "./frame.ts";
import { MAX_REQUEST_BYTES } from "./protocol.ts";
import type { System } from "./system.ts";
import { within } from "./within.ts";

/** Far more than a person opens; a program that leaks connections is told so. */
export const MAX_CONNECTIONS = 1024;
/** So many requests of full length may be on their way at once; those of a command are a few KiB. */
const UNFINISHED_BYTES = 4 * MAX_REQUEST_BYTES;
/** What was written gets so long to be taken when the server ends. */
const FLUSH_MS = 2000;

/** Every client there is, whatever carries its bytes. */
export class Server {
  readonly #system: System;
  readonly #stallMs: number | undefined;
  readonly #open = new Map<Connection, Promise<void>>();
  readonly #room = new Room(UNFINISHED_BYTES);

  constructor(system: System, o: { stallMs?: number } = {}) {
    this.#system = system;
    this.#stallMs = o.stallMs;
  }

  get connections(): number {
    return this.#open.size;
  }

  /** Serves this client from now on; the stream is the server's to close. `descriptor` gives its open socket, if it has one. */
  accept(stream: ByteStream, descriptor?: () => number | undefined): void {
    if (this.#open.size >= MAX_CONNECTIONS) {
      stream.on("error", () => stream.destroy());
      stream.end(encode({ ok: false, error: TOO_MANY }), () => stream.destroy());
      return;
    }
    const connection = new Connection(stream, this.#system.clock, {
      stallMs: this.#stallMs,
      room: this.#room,
    });
    const unitOf = unitOfClient(this.#system, descriptor);
    const served = connection
      .serve((frame, peer) => dispatch(frame, { peer, unitOf }, this.#system, () => connection.take()))
      .catch((error: unknown) => {
        this.#system.log(`A connection broke: ${error instanceof Error ? error.stack : String(error)}`);
        connection.destroy();
      })
      .finally(() => this.#open.delete(connection));
    this.#open.set(connection, served);
  }

  /**
   * Ends every connection: streams that are ending get a moment to be read, all others are cut. A request
   * that does not come to its end even then, because a process does not, is gone without.
   */
  async close(): Promise<void> {
    const all = Promise.all(this.#open.values());
    for (const connection of this.#open.keys()) connection.drain();
    await within(this.#system.clock, FLUSH_MS, all);
    for (const connection of this.#open.keys()) connection.destroy();
    if (await within(this.#system.clock, FLUSH_MS, all)) return;
    this.#system.log(`${this.#open.size} requests did not come to their end: going without them.`);
  }
}

const TOO_MANY = {
  code: "UNAVAILABLE",
  message: `The server has ${MAX_CONNECTIONS} connections already. Close some, then try again.`,
};
