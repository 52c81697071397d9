/** The daemon's Unix socket: listening, and whether a server answers on it. */

import { rmSync } from "node:fs";
import { connect, createServer, type Server as NetServer, type Socket } from "node:net";

/** Gives the socket the mode 0600. */
const UMASK = 0o177;

/**
 * Listens on the path. The caller holds the lock, so an existing socket is a dead server's and is removed. The umask is
 * set before the file is created, so that other users can never connect.
 */
export async function listen(socket: string, accept: (stream: Socket) => void): Promise<NetServer> {
  rmSync(socket, { force: true });
  // Half-open, so that `printf … | nc -U` gets its answer after it has closed its own side.
  const server = createServer({ allowHalfOpen: true }, accept);
  const umask = process.umask(UMASK);
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(socket, resolve);
    });
  } finally {
    process.umask(umask);
  }
  return server;
}

/** The descriptor of an open socket, for system calls that node:net lacks; undefined when it is closed. */
export function descriptorOf(stream: Socket): number | undefined {
  const handle: unknown = stream.destroyed ? undefined : Reflect.get(stream, "_handle");
  const fd: unknown = typeof handle === "object" && handle !== null ? Reflect.get(handle, "fd") : undefined;
  return typeof fd === "number" && fd >= 0 ? fd : undefined;
}

export function answers(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const stream = connect(socket);
    stream.on("connect", () => {
      stream.destroy();
      resolve(true);
    });
    stream.on("error", () => resolve(false));
  });
}
