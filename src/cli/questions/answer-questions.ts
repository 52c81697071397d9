/** Asks a run's questions where a person can answer them: in the live view, or as plain lines. */

import type { Io, Wire } from "../io.ts";
import type { SendAnswer } from "../output/run-output.ts";
import type { Follower } from "../run/follow.ts";
import { isAskable } from "./yes-or-no.ts";

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
