/** The derived index: its Worker, started when something is searched and ended when it is idle. */

import { type Clock, realClock, type Timer } from "../../lib/clock.ts";
import { expected } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { RecordKey } from "../runs/record-key.ts";
import type { AnswerOf, FromIndexWorker, OperationName, RequestOf } from "./requests.ts";

/** Set by build.ts; in source mode the name does not exist. */
declare const RNIX_INDEX_WORKER: string | undefined;

/** How long an idle Worker stays. */
const IDLE_MS = 60_000;
const REQUEST_MS = 15_000;
/** How long the Worker may take to close its databases. */
const CLOSE_MS = 2_000;
/** More starts within a minute mean that the Worker can't work. */
const MAX_STARTS = 5;
const STARTS_MS = 60_000;

interface SearchIndexOptions {
  key: RecordKey;
  warn(text: string): void;
  clock?: Clock;
  limits?: { idleMs?: number; requestMs?: number };
}

interface Waiting {
  resolve(answer: unknown): void;
  reject(error: SyscallError): void;
}

/** Sends requests to the Worker. A Worker that ends or hangs is replaced, because every request can be repeated. */
export class SearchIndex {
  readonly #options: SearchIndexOptions;
  readonly #clock: Clock;
  #link: WorkerLink | undefined;
  #idle: Timer | undefined;
  #busy = 0;
  #starts: number[] = [];
  #closed = false;

  constructor(options: SearchIndexOptions) {
    this.#options = options;
    this.#clock = options.clock ?? realClock;
  }

  get isRunning(): boolean {
    return this.#link !== undefined;
  }

  /** The answer of the Worker. Fails with UNAVAILABLE when the index can't work, and with TIMEOUT at the deadline. */
  async ask<Name extends OperationName>(
    name: Name,
    request: RequestOf<Name>,
    ms: number = this.#options.limits?.requestMs ?? REQUEST_MS,
  ): Promise<AnswerOf<Name>> {
    this.#idle?.cancel();
    this.#busy++;
    try {
      return await this.#once(name, request, ms).catch((error: SyscallError) => {
        // The Worker ended during the request: one more attempt starts another.
        if (error.code !== "CLOSED" || this.#closed) throw error;
        return this.#once(name, request, ms);
      });
    } finally {
      if (--this.#busy === 0) this.#armIdle();
    }
  }

  /** Ends the Worker. Later requests fail with CLOSED. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#idle?.cancel();
    await this.#endLink();
  }

  async #once<Name extends OperationName>(
    name: Name,
    request: RequestOf<Name>,
    ms: number,
  ): Promise<AnswerOf<Name>> {
    const link = this.#started();
    const timer = this.#clock.timer(ms, () => {
      link.end(
        new SyscallError("TIMEOUT", `The index did not answer within ${ms} ms. Try again.`, {
          retryable: true,
        }),
      );
    });
    try {
      return await link.ask(name, request);
    } finally {
      timer.cancel();
    }
  }

  #started(): WorkerLink {
    if (this.#closed) throw new SyscallError("CLOSED", "Rnix is shutting down, so nothing is searched.");
    if (this.#link && !this.#link.ended) return this.#link;
    const now = this.#clock.monotonic();
    this.#starts = this.#starts.filter((at) => now - at < STARTS_MS);
    if (this.#starts.length >= MAX_STARTS) {
      const message = `The index has ended unexpectedly ${MAX_STARTS} times within a minute. Try again in a minute; the daemon's log has the reason.`;
      throw new SyscallError("UNAVAILABLE", message);
    }
    this.#starts.push(now);
    this.#link = new WorkerLink(this.#options.key, (why) => this.#options.warn(`the index ended: ${why}`));
    return this.#link;
  }

  #armIdle(): void {
    this.#idle?.cancel();
    this.#idle = this.#clock.timer(this.#options.limits?.idleMs ?? IDLE_MS, () => void this.#endIdle());
  }

  async #endIdle(): Promise<void> {
    const isBusy = await this.#link?.ask("isBusy", {}).catch(() => false);
    if (this.#busy > 0 || this.#closed) return;
    if (isBusy) return this.#armIdle();
    // It ended because it was idle, so its start does not count.
    this.#starts = [];
    await this.#endLink();
  }

  async #endLink(): Promise<void> {
    const link = this.#link;
    this.#link = undefined;
    if (!link || link.ended) return;
    const timer = this.#clock.timer(CLOSE_MS, () => link.end(closed()));
    try {
      await link.ask("close", {}).catch(expected);
    } finally {
      timer.cancel();
      link.end(closed());
      await link.gone;
    }
  }
}

/** One Worker and the requests that wait for its answers. */
class WorkerLink {
  ended = false;
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  readonly #gone = Promise.withResolvers<void>();
  #lastId = 0;

  constructor(key: RecordKey, onCrash: (why: string) => void) {
    const url =
      typeof RNIX_INDEX_WORKER === "string"
        ? RNIX_INDEX_WORKER
        : new URL("./index-worker.ts", import.meta.url).href;
    this.#worker = new Worker(url, { env: {}, ref: false, name: "index" });
    const crashed = (why: string): void => {
      if (this.ended) return;
      onCrash(why);
      this.end(new SyscallError("CLOSED", `The index ended unexpectedly: ${why}.`, { retryable: true }));
    };
    this.#worker.addEventListener("message", ({ data }: MessageEvent<FromIndexWorker>) =>
      this.#received(data),
    );
    this.#worker.addEventListener("error", ({ message }) => crashed(message));
    this.#worker.addEventListener("close", () => {
      crashed("its Worker was closed");
      this.#gone.resolve();
    });
    this.#worker.postMessage(key.forWorker());
  }

  /** Resolves when its thread has ended. */
  get gone(): Promise<void> {
    return this.#gone.promise;
  }

  async ask<Name extends OperationName>(name: Name, request: RequestOf<Name>): Promise<AnswerOf<Name>> {
    const id = ++this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<AnswerOf<Name>>();
    // Both sides belong to this program and answer by `IndexOperations`.
    this.#waiting.set(id, { resolve: (answer) => resolve(answer as AnswerOf<Name>), reject });
    // The Worker keeps the program running only while requests wait.
    this.#worker.ref();
    this.#worker.postMessage({ id, name, request });
    return promise;
  }

  end(why: SyscallError): void {
    if (this.ended) return;
    this.ended = true;
    // Waiting for its end must keep the program running.
    this.#worker.ref();
    this.#worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(why);
    this.#waiting.clear();
  }

  #received({ id, answer, error }: FromIndexWorker): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0 && !this.ended) this.#worker.unref();
    if (error) waiting?.reject(new SyscallError(error.code, error.message));
    else waiting?.resolve(answer);
  }
}

function closed(): SyscallError {
  return new SyscallError("CLOSED", "The index was closed.");
}
