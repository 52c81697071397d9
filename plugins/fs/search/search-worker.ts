/** The kernel's end of a Worker that searches. */

import { SyscallError } from "rnix/plugin";
import type { Allows } from "./permitted-files.ts";
import type { FromWorker, SearchRequest, ToWorker } from "./search.ts";

/** Set by build.ts; in source mode the name does not exist. */
declare const RNIX_SEARCH_WORKER: string | undefined;

const WORKER_URL =
  typeof RNIX_SEARCH_WORKER === "string" ? RNIX_SEARCH_WORKER : new URL("./worker.ts", import.meta.url).href;

interface Job {
  allows: Allows;
  resolve(answer: string): void;
  reject(error: unknown): void;
}

/** One search Worker: the kernel's side. It does one search at a time. */
export class SearchWorker {
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
    switch (message.t) {
      case "ask":
        void this.#answer(message.id, message.paths);
        break;
      case "done":
        this.#job?.resolve(message.answer);
        break;
      case "failed":
        this.#job?.reject(new SyscallError(message.code, message.message));
        break;
    }
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
