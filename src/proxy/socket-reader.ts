/** Reads the beginning of a connection piece by piece, with a limit and a deadline. */

import type { Socket } from "node:net";

/** What was read so far decides: the number of bytes to take, or null for more. */
type Enough = (bytes: Buffer) => number | null;

export class SocketReader {
  readonly #socket: Socket;
  #bytes: Buffer = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.pause();
  }

  /** What was received and not taken. */
  rest(): Buffer {
    const rest = this.#bytes;
    this.#bytes = Buffer.alloc(0);
    return rest;
  }

  /** Takes bytes from the beginning. Fails at the end of the stream, beyond `limit` bytes, or after `ms`. */
  async take(enough: Enough, limit: number, ms?: number): Promise<Buffer> {
    for (;;) {
      const length = this.#bytes.length === 0 ? null : enough(this.#bytes);
      if (length !== null && length <= this.#bytes.length) {
        const taken = this.#bytes.subarray(0, length);
        this.#bytes = this.#bytes.subarray(length);
        return taken;
      }
      if (this.#bytes.length > limit) throw new Error(`more than ${limit} bytes came before the request`);
      this.#bytes = Buffer.concat([this.#bytes, await this.#next(ms)]);
    }
  }

  #next(ms: number | undefined): Promise<Buffer> {
    const socket = this.#socket;
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    const ended = (): void => reject(new Error("the connection ended before its request"));
    const timer =
      ms === undefined ? undefined : setTimeout(() => reject(new Error(`nothing came within ${ms} ms`)), ms);
    socket.on("data", resolve).on("end", ended).on("close", ended).on("error", reject).resume();
    return promise.finally(() => {
      clearTimeout(timer);
      socket.pause();
      socket.off("data", resolve).off("end", ended).off("close", ended).off("error", reject);
    });
  }
}
