/** Starts one program with pipes or a terminal. */

import { closeSync, readlinkSync, readSync } from "node:fs";
import type { FileSink } from "bun";
import { errnoOf } from "../lib/error-detail.ts";
import { type Data, type ExecRequest, SyscallError } from "../plugin/index.ts";
import { type Channel, openChannel } from "./channel.ts";
import { libc } from "./libc.ts";
import { readLink } from "./process-table.ts";
import { type Exit, exitOf, settles } from "./signal.ts";
import { spawnError } from "./spawn-error.ts";

/** A started program, the leader of its own session and group. */
export interface Spawned {
  pid: number;
  exited: Promise<Exit>;
  /** A reader for each output stream; empty if the program has a terminal. */
  streams: { fd: 1 | 2; reader: ByteReader }[];
  /** With a terminal: settles when no process holds it any more. */
  terminalClosed: Promise<void>;
  stdin: Stdin | null;
  pipes: string[];
  /** Our ends of its output pipes. */
  outputs: number[];
  /** The channel of a program that exchanges messages with this process. */
  channel?: Channel;
  /** Closes our ends. Called once, after it has ended and its output was read. */
  release(): void;
}

type Environment = Record<string, string>;

/** A request of the kernel itself. */
export interface SpawnRequest extends ExecRequest {
  /** An open file that gets stdout and stderr, instead of our pipes: the program can outlive this process. */
  output?: number;
  /** It exchanges messages with this process, and prints nowhere. */
  onMessage?(message: unknown): void;
  /** Descriptors that the program gets as 3, 4 and so on, with `output` or `onMessage`. */
  inherit?: number[];
  /** It starts programs and gives them marks. */
  givesMarks?: boolean;
}

/** How long a look at the pipes of a program waits for its end, and how many there are before the pipes are watched. */
const LOOK_MS = 10;
const LOOKS = 10;

/** Starts a program in its own session and group. The request must be complete: there are no defaults. */
export function spawn(
  request: SpawnRequest,
  cwd: string,
  env: Environment,
  onTerminal: (data: Uint8Array) => void,
): Spawned {
  try {
    if (request.onMessage) return spawnWithChannel(request, request.onMessage, cwd, env);
    if (request.output !== undefined) return spawnWithFile(request, request.output, cwd, env);
    return request.pty ? spawnWithTerminal(request, cwd, env, onTerminal) : spawnWithPipes(request, cwd, env);
  } catch (cause) {
    if (cause instanceof SyscallError) throw cause;
    throw spawnError(cause, request.argv, cwd, env.PATH);
  }
}

function spawnWithFile(
  { argv, inherit = [] }: SpawnRequest,
  output: number,
  cwd: string,
  env: Environment,
): Spawned {
  const proc = Bun.spawn(argv, { cwd, env, detached: true, stdio: ["ignore", output, output, ...inherit] });
  return { ...WITHOUT_OUTPUT, pid: proc.pid, exited: exitOf(proc) };
}

function spawnWithChannel(
  { argv, inherit, givesMarks }: SpawnRequest,
  onMessage: (message: unknown) => void,
  cwd: string,
  env: Environment,
): Spawned {
  // A starter is beside programs of its run.
  const channel = openChannel(argv, cwd, env, onMessage, { inherit, isTrusted: !givesMarks });
  const { pid, exited } = channel;
  return { ...WITHOUT_OUTPUT, pid, exited, channel };
}

/** The streams of a program without pipes to this process. */
const WITHOUT_OUTPUT = {
  streams: [],
  terminalClosed: Promise.resolve(),
  stdin: null,
  pipes: [],
  outputs: [],
  release() {},
} satisfies Partial<Spawned>;

