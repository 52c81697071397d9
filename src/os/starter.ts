/** A program within the namespaces and limits of a run that starts others there: they need not join them one by one. */

import { closeSync } from "node:fs";
import { SyscallError } from "../plugin/index.ts";
import type { Exit } from "./channel.ts";
import { isStopped } from "./linux-table.ts";
import { sendDescriptors } from "./pass-descriptors.ts";
import { childrenOf, insideNumber } from "./program-group.ts";
import { settles, signal } from "./signal.ts";
import { outputPipe, readerOf, type Spawned } from "./spawn.ts";
import { StarterMessage, type StartMessage } from "./starter-messages.ts";

/** A program that a starter has started. */
export interface Started {
  spawned: Spawned;
  isMarked: boolean;
}

interface Pending {
  /** null: it could not start it. "gone": the starter has ended, and may have started it. */
  started(message: { pid: number; isMarked: boolean } | null | "gone"): void;
  exited(exit: Exit): void;
  /** The program's PID in this namespace, once it is known. */
  pid?: number;
}

/** The messages to one starter. Its owner ends it, and says when it has ended. */
export class Starter {
  readonly #socket: number;
  readonly #send: (message: StartMessage) => void;
  readonly #programs = new Map<number, Pending>();
  /** Its PID in this namespace, once it is ready. */
  #pid: number | undefined;
  #hasEnded = false;
  #isLate = false;
  #started = 0;
  /** When its last program has ended, of `performance.now()`. */
  idleSince = performance.now();

  constructor(socket: number, send: (message: StartMessage) => void) {
    this.#socket = socket;
    this.#send = send;
  }

  /** It has got ready, and has not ended. */
  get isThere(): boolean {
    return this.#pid !== undefined && !this.#hasEnded;
  }

  /** A program beside it may have stopped it. */
  get isStuck(): boolean {
    return this.#isLate || (this.#pid !== undefined && isStopped(this.#pid));
  }

  get isIdle(): boolean {
    return this.#programs.size === 0;
  }

  /** `leader`: the program that has joined the namespaces, whose descendant it is. */
  receive(leader: number, data: unknown): void {
    const { data: message } = StarterMessage.safeParse(data);
    if (message === undefined) return;
    if (message.t === "ready") {
      this.#pid = descendant(leader, message.pid);
      return;
    }
    const program = this.#programs.get(message.n);
    if (message.t === "started") program?.started(message);
    else if (message.t === "failed") program?.started(null);
    else program?.exited({ code: message.code, signal: message.signal });
  }

  /** null: it has not started, and can't be this way. Fails with UNAVAILABLE where that is not known. */
  async start(request: Omit<StartMessage, "n">): Promise<Started | null> {
    const [out, err] = [outputPipe(), outputPipe()];
    const closeOurs = (): void => {
      for (const pipe of [out, err]) if (pipe) closeSync(pipe.ours);
    };
    const n = ++this.#started;
    const begun = Promise.withResolvers<Parameters<Pending["started"]>[0]>();
    const end = Promise.withResolvers<Exit>();
    const program: Pending = { started: begun.resolve, exited: end.resolve };
    this.#programs.set(n, program);
    void end.promise.then(() => this.#remove(n));
    const isSent = out && err && sendDescriptors(this.#socket, [out.theirs, err.theirs]);
    for (const pipe of [out, err]) if (pipe) closeSync(pipe.theirs);
    if (!isSent || !this.#deliver({ n, ...request })) begun.resolve(null);
    if (!(await settles(begun.promise, START_MS))) {
      this.#isLate = true;
      begun.resolve("gone");
    }
    const started = await begun.promise;
    if (!started || started === "gone" || !out || !err) {
      this.#remove(n);
      closeOurs();
      if (started !== "gone") return null;
      const message = `${request.argv[0]} may not have started: what starts programs in the sandbox of this run has ended or does not answer. What it had started was ended.`;
      throw new SyscallError("UNAVAILABLE", message);
    }
    program.pid = this.#pid === undefined ? undefined : childOf(this.#pid, started.pid);
    const exited = end.promise;
    const firstLook = settles(exited, SHORT_MS);
    return {
      isMarked: started.isMarked,
      spawned: {
        pid: program.pid ?? ENDED,
        exited,
        streams: [
          { fd: 1, reader: readerOf(out, null, firstLook) },
          { fd: 2, reader: readerOf(err, null, firstLook) },
        ],
        terminalClosed: Promise.resolve(),
        stdin: null,
        pipes: [out.link, err.link],
        outputs: [out.ours, err.ours],
        release: closeOurs,
      },
    };
  }

  /** The starter has ended, and its programs with it. How each of them ended is not known. */
  ended(): void {
    this.#hasEnded = true;
    closeSync(this.#socket);
    for (const { pid, started, exited } of this.#programs.values()) {
      if (pid !== undefined) signal(-pid, "SIGKILL");
      started("gone");
      exited({ code: null, signal: "SIGKILL" });
    }
  }

  /** Returns false if the starter has ended. */
  #deliver(message: StartMessage): boolean {
    try {
      this.#send(message);
      return true;
    } catch {
      return false;
    }
  }

  #remove(n: number): void {
    this.#programs.delete(n);
    this.idleSince = performance.now();
  }
}

/** No process has this PID: the program has ended before it could be looked up. */
const ENDED = 2 ** 30;
/** Its answer comes within a millisecond. */
const START_MS = 5000;
/** Output of a program that ends within this time is read after its end. */
const SHORT_MS = 10;

/** The child that has this PID in its own namespace. */
function childOf(parent: number, inner: number): number | undefined {
  return childrenOf(parent).find((pid) => insideNumber(pid) === inner);
}

function descendant(leader: number, inner: number): number | undefined {
  for (let level = childrenOf(leader); level.length > 0; level = level.flatMap(childrenOf)) {
    const found = level.find((pid) => insideNumber(pid) === inner);
    if (found !== undefined) return found;
  }
  return undefined;
}
