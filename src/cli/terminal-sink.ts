type Fs = typeof import("node:fs");

/** How long a terminal that takes nothing is left alone before it is tried again, ms: longer each time. */
const FIRST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 50;

/**
 * Writes to a terminal without waiting in it. One that was stopped (Ctrl-S), or whose window hangs, takes nothing,
 * and whoever writes to it as usual stands still with all that he does: with --no-daemon that is the kernel. Bun's
 * own sink does so. Opened anew, because not to wait is a property that we would share with the shell that started us.
 */
export class TerminalSink {
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

  write(text: string): void {
    this.#unwritten.push(Buffer.from(text));
  }

  /** A promise when the terminal does not take everything now. */
  flush(): Promise<void> | number {
    if (this.#flushed === undefined && this.#takesAll()) return 0;
    if (this.#flushed === undefined) {
      this.#flushed = Promise.withResolvers();
      this.#later();
    }
    return this.#flushed.promise;
  }

  #later(): void {
    setTimeout(() => this.#again(), this.#pauseMs);
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2);
  }

  #again(): void {
    const flushed = this.#flushed;
    try {
      if (!this.#takesAll()) {
        this.#later();
        return;
      }
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
