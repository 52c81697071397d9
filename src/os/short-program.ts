/** Runs a short program of the server itself, such as a gate or a notification. It belongs to no run. */

import { type Clock, onceAborted } from "../lib/clock.ts";
import type { ExecRequest } from "../plugin/index.ts";
import type { Children } from "./children.ts";

export interface ProgramPorts {
  children: Pick<Children, "exec">;
  clock: Clock;
  /** The absolute path of a folder. Such a program writes nothing there. */
  spillDir: string;
}

interface ShortProgram extends Pick<ExecRequest, "argv" | "stdin"> {
  /** Absolute. */
  cwd: string;
  env: Record<string, string>;
  timeoutMs: number;
  /** Characters of stdout, and of stderr, that are returned. */
  maxChars: number;
  /** Ends a program that prints more. */
  endsAtMax?: boolean;
  /** Ends the program when it aborts. */
  signal?: AbortSignal;
}

interface ProgramEnd {
  /** null: a signal ended it. */
  code: number | null;
  signal: string | null;
  timedOut: boolean;
  stdout: string;
  stderr: string;
  /** The program printed more on stdout than was read. */
  isCut: boolean;
}

/** The command line of a shell command. */
export function shell(command: string): string[] {
  return ["/bin/sh", "-c", command];
}

/** Runs the program to its end. `owner` names it in the list of programs. Its output is never on disk. */
export async function runShortProgram(
  { children, clock, spillDir }: ProgramPorts,
  owner: string,
  { maxChars, endsAtMax = false, signal: stopping, ...request }: ShortProgram,
): Promise<ProgramEnd> {
  const child = await children.exec(
    { uuid: owner, spillDir, clock },
    { ...request, maxOutput: 0, life: "process" },
  );
  const ignore = stopping && onceAborted(stopping, () => void child.kill());
  const decoders = { 1: new TextDecoder(), 2: new TextDecoder() };
  const text = { 1: "", 2: "" };
  try {
    for (let piece = await child.read(); piece !== null; piece = await child.read()) {
      const { fd, data } = piece;
      if (text[fd].length <= maxChars) text[fd] += decoders[fd].decode(data, { stream: true });
      if (endsAtMax && text[1].length > maxChars) {
        await child.kill();
        break;
      }
    }
    const { code, signal, timedOut } = await child.exited();
    const [stdout, stderr] = [text[1].slice(0, maxChars), text[2].slice(0, maxChars)];
    return { code, signal, timedOut, stdout, stderr, isCut: text[1].length > maxChars };
  } finally {
    ignore?.();
  }
}
