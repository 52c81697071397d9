/** The pipes between a program and this process. */

import { closeSync, readlinkSync } from "node:fs";
import type { FileSink } from "bun";
import { errnoOf } from "../lib/error-detail.ts";
import { type Data, SyscallError } from "../plugin/index.ts";
import { libc } from "./libc.ts";
import { type ByteReader, PipeReader } from "./pipe-reader.ts";

export interface Stdin {
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
  return ends ? { theirs: ends.write, ours: ends.read, link: linkOf(ends.read) } : null;
}

export function inputPipe(): StdioPipe | null {
  const ends = libc()?.pipe();
  return ends ? { theirs: ends.read, ours: ends.write, link: linkOf(ends.read) } : null;
}

/** Returns input that is complete at the start; without any, stdin is /dev/null. */
export function stdinData(data: Data | undefined): Uint8Array<ArrayBuffer> | "ignore" {
  if (data === undefined || data.length === 0) return "ignore";
  return typeof data === "string" ? new TextEncoder().encode(data) : new Uint8Array(data);
}

/** `firstLook`: see `PipeReader`. */
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

/** Returns the input of a terminal, which ends with a control character. */
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

/** The program has closed its input already, which is no error. */
function ignoreBrokenPipe(error: unknown): void {
  if (errnoOf(error) !== "EPIPE") throw error;
}

function linkOf(fd: number): string {
  return readlinkSync(`/proc/self/fd/${fd}`);
}
