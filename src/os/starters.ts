/** The starters of a kernel: a run in namespaces that starts programs often has one. */

import { closeSync } from "node:fs";
import { socketPair } from "./pass-descriptors.ts";
import type { RunningChild } from "./running-child.ts";
import { Starter } from "./starter.ts";

/** Starts the program of a starter, which inherits the socket. */
export type LaunchStarter = (socket: number, onMessage: (message: unknown) => void) => RunningChild;

interface Use {
  key: string;
  /** How many programs with this key were started in a row. */
  times: number;
  starter?: Starter;
  /** A starter did not get ready here, so no other is tried. */
  hasFailed?: true;
}

/** A run gets a starter with this program: a starter takes as long to start as two programs, and 30 MB. */
const FROM_PROGRAM = 3;
const MAX_STARTERS = 16;
const IDLE_MS = 30_000;

export class Starters {
  readonly #uses = new Map<string, Use>();
  readonly #end = new WeakMap<Starter, () => void>();
  #running = 0;

  /** The starter for a program of the process, once there is one. `key`: what its programs have in common. */
  find(uuid: string, key: string, launch: LaunchStarter): Starter | undefined {
    const known = this.#uses.get(uuid);
    const use = known?.key === key ? known : { key, times: 0 };
    this.#uses.set(uuid, use);
    use.times += 1;
    if (!use.starter && !use.hasFailed && use.times >= FROM_PROGRAM && this.#running < MAX_STARTERS)
      use.starter = this.#launch(use, launch);
    if (!use.starter?.isThere) return undefined;
    if (!use.starter.isStuck) return use.starter;
    this.#end.get(use.starter)?.();
    return undefined;
  }

  /** Whether the process has not ended since a starter was looked for. */
  has(uuid: string): boolean {
    return this.#uses.has(uuid);
  }

  /** The process ends, and with it the programs of its starters. */
  forget(uuid: string): void {
    this.#uses.delete(uuid);
  }

  #launch(use: Use, launch: LaunchStarter): Starter | undefined {
    const sockets = socketPair();
    if (!sockets) return undefined;
    const [ours, theirs] = sockets;
    try {
      const child: RunningChild = launch(theirs, (message) => starter.receive(child.pid, message));
      const starter = new Starter(ours, (message) => child.channel?.send(message));
      this.#running += 1;
      this.#end.set(starter, () => {
        child.hurry();
        void child.end();
      });
      const timer = setInterval(() => {
        if (starter.isIdle && performance.now() - starter.idleSince >= IDLE_MS) void child.end();
      }, IDLE_MS);
      void child.exited().then(() => {
        clearInterval(timer);
        this.#running -= 1;
        if (!starter.isThere) use.hasFailed = true;
        starter.ended();
        if (use.starter === starter) delete use.starter;
        use.times = 0;
      });
      return starter;
    } catch (thrown) {
      closeSync(ours);
      throw thrown;
    } finally {
      closeSync(theirs);
    }
  }
}
