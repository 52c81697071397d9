/** `rnix answer`: answers a question of a run. */

import { LONGEST_MS } from "../../lib/clock.ts";
import { splitToolRules } from "../../lib/tool-rules.ts";
import type { AskAnswer } from "../../protocol/methods.ts";
import type { Answers } from "../../server/methods/method-table.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, json, list } from "../flags.ts";
import { environment, type Io, isAskable, refuseInsideRun, withWire } from "../io.ts";
import { printable } from "../output/format.ts";
import { jsonText, print } from "../output/print.ts";
import type { Style } from "../output/style.ts";
import { agreed } from "../questions/answer-questions.ts";
import { headLines, Question, questionLines } from "../questions/question.ts";
import { answerHint, isLong, wholeLines } from "../questions/question-text.ts";

type Listed = Answers["list_asks"]["asks"][number];
type Answered = Answers["answer_user"];

export default defineCommand({
  about: "Answer a question of a run; a suspended run is resumed by it",
  args: [
    { name: "ID", about: "the question's id, or the beginning of one; rnix asks lists them" },
    {
      name: "ANSWER",
      about:
        "yes, always or no, then an instruction or a reason; for questions of the model one answer each: a number, a label, several with commas, or a text. Without it, a terminal asks, and elsewhere the question is shown",
      optional: true,
      many: true,
    },
  ],
  flags: {
    project: bool("with always: in every run of this project, not only in this run"),
    rule: list("with always: this rule in place of the offered one", "RULE"),
    read: bool(
      "you have read all that you allow; without a terminal a yes needs it where rnix asks shows a part, and always does",
    ),
    json,
  },
  examples: {
    "rnix answer 1f3a9c02": "asks at a terminal; elsewhere shows the question and its choices",
    "rnix answer 1f3a9c02 yes": "this one call",
    'rnix answer 1f3a9c02 no "use the staging server"': "the model reads the reason",
    'rnix answer 1f3a9c02 Postgres 1,3 "before Friday"': "three questions of the model",
    "rnix answer 1f3a9c02 always --project --read": "calls like it are not asked for again in this project",
  },
  notes: [
    "The first answer counts; a later one fails and says so. What always allows is shown with the question; rnix trust --show lists it, rnix trust --ask-again withdraws it.",
  ],
  async run(io, flags, [id = "", ...words]) {
    await refuseInsideRun(io, "answer");
    const given = flags.rule.length > 0 ? "--rule" : flags.project ? "--project" : "";
    if (given !== "" && words[0] !== "always") throw usageError(`${given} goes with always`);
    return withWire(io, async (wire) => {
      const { asks } = await wire.request("list_asks", {});
      const ask = oneOf(asks, id, words.length > 0);
      const send = async (answers: AskAnswer[]): Promise<Answered> =>
        wire.request(
          "answer_user",
          { request_id: ask?.request_id ?? id, answers, via: "rnix answer", env: environment(io) },
          { timeoutMs: null },
        );
      if (words.length === 0 && !ask)
        throw usageError(`no run waits for question ${id}; rnix asks lists the open ones`);
      if (words.length === 0 && ask && (flags.json || !isAskable(io))) {
        return print(io, flags, ask, (style) => questionText(ask, style));
      }
      if (ask?.call && words.length > 0 && !(await isSeen(io, ask, words[0] ?? "", flags))) return EXIT.error;
      const answered =
        words.length === 0 && ask
          ? await asked(io, ask, send)
          : await send(ask ? answersOf(ask, words, flags) : [permissionAnswer(words.slice(0, 2), flags)]);
      if (answered === null) return EXIT.error;
      if (flags.json) io.stdout.write(jsonText(answered));
      else io.stderr.write(`${answeredText(answered)}\n`);
      return answered.problem === undefined ? EXIT.ok : EXIT.error;
    });
  },
});

/** A yes is to what was seen: prints the whole call, and asks once more where `rnix asks` had not shown all that it allows. */
async function isSeen(
  io: Io,
  ask: Listed,
  choice: string,
  { read: isRead, json: isJson, project, rule }: AlwaysFlags & { read: boolean; json: boolean },
): Promise<boolean> {
  const output = isJson ? io.stderr : io.stdout;
  for (const line of wholeLines(ask)) output.write(`${line}\n`);
  const wanted = project ? "always_project" : choice;
  const isOffered = /^always/.test(choice) && rule.length === 0;
  const always = isOffered ? ask.questions[0]?.options.find(({ id }) => id === wanted) : undefined;
  if (always) output.write(`${printable(`${always.label}  ${always.about ?? ""}`)}\n`);
  if (choice === "no" || isRead || !(always || isLong(ask))) return true;
  if (isAskable(io)) return agreed(io, "Is this what you allow?");
  throw usageError(
    `rnix asks does not show all of question ${ask.request_id}: read it above, then answer with --read`,
  );
}

