/** Answers the questions of a run at the terminal, and asks for yes or no. */

import { type Io, isAskable, type Wire } from "../io.ts";
import type { SendAnswer } from "../output/run-output.ts";
import type { Follower } from "../run/follow.ts";

/** `connect` gives a connection for one answer. Returns a function that asks no more. */
export async function answerQuestions(
  io: Io,
  follower: Follower,
  connect: () => Promise<Wire>,
): Promise<() => void> {
  if (!isAskable(io)) return () => undefined;
  const send: SendAnswer = async (request_id, answers) => {
    const wire = await connect();
    try {
      await wire.request("answer_user", { request_id, answers, via: "terminal" });
    } finally {
      wire.close();
    }
  };
  if (follower.view.answerWith) {
    follower.view.answerWith(send);
    return () => undefined;
  }
  const { QuestionPrompt } = await import("./question-prompt.ts");
  const prompt = new QuestionPrompt(io, { send, say: (line) => follower.view.say(line) });
  follower.answerWith(prompt);
  return () => prompt.close();
}

/** Without an answer in this time, the answer is no. */
const ANSWER_MS = 5 * 60_000;

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
