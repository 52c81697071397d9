/** `rnix answer`: answers a question of a run. */

import type { Answers } from "../../server/methods/method-table.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, json } from "../flags.ts";
import { environment, refuseInsideRun, withWire } from "../io.ts";
import { askedLines, askerText, whyLines } from "../output/ask.ts";

type Listed = Answers["list_asks"]["asks"][number];

export default defineCommand({
  about: "Answer a question of a run; a suspended run is resumed by it",
  args: [
    { name: "ID", about: "the question's id, or the beginning of one; rnix asks lists them" },
    {
      name: "CHOICE",
      about: "yes, always, no; or a choice of the question. Without it, the question is shown",
      optional: true,
    },
    {
      name: "TEXT",
      about: "after yes an instruction, after no a reason for the model",
      optional: true,
      sentence: true,
    },
  ],
  flags: { project: bool("with always: in every run of this project, not only in this run"), json },
  examples: [
    { line: "rnix answer 1f3a9c02", about: "shows the question and its choices" },
    { line: "rnix answer 1f3a9c02 yes", about: "this one call" },
    { line: 'rnix answer 1f3a9c02 no "use the staging server"', about: "the model reads the reason" },
    {
      line: "rnix answer 1f3a9c02 always --project",
      about: "calls like it are not asked for again in this project",
    },
  ],
  notes: [
    "The first answer counts; a later one fails and says so. What always allows is shown with the question; rnix trust --show lists it, rnix trust --ask-again withdraws it.",
  ],
  async run(io, flags, [id = "", choice, text]) {
    await refuseInsideRun(io, "answer");
    if (flags.project && choice !== "always") throw usageError("--project goes with always");
    return withWire(io, async (wire) => {
      const { asks } = await wire.request("list_asks", {});
      const ask = oneOf(asks, id);
      if (choice === undefined) {
        if (!ask) throw usageError(`no run waits for question ${id}; rnix asks lists the open ones`);
        io.stdout.write(flags.json ? `${JSON.stringify(ask, null, 2)}\n` : questionText(ask));
        return EXIT.ok;
      }
      const chosen = flags.project ? "always_project" : choice;
      const answers = [{ choices: [chosen], ...(text && { text }) }];
      const answered = await wire.request(
        "answer_user",
        { request_id: ask?.request_id ?? id, answers, via: "rnix answer", env: environment(io) },
        { timeoutMs: null },
      );
      if (flags.json) io.stdout.write(`${JSON.stringify(answered, null, 2)}\n`);
      else io.stderr.write(`${answeredText(answered)}\n`);
      return answered.problem === undefined ? EXIT.ok : EXIT.error;
    });
  },
});

/** The question with this id, or with an id that begins so. */
function oneOf(asks: readonly Listed[], id: string): Listed | undefined {
  if (id === "") throw usageError("ID is empty: rnix asks lists the open questions");
  const found = asks.filter(({ request_id }) => request_id.startsWith(id));
  if (found.length > 1)
    throw usageError(`${id} begins the ids of ${found.length} questions: give more of it`);
  return found[0];
}

function questionText(ask: Listed): string {
  const options = ask.questions.flatMap(({ options: offered }) => offered);
  return [
    `${askerText(ask)}, process ${ask.pid}, in ${ask.project}`,
    ...askedLines(ask).map((line) => `  ${line}`),
    ...whyLines(ask).map((line) => `  ${line}`),
    ...options.map(({ id, label, about }) => {
      const words = id === "always_project" ? "always --project" : id;
      return `rnix answer ${ask.request_id} ${words}   ${label}${about ? ` (${about})` : ""}`;
    }),
    "",
  ].join("\n");
}

function answeredText({ pid, uuid, resumed, problem }: Answers["answer_user"]): string {
  if (problem !== undefined) return `answered, but run ${uuid} was not resumed: ${problem}`;
  return resumed
    ? `answered; the run was resumed as process ${pid}: rnix attach ${pid}`
    : `answered; process ${pid} has it`;
}