/** Asks at the terminal, until the question expires. null: it was not answered here. */
async function asked(
  io: Io,
  ask: Listed,
  send: (answers: AskAnswer[]) => Promise<Answered>,
): Promise<Answered | null> {
  const { QuestionPrompt } = await import("../questions/question-prompt.ts");
  const { promise, resolve } = Promise.withResolvers<Answered | null>();
  const say = (line: string): void => io.stderr.write(`${line}\n`);
  const prompt = new QuestionPrompt(io, {
    say,
    heldMs: 0,
    async send(_id, answers) {
      try {
        resolve(await send(answers));
      } catch (error) {
        resolve(null);
        throw error;
      }
    },
    ended: () => resolve(null),
  });
  const leftMs = (ask.until_ms ?? Number.POSITIVE_INFINITY) - Date.now();
  const late = io.timer(Math.min(Math.max(0, leftMs), LONGEST_MS), () => {
    say("\nno answer came in time");
    resolve(null);
  });
  prompt.ask(ask);
  try {
    return await promise;
  } finally {
    late.cancel();
    prompt.close();
  }
}

/** The question with this id, or with an id that begins so. */
function oneOf(asks: readonly Listed[], id: string, isAnswered: boolean): Listed | undefined {
  if (id === "") throw usageError("ID is empty: rnix asks lists the open questions");
  const [first, ...more] = asks.filter(({ request_id }) => request_id.startsWith(id));
  if (first?.call && isAnswered && id.length < Math.min(LEAST_ID, first.request_id.length))
    throw usageError(
      `give at least ${LEAST_ID} characters of the id: ${id} may soon begin another question's`,
    );
  if (more.length > 0)
    throw usageError(`${id} begins the ids of ${more.length + 1} questions: give more of it`);
  return first;
}

/** Fewer characters could begin the id of a question that has taken the place of the one that was seen. */
const LEAST_ID = 4;

/** The answers as the arguments give them. */
function answersOf(ask: Listed, words: string[], flags: AlwaysFlags): AskAnswer[] {
  const { kind, questions, request_id } = ask;
  if (kind === "permission") return [permissionAnswer(words, flags)];
  if (words.length !== questions.length) {
    throw usageError(
      `question ${request_id} takes ${questions.length === 1 ? "one answer" : `${questions.length} answers`}, got ${words.length}: put an answer of several words in quotes`,
    );
  }
  return Question.all(ask).map((question, i) => {
    const text = words[i] ?? "";
    const answer = question.read(text);
    if (answer !== null) return answer;
    const labels = question.asked.options.map(({ label }, n) => `${n + 1} ${label}`).join(", ");
    throw usageError(
      `answer ${i + 1}: ${JSON.stringify(text)} is no answer to ${JSON.stringify(question.asked.question)}. Expected ${labels === "" ? "a text" : `a text, or one of: ${labels}`}`,
    );
  });
}

interface AlwaysFlags {
  project: boolean;
  rule: readonly string[];
}

function permissionAnswer([choice = "", text, ...more]: string[], { project, rule }: AlwaysFlags): AskAnswer {
  if (more.length > 0) throw usageError("the instruction or reason is one argument: put it in quotes");
  const rules = rule.flatMap(splitToolRules);
  const choices = [project ? "always_project" : choice];
  return { choices, ...(text && { text }), ...(rules.length > 0 && { rules }) };
}

function questionText(ask: Listed, style: Style): string {
  const head = headLines(ask, style, ` · process ${ask.pid}, in ${ask.project}`);
  const questions = Question.all(ask).flatMap((question) => questionLines(question, style));
  return [...head, ...questions, `  ${answerHint(ask)}`, ""].join("\n");
}

function answeredText({ pid, uuid, resumed, problem }: Answered): string {
  if (problem !== undefined) return `answered, but run ${uuid} was not resumed: ${problem}`;
  return resumed
    ? `answered; the run was resumed as process ${pid}: rnix attach ${pid}`
    : `answered; process ${pid} has it`;
}
