/** Reads the lines that programs write to a FIFO. */

import { closeSync, constants, fstatSync, lstatSync, openSync, readSync } from "node:fs";
import { dirname } from "node:path";
import type { Timer } from "../../lib/clock.ts";
import { errnoOf } from "../../lib/error-detail.ts";
import { type ProgramPorts, runShortProgram } from "../../os/short-program.ts";
import { SyscallError } from "../../plugin/index.ts";
import { makeHooksFolder } from "./hooks-folder.ts";

const MAX_LINE = 64 * 1024;
/** How often a FIFO is read. A blocking read would hold a thread. */
const FIFO_MS = 300;
/** The wait after a fault of a FIFO. */
const RETRY_MS = 3000;
const MKFIFO_MS = 10_000;

interface FifoPorts extends ProgramPorts {
  warn(text: string): void;
}

/** Reads lines of a FIFO without ever waiting in a system call. One that was removed is replaced by a new one. */
export class Fifo {
  readonly #dataDir: string;
  readonly #path: string;
  readonly #ports: FifoPorts;
  readonly #line: (text: string) => Promise<unknown>;
  #fd: number | undefined;
  #timer: Timer | undefined;
  #text = "";
  /** Lines that are not accepted yet. */
  #pending: string[] = [];
  #closed = false;
  /** The last fault: it is reported once. */
  #warned = "";
  readonly #decoder = new TextDecoder();

  constructor(dataDir: string, path: string, ports: FifoPorts, line: (text: string) => Promise<unknown>) {
    this.#dataDir = dataDir;
    this.#path = path;
    this.#ports = ports;
    this.#line = line;
    void this.#read();
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#release();
  }

  #release(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  async #open(): Promise<void> {
    const folder = dirname(this.#path);
    makeHooksFolder(this.#dataDir);
    if (!lstatSync(this.#path, { throwIfNoEntry: false })) {
      const argv = ["mkfifo", "-m", "600", this.#path];
      const program = { argv, cwd: folder, env: {}, timeoutMs: MKFIFO_MS, maxChars: 0 };
      await runShortProgram(this.#ports, "cron", program);
    }
    if (this.#closed) return;
    if (!lstatSync(this.#path).isFIFO())
      throw new SyscallError("INVALID", "expected a FIFO. Remove what is there.");
    // Open for writing too: else it ends with its first writer.
    this.#fd = openSync(this.#path, constants.O_RDWR | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  }

  /** The path leads to the FIFO that is open. */
  #isThere(): boolean {
    if (this.#fd === undefined) return false;
    return lstatSync(this.#path, { throwIfNoEntry: false })?.ino === fstatSync(this.#fd).ino;
  }

  async #read(): Promise<void> {
    let wait = FIFO_MS;
    try {
      if (this.#pending.length === 0) this.#pending = this.#lines();
      for (let [line] = this.#pending; line !== undefined && !this.#closed; [line] = this.#pending) {
        if (line.trim() !== "") await this.#line(line);
        this.#pending.shift();
      }
      if (!this.#closed && !this.#isThere()) {
        this.#release();
        await this.#open();
      }
      this.#warned = "";
    } catch (thrown) {
      const text = `${this.#path}: ${String(thrown)}`;
      if (text !== this.#warned) this.#ports.warn(text);
      this.#warned = text;
      wait = RETRY_MS;
    }
    if (!this.#closed) this.#timer = this.#ports.clock.timer(wait, () => void this.#read());
  }

  #lines(): string[] {
    const bytes = new Uint8Array(MAX_LINE);
    if (this.#fd === undefined) return [];
    let got = 0;
    try {
      got = readSync(this.#fd, bytes);
    } catch (error) {
      if (errnoOf(error) !== "EAGAIN") throw error;
    }
    if (got === 0) return [];
    this.#text += this.#decoder.decode(bytes.subarray(0, got), { stream: true });
    const parts = this.#text.split("\n");
    const rest = parts.pop() ?? "";
    this.#text = rest.slice(0, MAX_LINE);
    return parts;
  }
}
