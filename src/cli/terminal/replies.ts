/** Questions to the terminal, whose answers arrive among the keys. */

import type { Clock } from "../../lib/clock.ts";
import type { Terminal } from "../io.ts";

interface Question {
  take(reply: string): void;
}

/** Terminals whose keys are read. */
const readers = new Map<Terminal, Set<Question>>();

/** The answer to "what kind of terminal are you" (DA2) ends every question. */
const LAST = /^\u001b\[>[\d;]*c$/;
const REPLY = /^(?:\u001b\[[>?][\d;]*c|\u001bP>\|.*)$/s;

/** Keys are read now, so that answers are read too. Returns a function that ends it and says whether one was due. */
export function answersAreRead(terminal: Terminal): () => boolean {
  const questions = new Set<Question>();
  readers.set(terminal, questions);
  return () => {
    const isDue = questions.size > 0;
    for (const question of questions) question.take("");
    readers.delete(terminal);
    return isDue;
  };
}

/** Takes what is an answer of the terminal and not a key. */
export function takeReply(terminal: Terminal, data: string): boolean {
  if (!REPLY.test(data)) return false;
  for (const question of readers.get(terminal) ?? []) question.take(data);
  return true;
}

export function canAsk(terminal: Terminal): boolean {
  return readers.has(terminal);
}

/** Returns all answers up to DA2's, or what came until the time was over. */
export function askTerminal(
  terminal: Terminal,
  query: string,
  o: { clock: Clock; ms: number },
): Promise<string> {
  const questions = readers.get(terminal);
  if (questions === undefined) return Promise.resolve("");
  const { promise, resolve } = Promise.withResolvers<string>();
  let replies = "";
  const end = (): void => {
    questions.delete(question);
    timer.cancel();
    resolve(replies);
  };
  const question: Question = {
    take(reply) {
      replies += reply;
      if (reply === "" || LAST.test(reply)) end();
    },
  };
  const timer = o.clock.timer(o.ms, end);
  questions.add(question);
  terminal.write(query);
  return promise;
}
