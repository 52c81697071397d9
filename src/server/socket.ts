import { lstatSync, mkdirSync, rmSync } from "node:fs";
import { connect, createServer, type Server as NetServer, type Socket } from "node:net";
import { dirname } from "node:path";
import { SyscallError } from "../plugin/index.ts";

/** 0600 for the socket: umask takes the rest away. */
const UMASK = 0o177;

/** The folder of the socket, made 0700 where there is none. */
export function makeSocketFolder(socket: string, uid: number): void {
  mkdirSync(dirname(socket), { recursive: true, mode: 0o700 });
  hasSocketFolder(socket, uid);
}

/**
 * Whether the socket's folder is there. PERMISSION unless it belongs to this user and nobody else can write to
 * it: who can, could put a socket of his own there and be told the environment of every run.
 */
export function hasSocketFolder(socket: string, uid: number): boolean {
  const folder = dirname(socket);
  const stat = lstatSync(folder, { throwIfNoEntry: false });
  if (!stat) return false;
  if (stat.uid === uid && (stat.mode & 0o022) === 0) return true;
  throw new SyscallError(
    "PERMISSION",
    `The socket's folder ${folder} belongs to user ${stat.uid} with mode ${(stat.mode & 0o777).toString(8)}: expected one of user ${uid} that nobody else can write to. Remove it, or set RNIX_SOCKET to a path in a folder of your own.`,
  );
}

/**
 * Listens on the path. The caller holds the lock, so a socket that lies there is a dead server's and is
 * removed. The umask is set before the file comes to be: no moment in which others could connect.
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

/** Whether somebody listens there. */
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
