import type { Child, ExecRequest, ExitInfo } from "../../plugin/index.ts";

/** What the kernel itself lets run in a process's name: its checks, and git for what changed. */
export interface ProgramResult {
  exit: ExitInfo;
  /** The end of stdout and stderr together; of stdout alone when they are kept apart. */
  output: string;
  /** The end of stderr when it is kept apart; "" otherwise. */
  errors: string;
}

/**
 * Runs a program to its end, which the signal brings about, and keeps the last `tailBytes` of what it printed.
 * `apart`: stderr is kept apart from stdout.
 */
export async function runProgram(
  exec: (request: ExecRequest) => Promise<Child>,
  request: ExecRequest,
  tailBytes: number,
  signal?: AbortSignal,
  { apart = false }: { apart?: boolean } = {},
): Promise<ProgramResult> {
  const child = await exec(request);
  // The end of its owner ends it once more, and says what goes wrong with that.
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
  readonly #most: number;
  readonly #decoder = new TextDecoder();
  #text = "";

  constructor(most: number) {
    this.#most = most;
  }

  add(data: Uint8Array): void {
    this.#text += this.#decoder.decode(data, { stream: true });
    if (this.#text.length > 2 * this.#most) this.#text = this.text();
  }

  text(): string {
    return this.#text.slice(-this.#most);
  }
}
