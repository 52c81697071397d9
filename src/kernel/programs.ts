import type { Child, ExecRequest, ExitInfo } from "../plugin/index.ts";

/** What the kernel itself lets run in a process's name: its checks, and git for what changed. */
export interface ProgramResult {
  exit: ExitInfo;
  /** The end of stdout and stderr together. */
  output: string;
}

/** Runs a program to its end, which the signal brings about, and keeps the last `tailBytes` of what it printed. */
export async function runProgram(
  exec: (request: ExecRequest) => Promise<Child>,
  request: ExecRequest,
  tailBytes: number,
  signal?: AbortSignal,
): Promise<ProgramResult> {
  const child = await exec(request);
  // The end of its owner ends it once more, and says what goes wrong with that.
  const end = (): void => void child.kill().catch(() => undefined);
  signal?.addEventListener("abort", end, { once: true });
  if (signal?.aborted) end();
  try {
    return await collect(child, tailBytes);
  } finally {
    signal?.removeEventListener("abort", end);
  }
}

async function collect(child: Child, tailBytes: number): Promise<ProgramResult> {
  const decoder = new TextDecoder();
  let output = "";
  for (let piece = await child.read(); piece !== null; piece = await child.read()) {
    output += decoder.decode(piece.data, { stream: true });
    if (output.length > 2 * tailBytes) output = output.slice(-tailBytes);
  }
  return { exit: await child.exited(), output: output.slice(-tailBytes) };
}
