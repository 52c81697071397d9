/** The terminal of this process: its size, keys and signals. */

import type { ReadStream } from "node:tty";
import type { Keys, Terminal, TerminalSize } from "../io.ts";
import type { Sink } from "./terminal-sink.ts";

/** Without a size, as in a terminal that a program opened and never set. */
const USUAL = { columns: 80, rows: 24 };

const MAX_READ = 4096;

/** The terminal of this process, for what draws there. */
export class SystemTerminal implements Terminal {
  readonly #sink: Sink;
  #flushing: Promise<void> | undefined;
  closed = false;

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  size(): TerminalSize {
    try {
      const [columns, rows] = process.stdout.getWindowSize();
      return columns > 0 && rows > 0 ? { columns, rows } : USUAL;
    } catch {
      return USUAL; // The window was closed.
    }
  }

  onResize(f: () => void): () => void {
    process.on("SIGWINCH", f);
    return () => process.off("SIGWINCH", f);
  }

  write(text: string): void {
    if (this.closed || text === "") return;
    try {
      this.#sink.write(text);
      const flushed = this.#sink.flush();
      if (!(flushed instanceof Promise)) return;
      const flushing = flushed.then(
        () => undefined,
        () => this.#gone(),
      );
      this.#flushing = flushing;
      flushing.finally(() => {
        if (this.#flushing === flushing) this.#flushing = undefined;
      });
    } catch {
      this.#gone();
    }
  }

  get isBehind(): boolean {
    return this.#flushing !== undefined;
  }

  async drained(): Promise<void> {
    await this.#flushing;
  }

  writeNow(text: string): void {
    if (this.closed) return;
    try {
      this.#sink.write(text);
      if (this.#sink.flushNow) this.#sink.flushNow();
      else this.#sink.flush();
    } catch {
      this.#gone();
    }
  }

  readKeys(f: (bytes: Uint8Array) => void): Keys | null {
    const tty = process.getBuiltinModule("node:tty");
    if (!tty.isatty(0)) return null;
    return new SystemKeys(new tty.ReadStream(0), f);
  }

  isForeground(): boolean {
    // Other systems say it only by a call of the C library: there, a command in the background draws.
    if (process.platform !== "linux") return true;
    const stat = process.getBuiltinModule("node:fs").readFileSync("/proc/self/stat", "latin1");
    const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return group === foreground;
  }

  /** The window was closed, or the disk behind a recording is full. There is no place left to report it. */
  #gone(): void {
    this.closed = true;
  }
}

/**
 * Reads the terminal by a descriptor of its own, so that reading ends when it is closed and what is left can be taken
 * without waiting: nothing that was typed is left for the shell or for an editor.
 */
class SystemKeys implements Keys {
  readonly #mode: ReadStream;
  readonly #fd: number | null;
  /** Ends the reading; the descriptor may be closed after it. */
  readonly #cancel: () => Promise<void>;
  #closed = false;

  constructor(mode: ReadStream, f: (bytes: Uint8Array) => void) {
    this.#mode = mode;
    const fs = process.getBuiltinModule("node:fs");
    this.#fd = openAgain(fs);
    mode.setRawMode(true);
    if (this.#fd === null) {
      mode.on("data", f);
      mode.unref();
      this.#cancel = async () => void mode.off("data", f).pause();
      return;
    }
    const reader = Bun.file(this.#fd).stream().getReader();
    this.#cancel = () => reader.cancel();
    const next = async (): Promise<void> => {
      for (;;) {
        const { value, done } = await reader.read();
        if (done || this.#closed) return;
        f(value);
      }
    };
    // EIO: the window was closed, which the signal HUP reports too.
    next().catch(() => this.close());
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    const fs = process.getBuiltinModule("node:fs");
    const closeAgain = () => this.#fd !== null && fs.closeSync(this.#fd);
    this.#cancel().then(closeAgain, closeAgain);
    if (this.#fd !== null) dropTyped(fs, this.#fd);
    try {
      this.#mode.setRawMode(false);
    } catch {
      // The window was closed: there is no mode to restore.
    }
  }
}

/** Takes what was typed and not read. */
function dropTyped(fs: typeof import("node:fs"), fd: number): void {
  const dropped = new Uint8Array(MAX_READ);
  try {
    while (fs.readSync(fd, dropped) > 0);
  } catch {
    // EAGAIN: nothing is left. Any other error: nothing can be read.
  }
}

/** O_NONBLOCK on the inherited descriptor would also change the shell's. null where it can't be opened. */
function openAgain(fs: typeof import("node:fs")): number | null {
  const { O_RDONLY, O_NONBLOCK, O_NOCTTY } = fs.constants;
  try {
    return fs.openSync("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY);
  } catch {
    return null;
  }
}
