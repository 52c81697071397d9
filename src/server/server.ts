/** The server: accepts clients, limits their number and closes their connections. */

import { withTimeout } from "../lib/clock.ts";
import { stackOf } from "../lib/error-detail.ts";
import { SyscallError } from "../plugin/index.ts";
import { encode, FrameBudget } from "../protocol/frame.ts";
import { MAX_REQUEST_BYTES, type WireError } from "../protocol/methods.ts";
import {
  type ByteStream,
  Connection,
  serviceOfClient,
  type UnitOf,
  unitOfClient,
} from "./connection/connection.ts";
import { dispatch } from "./methods/method-table.ts";
import type { Services } from "./services.ts";

/** Maximum connections: far more than a person opens. */
export const MAX_CONNECTIONS = 1024;
/** Above this number, programs inside runs are refused, so that a person can still connect. */
export const MAX_WITH_RUNS = 512;
/** Maximum refused connections that get an error at the same time; more are cut off. */
const MAX_REFUSING = 64;
/** Memory for unfinished requests of all connections; a command's request has a few KiB. */
const UNFINISHED_BYTES = 4 * MAX_REQUEST_BYTES;
/** How long written data may wait for its client when the server ends or refuses it. */
const FLUSH_MS = 2000;

/** The server: all connections of its clients, over sockets or memory. */
export class Server {
  readonly #services: Services;
  readonly #stallMs: number | undefined;
  readonly #open = new Map<Connection, Promise<void>>();
  readonly #refusing = new Set<ByteStream>();
  readonly #budget = new FrameBudget(UNFINISHED_BYTES);

  constructor(system: Services, o: { stallMs?: number } = {}) {
    this.#services = system;
    this.#stallMs = o.stallMs;
  }

  get connections(): number {
    return this.#open.size;
  }

  /** Serves this client and owns its stream. `descriptor` returns its open socket, if it has one. */
  accept(stream: ByteStream, descriptor?: () => number | undefined): void {
    const unitOf = unitOfClient(this.#services, descriptor);
    const service = (): string | null => serviceOfClient(descriptor);
    const { size } = this.#open;
    if (size >= MAX_CONNECTIONS || (size >= MAX_WITH_RUNS && isInside(unitOf))) {
      this.#refuse(stream, tooMany(size));
      return;
    }
    const connection = new Connection(stream, this.#services.clock, {
      stallMs: this.#stallMs,
      room: this.#budget,
    });
    const served = connection
      .serve((frame, peer) =>
        dispatch(frame, { peer, unitOf, service }, this.#services, () => connection.take()),
      )
      .catch((error: unknown) => {
        this.#services.logger.warn("server", `a connection broke: ${stackOf(error)}`);
        connection.destroy();
      })
      .finally(() => this.#open.delete(connection));
    this.#open.set(connection, served);
  }

  /** Reads until the client closes: a client that is disconnected while it sends would not see the error. */
  #refuse(stream: ByteStream, error: WireError): void {
    const end = (): void => {
      stream.destroy();
    };
    stream.on("error", end);
    if (this.#refusing.size >= MAX_REFUSING) {
      end();
      return;
    }
    this.#refusing.add(stream);
    const late = this.#services.clock.timer(FLUSH_MS, end);
    stream.on("end", end);
    stream.on("close", () => {
      late.cancel();
      this.#refusing.delete(stream);
    });
    stream.resume();
    stream.end(encode({ ok: false, error }), () => undefined);
  }

  /**
   * Ends every connection. Ending streams get a moment to be read; all others are closed. A request that does not
   * finish even then, because its process does not, is abandoned.
   */
  async close(): Promise<void> {
    for (const stream of this.#refusing) stream.destroy();
    const all = Promise.all(this.#open.values());
    for (const connection of this.#open.keys()) connection.drain();
    await withTimeout(this.#services.clock, FLUSH_MS, all);
    for (const connection of this.#open.keys()) connection.destroy();
    if (await withTimeout(this.#services.clock, FLUSH_MS, all)) return;
    this.#services.logger.warn("server", `${this.#open.size} requests did not end: stopping without them`);
  }
}

function tooMany(open: number): WireError {
  const message = `The server has ${open} connections already and accepts no more. Close some, then try again.`;
  return { code: "UNAVAILABLE", message };
}

/** A client that has removed the marks of its run counts as inside one, too. */
function isInside(unitOf: UnitOf): boolean {
  try {
    return unitOf(undefined) !== undefined;
  } catch (thrown) {
    if (thrown instanceof SyscallError && thrown.code === "PERMISSION") return true;
    throw thrown;
  }
}
