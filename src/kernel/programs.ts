import type { Child, ExecRequest, ExitInfo } from "../plugin/index.ts";

/** What the kernel itself lets run in a process's name: its checks, and git for what changed. */
export interface ProgramResult {
  exit: ExitInfo;
  /** The end of stdout and stderr together. */
  output: string;
}

/** Runs a program to its end and keeps the last `tailBytes` of what it printed. */
export async function runProgram(
  exec: (request: ExecRequest) => Promise<Child>,
  request: ExecRequest,
  tailBytes: number,
): Promise<ProgramResult> {
  const child = await exec(request);
  const decoder = new TextDecoder();
  let output = "";
  for (let piece = await child.read(); piece !== null; piece = await child.read()) {
    output += decoder.decode(piece.data, { stream: true });
    if (output.length > 2 * tailBytes) output = output.slice(-tailBytes);
  }
  return { exit: await child.exited(), output: output.slice(-tailBytes) };
}
