/** Runs one program to its end for the kernel: a check, or git. */

import type { Child, ExecRequest, ExitInfo } from "../../plugin/index.ts";

interface ProgramResult {
  exit: ExitInfo;
  /** The end of stdout and stderr together; with `apart`, of stdout alone. */
  output: string;
  /** The end of stderr with `apart`; "" otherwise. */
  errors: string;
}

/**
 * Waits for the program's end; the signal ends it earlier. Returns the last `tailBytes` of its output. `apart`: returns
 * stderr separately.
 */
export async function runProgram(
  exec: (request: ExecRequest) => Promise<Child>,
  request: ExecRequest,
  tailBytes: number,
  signal?: AbortSignal,
  { apart = false }: { apart?: boolean } = {},
): Promise<ProgramResult> {
  const child = await exec(request);
  // The end of its owner ends it again and reports an error of that.
  const end = (): void => void child.kill().catch(() => undefined);
  signal?.addEventListener("abort", end, { once: true });
  if (signal?.aborted) end();
  try {
    return await collect(child, tailBytes, apart);
  } finally {
    signal?.removeEventListener("abort", end);
  }
}

async function collect(child: Child, tailBytes: number, apart: boolean): Promise<ProgramResult> {
  const output = new Tail(tailBytes);
  const errors = new Tail(tailBytes);
  for (let piece = await child.read(); piece !== null; piece = await child.read()) {
    (apart && piece.fd === 2 ? errors : output).add(piece.data);
  }
  return { exit: await child.exited(), output: output.text(), errors: errors.text() };
}

class Tail {
  readonly #max: number;
  readonly #decoder = new TextDecoder();
  #text = "";

  constructor(max: number) {
    this.#max = max;
  }

  add(data: Uint8Array): void {
    this.#text += this.#decoder.decode(data, { stream: true });
    if (this.#text.length > 2 * this.#max) this.#text = this.text();
  }

  text(): string {
    return this.#text.slice(-this.#max);
  }
}