function spawnWithPipes(request: ExecRequest, cwd: string, env: Environment): Spawned {
  const wantsInput = request.stdin === "pipe";
  const pipes = { in: wantsInput ? inputPipe() : null, out: outputPipe(), err: outputPipe() };
  const open = Object.values(pipes).filter((pipe) => pipe !== null);
  try {
    const proc = Bun.spawn(request.argv, {
      cwd,
      env,
      detached: true,
      stdin: wantsInput ? (pipes.in?.theirs ?? "pipe") : stdinData(request.stdin),
      stdout: pipes.out?.theirs ?? "pipe",
      stderr: pipes.err?.theirs ?? "pipe",
    });
    const exited = exitOf(proc);
    // A program with an input answers to it, at once.
    const looks = new Looks(exited, wantsInput ? 1 : LOOKS);
    return {
      pid: proc.pid,
      exited,
      streams: [
        { fd: 1, reader: readerOf(pipes.out, proc.stdout, looks) },
        { fd: 2, reader: readerOf(pipes.err, proc.stderr, looks) },
      ],
      terminalClosed: Promise.resolve(),
      stdin: wantsInput ? writerOf(pipes.in, proc.stdin) : null,
      pipes: open.map((pipe) => pipe.link),
      outputs: [pipes.out, pipes.err].flatMap((pipe) => (pipe ? [pipe.ours] : [])),
      release() {
        for (const pipe of [pipes.out, pipes.err]) if (pipe) closeSync(pipe.ours);
      },
    };
  } catch (error) {
    for (const pipe of open) closeSync(pipe.ours);
    throw error;
  } finally {
    for (const pipe of open) closeSync(pipe.theirs);
  }
}

function spawnWithTerminal(
  request: ExecRequest,
  cwd: string,
  env: Environment,
  onTerminal: (data: Uint8Array) => void,
): Spawned {
  const closed = Promise.withResolvers<void>();
  const proc = Bun.spawn(request.argv, {
    cwd,
    env,
    detached: true,
    terminal: { data: (_, data) => onTerminal(data.slice()), exit: () => closed.resolve() },
  });
  const { terminal } = proc;
  if (!terminal) throw new SyscallError("UNAVAILABLE", "This system gives no terminal. Run it without pty.");
  const stdin = terminalInput(terminal);
  if (request.stdin !== undefined && request.stdin !== "pipe")
    void stdin.write(request.stdin).then(stdin.end);
  return {
    pid: proc.pid,
    exited: exitOf(proc),
    streams: [],
    terminalClosed: closed.promise,
    stdin: request.stdin === "pipe" ? stdin : null,
    pipes: terminalOf(proc.pid),
    outputs: [],
    release: () => terminal.close(),
  };
}

/** Returns the terminal as /proc shows it; empty when the program has already ended, or without /proc. */
function terminalOf(pid: number): string[] {
  const link = readLink(`/proc/${pid}/fd/1`);
  return link?.startsWith("/dev/pts/") ? [link] : [];
}

interface Stdin {
  /** Resolves when the system has accepted all bytes; rejects when the program has closed its input. */
  write(data: Data): Promise<void>;
  /** Closes this end. Called once. */
  end(): Promise<void>;
}

/**
 * A real pipe on Linux. Bun's own "pipe" is a socket, and scripts can't open /dev/stdout, /dev/stderr or /dev/stdin
 * when it is a socket. On other systems, and when no descriptor is left, Bun's is used.
 */
interface StdioPipe {
  /** The program's end. */
  theirs: number;
  ours: number;
  /** Its name in /proc/<pid>/fd, equal at both ends. */
  link: string;
}

export function outputPipe(): StdioPipe | null {
  const ends = libc()?.pipe();
  return ends
    ? { theirs: ends.write, ours: ends.read, link: readlinkSync(`/proc/self/fd/${ends.read}`) }
    : null;
}

function inputPipe(): StdioPipe | null {
  const pipe = outputPipe();
  return pipe && { ...pipe, theirs: pipe.ours, ours: pipe.theirs };
}

/** Returns input that is complete at the start; without any, stdin is /dev/null. */
function stdinData(data: Data | undefined): Uint8Array<ArrayBuffer> | "ignore" {
  if (data === undefined || data.length === 0) return "ignore";
  return typeof data === "string" ? new TextEncoder().encode(data) : new Uint8Array(data);
}

