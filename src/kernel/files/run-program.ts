/** Runs one program to its end for the kernel: a check, or git. */

import { onceAborted } from "../../lib/clock.ts";
import { TextTail } from "../../lib/text-tail.ts";
import type { Child, ExecRequest, ExitInfo } from "../../plugin/index.ts";

interface ProgramResult {
  exit: ExitInfo;
  /** The end of stdout and stderr together. */
  output: string;
}

/** Waits for the program's end; the signal ends it earlier. Returns the last `maxChars` of its output. */
export async function runProgram(
  exec: (request: ExecRequest) => Promise<Child>,
  request: ExecRequest,
  maxChars: number,
  signal?: AbortSignal,
): Promise<ProgramResult> {
  const decoder = new TextDecoder();
  const output = new TextTail(maxChars);
  const take = (_fd: number, data: Uint8Array): void => output.add(decoder.decode(data, { stream: true }));
  const exit = await readToEnd(await exec(request), take, signal);
  return { exit, output: output.text };
}

/** Reads all output of a program and waits for its end; the signal ends it earlier. */
export async function readToEnd(
  child: Child,
  take: (fd: number, data: Uint8Array) => void,
  signal?: AbortSignal,
): Promise<ExitInfo> {
  // The end of its owner ends it again and reports an error of that.
  const end = (): void => void child.kill().catch(() => undefined);
  const ignore = signal && onceAborted(signal, end);
  try {
    for (let piece = await child.read(); piece !== null; piece = await child.read()) {
      take(piece.fd, piece.data);
    }
    return await child.exited();
  } finally {
    ignore?.();
  }
}
