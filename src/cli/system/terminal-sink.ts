/** Writes to a terminal that may take its data late. */

type Fs = typeof import("node:fs");

/** What an output writes to. */
export interface Sink {
  write(data: string | Uint8Array): unknown;
  flush(): unknown;
  /** Blocks until the data is taken, or for a moment. */
  flushNow?(): void;
}

/** Pause before the next try when the terminal takes no data, in ms. It doubles each time. */
const FIRST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 50;
/** How long the end of a process waits for the terminal. */
const LAST_WORDS_MS = 200;

/**
 * Writes to a terminal without blocking. A terminal that is stopped (Ctrl-S) or hangs takes no data, and a blocking
 * write, such as that of Bun's own sink, would block the kernel of a --no-daemon command. The terminal is opened again
 * because O_NONBLOCK on the inherited descriptor would also change the shell's.
 */
export class TerminalSink implements Sink {
  readonly #fs: Fs;
  readonly #fd: number;
  #unwritten: Uint8Array[] = [];
  #flushed: PromiseWithResolvers<void> | undefined;
  #pauseMs = FIRST_PAUSE_MS;

  private constructor(fs: Fs, fd: number) {
    this.#fs = fs;
    this.#fd = fd;
  }

  /** null where it can't be opened: without /proc, or as another user. */
  static open(fs: Fs, fd: number): TerminalSink | null {
    const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = fs.constants;
    try {
      return new TerminalSink(fs, fs.openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY));
    } catch {
      return null;
    }
  }

  write(data: string | Uint8Array): void {
    this.#unwritten.push(typeof data === "string" ? Buffer.from(data) : data);
  }

  /** A promise when the terminal does not take everything now. */
  flush(): Promise<void> | number {
    if (this.#flushed) return this.#flushed.promise;
    if (this.#takesAll()) return 0;
    this.#flushed = Promise.withResolvers();
    this.#later();
    return this.#flushed.promise;
  }

  /** Blocks until the terminal has taken everything; a terminal that takes nothing is given up after a moment. */
  flushNow(): void {
    const until = performance.now() + LAST_WORDS_MS;
    while (!this.#takesAll() && performance.now() < until) Bun.sleepSync(FIRST_PAUSE_MS);
  }

  #later(): void {
    setTimeout(() => this.#again(), this.#pauseMs);
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2);
  }

  #again(): void {
    const flushed = this.#flushed;
    try {
      if (!this.#takesAll()) return void this.#later();
      this.#flushed = undefined;
      flushed?.resolve();
    } catch (error) {
      this.#unwritten = [];
      this.#flushed = undefined;
      flushed?.reject(error);
    }
  }

  #takesAll(): boolean {
    for (let first = this.#unwritten[0]; first !== undefined; first = this.#unwritten[0]) {
      const taken = this.#taken(first);
      if (taken > 0) this.#pauseMs = FIRST_PAUSE_MS;
      if (taken < first.length) {
        this.#unwritten[0] = first.subarray(taken);
        return false;
      }
      this.#unwritten.shift();
    }
    return true;
  }

  #taken(bytes: Uint8Array): number {
    try {
      return this.#fs.writeSync(this.#fd, bytes);
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "EAGAIN") return 0;
      throw error;
    }
  }
}
