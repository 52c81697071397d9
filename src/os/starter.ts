/** A program within the namespaces and limits of a run that starts others there: they need not join them one by one. */

import { closeSync } from "node:fs";
import { SyscallError } from "../plugin/index.ts";
import { sendDescriptors, socketPair } from "./pass-descriptors.ts";
import { isStopped } from "./process-table.ts";
import { childrenOf, insideNumber } from "./program-group.ts";
import type { RunningChild } from "./running-child.ts";
import { type Exit, settles, signal } from "./signal.ts";
import { Looks, outputPipe, readerOf, type Spawned } from "./spawn.ts";
import { StarterMessage, type StartMessage } from "./starter-messages.ts";

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
  async start(request: Omit<StartMessage, "n">): Promise<{ spawned: Spawned; isMarked: boolean } | null> {
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
    program.pid = childrenOf(this.#pid ?? ENDED).find((pid) => insideNumber(pid) === started.pid);
    const exited = end.promise;
    const looks = new Looks(exited);
    return {
      isMarked: started.isMarked,
      spawned: {
        pid: program.pid ?? ENDED,
        exited,
        streams: [
          { fd: 1, reader: readerOf(out, null, looks) },
          { fd: 2, reader: readerOf(err, null, looks) },
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

/** The descendant that has this PID in its own namespace. */
function descendant(leader: number, inner: number): number | undefined {
  for (let level = childrenOf(leader); level.length > 0; level = level.flatMap(childrenOf)) {
    const found = level.find((pid) => insideNumber(pid) === inner);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Starts the program of a starter, which inherits the socket. */
type LaunchStarter = (socket: number, onMessage: (message: unknown) => void) => RunningChild;

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
