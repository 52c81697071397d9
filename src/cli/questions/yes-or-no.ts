/** Asks the user a yes-or-no question at the terminal. */

import type { Io } from "../io.ts";

/** Without an answer in this time, the answer is no. */
const ANSWER_MS = 5 * 60_000;

/** Whether a person can answer at a terminal. */
export function isAskable(io: Io): boolean {
  return io.stdin.kind === "tty" && io.stderr.isTTY && !io.env.CI;
}

/** Asks the user at the terminal and returns whether the answer is yes. */
export async function agreed(io: Pick<Io, "stdin" | "stderr" | "timer">, question: string): Promise<boolean> {
  io.stderr.write(`${question} [y/N] `);
  const { promise: late, resolve } = Promise.withResolvers<null>();
  const timer = io.timer(ANSWER_MS, () => resolve(null));
  try {
    const answer = await Promise.race([io.stdin.read(), late]);
    return answer !== null && /^y(es)?$/i.test(new TextDecoder().decode(answer).trim());
  } finally {
    timer.cancel();
  }
}