export function readerOf(pipe: StdioPipe | null, own: unknown, looks: Looks): ByteReader {
  const calls = libc();
  if (pipe && calls) return new PipeReader(pipe.ours, looks, calls.readable);
  if (!(own instanceof ReadableStream))
    throw new SyscallError("INTERNAL", "The program was started without a way to read its output.");
  return own.getReader();
}

function writerOf(pipe: StdioPipe | null, own: FileSink | number | undefined): Stdin {
  const sink = pipe ? Bun.file(pipe.ours).writer() : own;
  if (typeof sink !== "object")
    throw new SyscallError("INTERNAL", "The program was started without a way to write its input.");
  return {
    async write(data) {
      await Promise.all([sink.write(data), sink.flush()]);
    },
    async end() {
      await Promise.resolve(sink.end()).catch((error: unknown) => {
        // The program has closed its input already.
        if (errnoOf(error) !== "EPIPE") throw error;
      });
      if (pipe) closeSync(pipe.ours);
    },
  };
}

/** Returns the input of a terminal, which ends with a control character. */
function terminalInput(terminal: Bun.Terminal): Stdin {
  return {
    async write(data) {
      terminal.write(data);
    },
    async end() {
      if (!terminal.closed) terminal.write(END_OF_TRANSMISSION);
    },
  };
}

const END_OF_TRANSMISSION = "\x04";

/** Reads bytes as they come, one read at a time. */
export interface ByteReader {
  read(): Promise<{ done: boolean; value?: Uint8Array }>;
  cancel(): Promise<void>;
  /** Returns true when bytes, or the end, have not been read yet. Absent where the system does not show it. */
  hasUnread?(): boolean;
}

/** When the pipes of a program are looked at: at its end, and a few times before. Its pipes share them. */
export class Looks {
  readonly #exited: Promise<unknown>;
  #left: number;
  #next: Promise<boolean> | undefined;

  constructor(exited: Promise<unknown>, count = LOOKS) {
    this.#exited = exited;
    this.#left = count;
  }

  /** null: it runs for longer. */
  next(): Promise<unknown> | null {
    if (this.#next) return this.#next;
    if (this.#left === 0) return null;
    this.#left -= 1;
    this.#next = settles(this.#exited, LOOK_MS).finally(() => {
      this.#next = undefined;
    });
    return this.#next;
  }
}

/**
 * Most programs end within milliseconds and print little: their output is read at once after their end. For a program
 * that keeps running, the event loop watches the pipe. Such a stream costs some turns of the loop, and 256 KiB until
 * the next full garbage collection: a busy machine runs no program to its end within the first look.
 */
class PipeReader implements ByteReader {
  readonly #fd: number;
  readonly #looks: Looks;
  readonly #readable: (fd: number) => boolean;
  #hasLooked = false;
  #stream: ByteReader | undefined;
  #cancelled = false;
  #ended = false;

  /**
   * The caller closes `fd` after `cancel`. `readable` returns true when a read would return at once, with bytes or the
   * end.
   */
  constructor(fd: number, looks: Looks, readable: (fd: number) => boolean) {
    this.#fd = fd;
    this.#looks = looks;
    this.#readable = readable;
  }

  async read(): Promise<{ done: boolean; value?: Uint8Array }> {
    const piece = await this.#next();
    if (piece.done) this.#ended = true;
    return piece;
  }

  hasUnread(): boolean {
    return !this.#ended && !this.#cancelled && this.#readable(this.#fd);
  }

  async #next(): Promise<{ done: boolean; value?: Uint8Array }> {
    while (!this.#stream) {
      if (this.#cancelled) return { done: true };
      if (this.#hasLooked && this.#readable(this.#fd)) {
        const size = readSync(this.#fd, buffer);
        return size === 0 ? { done: true } : { done: false, value: buffer.slice(0, size) };
      }
      this.#hasLooked = true;
      const look = this.#looks.next();
      if (look) await look;
      else this.#stream = Bun.file(this.#fd).stream().getReader();
    }
    return this.#stream.read();
  }

  async cancel(): Promise<void> {
    this.#cancelled = true;
    await this.#stream?.cancel();
  }
}

/** The size of a pipe. Shared by all readers: each copies from it synchronously. */
const buffer = new Uint8Array(64 * 1024);
