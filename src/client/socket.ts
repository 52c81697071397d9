/** The transport between a command and the daemon. */

import type { Clock } from "../lib/clock.ts";
import { errnoOf } from "../lib/error-detail.ts";
import { SyscallError } from "../plugin/errors.ts";
import type { Pipe, PipeListener } from "./client.ts";

/** null if no server listens there. By Bun.connect: node:net takes longer to load than a whole request to the daemon. */
export async function dialSocket(path: string, clock: Clock, deadlineMs: number): Promise<Pipe | null> {
  const pipe = new SocketPipe();
  const late = Promise.withResolvers<never>();
  const timer = clock.timer(deadlineMs, () =>
    late.reject(unavailable(`No connection to the daemon's socket ${path} within ${deadlineMs} ms.`)),
  );
  try {
    await Promise.race([Bun.connect({ unix: path, socket: pipe.handlers }), late.promise]);
    return pipe;
  } catch (cause) {
    pipe.close();
    if (cause instanceof SyscallError) throw cause;
    if (NOT_LISTENING.has(errnoOf(cause) ?? "")) return null;
    throw unavailable(`The daemon's socket ${path} can't be connected to: ${String(cause)}.`, cause);
  } finally {
    timer.cancel();
  }
}

const NOT_LISTENING: ReadonlySet<string> = new Set(["ENOENT", "ECONNREFUSED", "ECONNRESET", "EPIPE"]);

function unavailable(message: string, cause?: unknown): SyscallError {
  return new SyscallError("UNAVAILABLE", message, { cause });
}

/** A Bun socket takes what fits and drops the rest. The rest is buffered here and sent on "drain". */
class SocketPipe implements Pipe {
  #socket: Bun.Socket<undefined> | undefined;
  #listener: PipeListener | undefined;
  #unsent: Uint8Array[] = [];
  #isClosed = false;

  readonly handlers: Bun.SocketHandler<undefined> = {
    open: (socket) => {
      this.#socket = socket;
      // Given up meanwhile.
      if (this.#isClosed) socket.terminate();
    },
    data: (_, chunk) => this.#listener?.data(chunk),
    drain: () => this.#flush(),
    error: (_, error) => this.#end(error),
    close: (_, error) => this.#end(error ?? undefined),
    // The rejection of Bun.connect reports it.
    connectError: () => undefined,
  };

  listen(listener: PipeListener): void {
    this.#listener = listener;
  }

  write(text: string): void {
    this.#unsent.push(Buffer.from(text));
    if (this.#unsent.length === 1) this.#flush();
  }

  pause(): void {
    this.#socket?.pause();
  }

  resume(): void {
    this.#socket?.resume();
  }

  close(): void {
    this.#isClosed = true;
    this.#unsent = [];
    this.#socket?.terminate();
  }

  #flush(): void {
    for (let first = this.#unsent[0]; first && !this.#isClosed; first = this.#unsent[0]) {
      const sent = Math.max(0, this.#socket?.write(first) ?? 0);
      if (sent < first.length) {
        this.#unsent[0] = first.subarray(sent);
        return;
      }
      this.#unsent.shift();
    }
  }

  #end(cause?: Error): void {
    this.#isClosed = true;
    this.#unsent = [];
    const listener = this.#listener;
    this.#listener = undefined;
    listener?.closed(cause);
  }
}
