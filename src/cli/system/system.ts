/** The real outside world of the commands. */

import type { Stats } from "node:fs";
import { isHidden } from "../../config/environment/plain-variables.ts";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/errors.ts";
import type { Input, Io, Output } from "../io.ts";
import { isPipeline, PipelineText } from "../output/pipeline-text.ts";
import { SystemTerminal } from "./system-terminal.ts";
import { type Sink, TerminalSink } from "./terminal-sink.ts";
import { terminalText } from "./terminal-text.ts";

/** process.stdout, node:tty and node:fs load longer than `rnix version` takes: each is loaded only where it is needed. */
export function systemIo(): Io {
  const stdin = new SystemInput();
  let terminal: SystemTerminal | undefined;
  const io: Io = {
    env: process.env,
    cwd: process.cwd(),
    stdin,
    stdout: new SystemOutput(1),
    stderr: new SystemOutput(2),
    terminal() {
      if (!io.stdout.isTTY || !io.stderr.isTTY) return null;
      terminal ??= new SystemTerminal(sinkOf(1, true));
      return terminal;
    },
    timer(ms, f) {
      const timer = setTimeout(f, ms);
      return { cancel: () => clearTimeout(timer) };
    },
    onSignal(name, f) {
      process.on(name, f);
      return () => process.off(name, f);
    },
    async session({ question, ...o } = {}) {
      const { openSession } = await import("../../client/session.ts");
      const open = () => openSession({ env: process.env, alone: true, ...o });
      return open().catch(async (thrown: unknown) => {
        const { replaceDaemon } = await import("../daemon/stop-daemon.ts");
        const ask = () => replaceDaemon(io, thrown);
        await (question === undefined ? ask() : question(ask));
        return open();
      });
    },
  };
  return io;
}

class SystemOutput implements Output {
  readonly #fd: 1 | 2;
  #sink: Sink | undefined;
  #flushing: Promise<unknown> = Promise.resolve();
  #terminal: boolean | undefined;
  /** null: what is printed is no pipeline's log. */
  #pipeline: PipelineText | null | undefined;
  closed = false;
  /** Why text was lost, unless the reader closed the output. */
  failure: Error | undefined;

  constructor(fd: 1 | 2) {
    this.#fd = fd;
  }

  get isTTY(): boolean {
    this.#terminal ??= isTerminal(this.#fd);
    return this.#terminal;
  }

