/** The daemon's socket, PID file and lock. */

import { rmSync, statSync, writeFileSync } from "node:fs";
import type { Server as NetServer, Socket } from "node:net";
import type { UserPaths } from "../../config/environment/paths.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { Logger } from "../../lib/logger.ts";
import { makeSocketFolder } from "../../protocol/daemon-paths.ts";
import { listen } from "./socket.ts";

/** How often the daemon checks that its socket is in place. */
const CHECK_MS = 1000;

export interface Lock {
  release(o?: { remove?: boolean }): void;
}

interface EndpointPorts {
  paths: Pick<UserPaths, "socket" | "pidFile" | "lockFile">;
  uid: number;
  clock: Clock;
  /** null: held by another. Free again after kill -9 of its holder. */
  tryLock(path: string): Lock | null;
  logger: Logger;
  accept(stream: Socket): void;
  /** Another daemon has replaced this one. */
  onReplaced(): void;
}

/**
 * The daemon's lock, PID file and socket, from the lock to `release`. If the runtime directory is deleted, it creates
 * the socket again; if another daemon has replaced this one meanwhile, it reports that with `onReplaced`.
 */
export class DaemonEndpoint {
  readonly #ports: EndpointPorts;
  readonly #locks: Lock[];
  #lockFile: number | undefined;
  #socketFile: number | undefined;
  #net: NetServer | undefined;
  #timer: Timer | undefined;
  #reclaiming: Promise<void> = Promise.resolve();
  #isReplaced = false;
  #hasClosed = false;
  #lastFailure = "";

  constructor(ports: EndpointPorts, lock: Lock) {
    this.#ports = ports;
    this.#locks = [lock];
  }

  claim(): void {
    this.#lockFile = inodeOf(this.#ports.paths.lockFile);
    this.#writePid();
  }

  /** Listens, and watches that the socket stays in place. */
  async open(): Promise<void> {
    await this.#listen();
    this.#arm();
  }

  /** Accepts no new client. Safe to call again. */
  close(): void {
    this.#hasClosed = true;
    this.#timer?.cancel();
    // The runtime removes the file at the path of a socket that it closes, even another daemon's.
    if (this.#isReplaced) return;
    this.#net?.close();
    rmSync(this.#ports.paths.socket, { force: true });
  }

  /** Removes socket and PID file, and releases the lock. */
  async release(): Promise<void> {
    this.close();
    await this.#reclaiming;
    if (!this.#isReplaced) rmSync(this.#ports.paths.pidFile, { force: true });
    for (const lock of this.#locks) lock.release({ remove: !this.#isReplaced });
  }

  #arm(): void {
    if (this.#hasClosed) return;
    this.#timer = this.#ports.clock.timer(CHECK_MS, () => {
      if (this.#isThere()) this.#arm();
      else this.#reclaiming = this.#reclaim().finally(() => this.#arm());
    });
  }

  #isThere(): boolean {
    const { socket } = this.#ports.paths;
    return this.#socketFile !== undefined && inodeOf(socket) === this.#socketFile;
  }

  async #reclaim(): Promise<void> {
    const { paths, uid, logger, onReplaced } = this.#ports;
    try {
      makeSocketFolder(paths.socket, uid);
      if (!this.#holdsLock()) {
        this.#isReplaced = true;
        this.#hasClosed = true;
        logger.warn(
          "daemon",
          `${paths.socket} was removed, and another daemon has replaced it: suspending all runs`,
        );
        onReplaced();
        return;
      }
      this.#net?.close();
      await this.#listen();
      this.#writePid();
      logger.warn("daemon", `${paths.socket} was removed: listening there again`);
      this.#lastFailure = "";
    } catch (thrown) {
      const why = messageOf(thrown);
      if (why !== this.#lastFailure)
        logger.warn("daemon", `${paths.socket} was removed, and can't be created again: ${why}`);
      this.#lastFailure = why;
    }
  }

  #holdsLock(): boolean {
    const { paths, tryLock } = this.#ports;
    if (this.#lockFile !== undefined && inodeOf(paths.lockFile) === this.#lockFile) return true;
    const lock = tryLock(paths.lockFile);
    if (!lock) return false;
    this.#locks.push(lock);
    this.#lockFile = inodeOf(paths.lockFile);
    return true;
  }

  async #listen(): Promise<void> {
    const { paths, accept } = this.#ports;
    this.#socketFile = undefined;
    this.#net = await listen(paths.socket, accept);
    this.#socketFile = inodeOf(paths.socket);
    // Closed meanwhile.
    if (this.#hasClosed) this.close();
  }

  #writePid(): void {
    writeFileSync(this.#ports.paths.pidFile, `${process.pid}\n`, { mode: 0o600 });
  }
}

/** undefined: nothing is there. */
function inodeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.ino;
}
