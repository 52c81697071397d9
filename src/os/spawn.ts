/** Starts one program with pipes or a terminal. */

import { closeSync } from "node:fs";
import { type ExecRequest, SyscallError } from "../plugin/index.ts";
import { type Channel, type Exit, exitOf, openChannel } from "./channel.ts";
import { readLink } from "./linux-table.ts";
import type { ByteReader } from "./pipe-reader.ts";
import { spawnError } from "./spawn-error.ts";
import { inputPipe, outputPipe, readerOf, type Stdin, stdinData, terminalInput, writerOf } from "./stdio.ts";
import { settles } from "./wait.ts";

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

/** Output of a program that ends within this time is read after its end. */
const SHORT_MS = 10;

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
  const proc = Bun.spawn(argv, {
    cwd,
    env,
    detached: true,
    stdio: ["ignore", output, output, ...inherit],
  });
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
    const firstLook = settles(exited, SHORT_MS);
    return {
      pid: proc.pid,
      exited,
      streams: [
        { fd: 1, reader: readerOf(pipes.out, proc.stdout, firstLook) },
        { fd: 2, reader: readerOf(pipes.err, proc.stderr, firstLook) },
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
  let closed: () => void = () => {};
  const terminalClosed = new Promise<void>((resolve) => {
    closed = resolve;
  });
  const proc = Bun.spawn(request.argv, {
    cwd,
    env,
    detached: true,
    terminal: { data: (_, data) => onTerminal(data.slice()), exit: () => closed() },
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
    terminalClosed,
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