  get columns(): number {
    return (this.isTTY ? (this.#fd === 1 ? process.stdout : process.stderr).columns : undefined) ?? 80;
  }

  get file(): { dev: number; ino: number } | undefined {
    const stat = statOf(this.#fd);
    return stat?.isFile() ? { dev: stat.dev, ino: stat.ino } : undefined;
  }

  write(text: string): void {
    // An answer in a pipe is data. All other text is for users and may contain untrusted names and messages.
    const shown = this.#fd === 2 || this.isTTY ? terminalText(text) : text;
    if (this.#pipeline === undefined)
      this.#pipeline = isPipeline(process.env) && !this.file ? new PipelineText() : null;
    this.#take(this.#pipeline?.inert(shown) ?? shown);
  }

  writeBytes(bytes: Uint8Array): void {
    this.#take(bytes);
  }

  #take(shown: string | Uint8Array): void {
    if (this.closed || shown.length === 0) return;
    try {
      if (this.#sink === undefined && this.#fd === 1 && wasClosed(this.#fd))
        throw new Error("stdout is closed; redirect it to /dev/null to drop the answer");
      this.#sink ??= sinkOf(this.#fd, this.isTTY);
      // Data beyond the sink's buffer is written immediately, and that write reports the failure.
      for (const under of [this.#sink.write(shown), this.#sink.flush()]) {
        if (under instanceof Promise)
          this.#flushing = Promise.all([this.#flushing, under]).catch((error) => this.#lost(error));
      }
    } catch (error) {
      this.#lost(error);
    }
  }

  async drained(): Promise<void> {
    await this.#flushing;
    const cause = this.failure;
    this.failure = undefined;
    if (cause) throw new SyscallError("INTERNAL", `could not write the output: ${cause.message}`, { cause });
  }

  #lost(error: unknown): void {
    this.closed = true;
    // EIO: the terminal's window was closed.
    if (/^(?:EPIPE|EIO)$/.test(errnoOf(error) ?? "")) return;
    this.failure = error instanceof Error ? error : new Error(String(error));
  }
}

/** One sink for a terminal that is both stdout and stderr, so that their order is kept. */
function sinkOf(fd: 1 | 2, isTTY: boolean): Sink {
  const device = isTTY ? statOf(fd)?.rdev : undefined;
  if (device === undefined) return (fd === 1 ? Bun.stdout : Bun.stderr).writer();
  const known = terminals.get(device);
  if (known) return known;
  const sink = TerminalSink.open(process.getBuiltinModule("node:fs"), fd);
  if (sink === null) return (fd === 1 ? Bun.stdout : Bun.stderr).writer();
  terminals.set(device, sink);
  return sink;
}

const terminals = new Map<number, TerminalSink>();

class SystemInput implements Input {
  #kind: Input["kind"] | undefined;
  #chunks: AsyncIterator<Uint8Array> | undefined;

  get kind(): Input["kind"] {
    this.#kind ??= kindOfStdin();
    return this.#kind;
  }

  async read(): Promise<Uint8Array | null> {
    if (this.kind === "none") return null;
    this.#chunks ??= Bun.stdin.stream()[Symbol.asyncIterator]();
    const { value, done } = await this.#chunks.next();
    return done ? null : value;
  }
}

function kindOfStdin(): Input["kind"] {
  if (isTerminal(0)) return "tty";
  const stat = statOf(0);
  if (stat?.isFile()) return "file";
  return stat?.isFIFO() || stat?.isSocket() ? "pipe" : "none";
}

/** node:tty loads sockets and streams, so it is used only for what may be a terminal. */
function isTerminal(fd: number): boolean {
  const stat = statOf(fd);
  if (!stat?.isCharacterDevice()) return false;
  return !isNothing(stat) && process.getBuiltinModule("node:tty").isatty(fd);
}

/** Whether it is /dev/null. */
function isNothing({ rdev }: Stats): boolean {
  const { statSync } = process.getBuiltinModule("node:fs");
  return rdev === statSync("/dev/null", { throwIfNoEntry: false })?.rdev;
}

const O_CLOEXEC = 0o2000000;

/**
 * Whether the caller closed it (`>&-`). Bun opens /dev/null in its place, with O_CLOEXEC, which no descriptor has that
 * the caller opened. Always false without /proc.
 */
function wasClosed(fd: number): boolean {
  const stat = statOf(fd);
  if (!stat?.isCharacterDevice() || !isNothing(stat)) return stat === null;
  const { existsSync, readFileSync } = process.getBuiltinModule("node:fs");
  const file = `/proc/self/fdinfo/${fd}`;
  const [, flags = "0"] = (existsSync(file) && /^flags:\s*([0-7]+)/m.exec(readFileSync(file, "utf8"))) || [];
  return (Number.parseInt(flags, 8) & O_CLOEXEC) !== 0;
}

/** null when it was closed by the caller (`<&-`): the same as empty. */
function statOf(fd: number): Stats | null {
  try {
    return process.getBuiltinModule("node:fs").fstatSync(fd);
  } catch (error) {
    if (errnoOf(error) === "EBADF") return null;
    throw error;
  }
}

/**
 * Hides the caller's values from programs of the same user, such as the tools of a run. It overwrites this process's
 * environment and the values of `--env NAME=VALUE` in its command line, which the system shows. It is called after
 * process.argv was read and before the command first waits. `process.env` keeps the values, because Bun has copied
 * them. It imports nothing, since each command pays for it. Linux only.
 */
export async function hideSecrets(): Promise<void> {
  if (process.platform !== "linux") return;
  try {
    overwriteShown(process.getBuiltinModule("node:fs"));
  } catch (thrown) {
    // The system does not let a program write to its own memory by that file.
    if (!(thrown instanceof Error && "code" in thrown)) throw thrown;
    const { scrubEnviron } = await import("../../os/libc.ts");
    scrubEnviron(Object.keys(process.env).filter(isHidden));
  }
}

function overwriteShown({ openSync, closeSync, readFileSync, writeSync }: typeof import("node:fs")): void {
  const stat = readFileSync("/proc/self/stat", "latin1");
  // From the third field on: the second, the program's name, may hold blanks (proc_pid_stat(5)).
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const memory = openSync("/proc/self/mem", "r+");
  try {
    const overwrite = (file: string, field: number, hide: (text: string) => string): void => {
      const text = readFileSync(file, "latin1");
      const hidden = hide(text);
      if (hidden !== text)
        writeSync(memory, Buffer.from(hidden, "latin1"), 0, hidden.length, Number(fields[field]));
    };
    overwrite("/proc/self/environ", ENV_START, (text) =>
      text.replace(VARIABLE, (whole, name: string, value: string) =>
        isHidden(name) ? `${name}=${stars(value)}` : whole,
      ),
    );
    if (process.argv.some((argument) => argument.startsWith("--env")))
      overwrite("/proc/self/cmdline", ARG_START, (text) => text.replace(GIVEN_VALUE, stars));
  } finally {
    closeSync(memory);
  }
}

/** Fields 48 and 50, of which the first two are cut off. */
const ARG_START = 45;
const ENV_START = 47;
/** A word has a zero byte after it. */
const VARIABLE = /([^=\0]+)=([^\0]+)/g;
/** Of `--env NAME=VALUE` and `--env=NAME=VALUE`. */
const GIVEN_VALUE = /(?<=\0--env[=\0][^=\0]*=)[^\0]+/g;

function stars(text: string): string {
  return "*".repeat(text.length);
}
