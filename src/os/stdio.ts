import { closeSync, readlinkSync } from "node:fs";
import type { FileSink } from "bun";
import { type Data, SyscallError } from "../plugin/index.ts";
import { libc } from "./libc.ts";
import { type ByteReader, PipeReader } from "./pipe-reader.ts";

export interface Stdin {
  /** Resolves when the system has taken all of it; rejects when nobody will read it any more. */
  write(data: Data): Promise<void>;
  /** Called once. Frees our end. */
  end(): Promise<void>;
}

/**
 * A pipe between a program and us. Bun's own "pipe" is a socket, and on Linux a program can't open
 * /dev/stdout, /dev/stderr or /dev/stdin when that is a socket, as scripts do. So there it is a real pipe;
 * elsewhere, and when no descriptor is left, it is Bun's.
 */
interface StdioPipe {
  /** Given to the program. */
  theirs: number;
  ours: number;
  /** As /proc/<pid>/fd shows it, the same at both ends. */
  link: string;
}

export function outputPipe(): StdioPipe | null {
  const ends = libc()?.pipe();
  return ends ? { theirs: ends.write, ours: ends.read, link: linkOf(ends.read) } : null;
}

export function inputPipe(): StdioPipe | null {
  const ends = libc()?.pipe();
  return ends ? { theirs: ends.read, ours: ends.write, link: linkOf(ends.read) } : null;
}

/** Bytes given at once lie in memory for the program; none is /dev/null. */
export function stdinData(data: Data | undefined): Uint8Array<ArrayBuffer> | "ignore" {
  if (data === undefined || data.length === 0) return "ignore";
  return typeof data === "string" ? new TextEncoder().encode(data) : new Uint8Array(data);
}

/** `firstLook` as PipeReader has it. */
export function readerOf(pipe: StdioPipe | null, own: unknown, firstLook: Promise<unknown>): ByteReader {
  const calls = libc();
  if (pipe && calls) return new PipeReader(pipe.ours, firstLook, calls.readable);
  if (!(own instanceof ReadableStream))
    throw new SyscallError("INTERNAL", "The program was started without a way to read its output.");
  return own.getReader();
}

export function writerOf(pipe: StdioPipe | null, own: FileSink | number | undefined): Stdin {
  const sink = pipe ? Bun.file(pipe.ours).writer() : own;
  if (typeof sink !== "object")
    throw new SyscallError("INTERNAL", "The program was started without a way to write its input.");
  return {
    async write(data) {
      await Promise.all([sink.write(data), sink.flush()]);
    },
    async end() {
      await Promise.resolve(sink.end()).catch(ignoreBrokenPipe);
      if (pipe) closeSync(pipe.ours);
    },
  };
}

/** A terminal's input ends with a character. */
export function terminalInput(terminal: Bun.Terminal): Stdin {
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

/** The program had closed its input before: it is ended all the same. */
function ignoreBrokenPipe(error: unknown): void {
  if (!(error instanceof Error && "code" in error && error.code === "EPIPE")) throw error;
}

function linkOf(fd: number): string {
  return readlinkSync(`/proc/self/fd/${fd}`);
}
