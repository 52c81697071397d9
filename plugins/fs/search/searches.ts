/** The pool of Workers that search, as the kernel sees them. */

import { SyscallError } from "rnix/plugin";
import type { Allows } from "./permitted-files.ts";
import type { FromWorker, SearchRequest, ToWorker } from "./search.ts";

/** Workers at once: more do not make a disk quicker. */
const MAX_WORKERS = 4;
const IDLE_MS = 30_000;

interface Waiting {
  owner: string;
  take(worker: SearchWorker): void;
  fail(error: unknown): void;
}

/**
 * Runs searches in Workers, so that neither a large project nor a costly pattern blocks the kernel's thread. An owner
 * has one search at a time and its others queue, so that one run's searches do not delay another's.
 */
export class Searches {
  readonly #idle = new Map<SearchWorker, Timer>();
  /** Each with the owner of its search. */
  readonly #busy = new Map<SearchWorker, string>();
  readonly #waiting: Waiting[] = [];

  /** The answer of a search. When the signal fires, its Worker is ended at once. */
  async run(owner: string, request: SearchRequest, allows: Allows, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    // A copy of this plugin on disk has a Worker of its own already, which starts no further ones.
    if (!Bun.isMainThread) return (await import("./search.ts")).search(request, allows);
    const worker = await this.#workerFor(owner, signal);
    try {
      return await worker.search(request, allows, signal);
    } finally {
      this.#release(worker);
    }
  }

  /** Ends all Workers. Running and queued searches fail with CLOSED. */
  async end(): Promise<void> {
    for (const { fail } of this.#waiting.splice(0)) fail(new SyscallError("CLOSED", "The plugin was ended."));
    const workers = [...this.#idle.keys(), ...this.#busy.keys()];
    for (const timer of this.#idle.values()) clearTimeout(timer);
    this.#idle.clear();
    await Promise.all(workers.map((worker) => worker.end()));
  }

  async #workerFor(owner: string, signal: AbortSignal): Promise<SearchWorker> {
    const free = this.#free(owner);
    if (free) return free;
    const { promise, resolve, reject } = Promise.withResolvers<SearchWorker>();
    const waiting = { owner, take: resolve, fail: reject };
    this.#waiting.push(waiting);
    const giveUp = (): void => {
      const at = this.#waiting.indexOf(waiting);
      if (at >= 0) this.#waiting.splice(at, 1);
      reject(signal.reason);
    };
    signal.addEventListener("abort", giveUp, { once: true });
    try {
      return await promise;
    } catch (thrown) {
      signal.throwIfAborted();
      throw thrown;
    } finally {
      signal.removeEventListener("abort", giveUp);
    }
  }

  /** A Worker for this owner, if one is available now. */
  #free(owner: string): SearchWorker | undefined {
    if ([...this.#busy.values()].includes(owner)) return undefined;
    const [idle] = this.#idle;
    if (!idle && this.#busy.size >= MAX_WORKERS) return undefined;
    if (idle) {
      clearTimeout(idle[1]);
      this.#idle.delete(idle[0]);
    }
    const worker = idle?.[0] ?? new SearchWorker();
    this.#busy.set(worker, owner);
    return worker;
  }

  #release(worker: SearchWorker): void {
    this.#busy.delete(worker);
    if (!worker.ended) {
      const timer = setTimeout(() => {
        this.#idle.delete(worker);
        void worker.end();
      }, IDLE_MS);
      // An idle Worker must not keep the program running.
      timer.unref();
      this.#idle.set(worker, timer);
    }
    for (const [index, waiting] of this.#waiting.entries()) {
      const free = this.#free(waiting.owner);
      if (!free) continue;
      this.#waiting.splice(index, 1);
      waiting.take(free);
      return;
    }
  }
}

/** The searches of all runs of this kernel. */
export const searches = new Searches();

/** Set by build.ts; in source mode the name does not exist. */
declare const RNIX_SEARCH_WORKER: string | undefined;

const WORKER_URL =
  typeof RNIX_SEARCH_WORKER === "string" ? RNIX_SEARCH_WORKER : new URL("./worker.ts", import.meta.url).href;

interface Job {
  allows: Allows;
  resolve(answer: string): void;
  reject(error: unknown): void;
}

/** It does one search at a time. */
class SearchWorker {
  ended = false;
  readonly #worker = new Worker(WORKER_URL, { env: {}, ref: false, name: "plugin fs, search" });
  readonly #closed = Promise.withResolvers<void>();
  #job: Job | undefined;

  constructor() {
    this.#worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => this.#received(data));
    this.#worker.addEventListener("error", ({ message }) => this.#fail(broken(message)));
    this.#worker.addEventListener("close", () => {
      this.ended = true;
      this.#fail(broken("it ended"));
      this.#closed.resolve();
    });
  }

  /** The answer, or the signal's reason once the Worker has ended. */
  async search(request: SearchRequest, allows: Allows, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    this.#job = { allows, resolve, reject };
    const abort = (): void => void this.end();
    signal.addEventListener("abort", abort, { once: true });
    this.#worker.ref();
    try {
      this.#post({ t: "search", request });
      return await promise;
    } catch (thrown) {
      signal.throwIfAborted();
      throw thrown;
    } finally {
      signal.removeEventListener("abort", abort);
      this.#job = undefined;
      if (!this.ended) this.#worker.unref();
    }
  }

  /** Ends it, whatever it does. Resolves when nothing of it runs any more. */
  async end(): Promise<void> {
    if (!this.ended) {
      this.ended = true;
      // An idle Worker keeps no program running; waiting for its end must.
      this.#worker.ref();
      this.#worker.terminate();
    }
    await this.#closed.promise;
  }

  #received(message: FromWorker): void {
    if (message.t === "ask") void this.#answer(message.id, message.paths);
    else if (message.t === "done") this.#job?.resolve(message.answer);
    else this.#fail(new SyscallError(message.code, message.message));
  }

  async #answer(id: number, paths: string[]): Promise<void> {
    const job = this.#job;
    if (!job) return;
    try {
      this.#post({ t: "verdict", id, allowed: await job.allows(paths) });
    } catch (thrown) {
      if (this.#job !== job) return;
      job.reject(thrown);
      await this.end();
    }
  }

  #fail(error: SyscallError): void {
    this.#job?.reject(error);
  }

  #post(message: ToWorker): void {
    if (!this.ended) this.#worker.postMessage(message);
  }
}

function broken(why: string): SyscallError {
  return new SyscallError("CLOSED", `The search was ended before its answer: ${why}.`);
}
