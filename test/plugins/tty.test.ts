import { expect } from "bun:test";
import type { Ask, AskQuestion } from "../../src/plugin/index.ts";
import { describePlugin } from "../support/conformance/plugin.ts";

/** Answers each question with what it was asked. */
const ask: Ask = {
  ask: async (questions: AskQuestion[]) => ({
    answers: questions.map((one) => ({ question: one.question, answer: [JSON.stringify(one)] })),
    by: "user",
  }),
};

function asked(answer: string): unknown[] {
  const { answers }: { answers: { answer: [string] }[] } = JSON.parse(answer);
  return answers.map(({ answer: [text] }) => JSON.parse(text));
}

describePlugin("tty", () => import("../../plugins/tty.ts"), {
  setup: () => ({ ask }),
  operations: [
    {
      title: "asks what the seeds' format has: options are labels, and no op is needed",
      device: "/dev/tty",
      input: { questions: [{ question: "Which?", options: ["A", "B"], multi_select: false }] },
      answer: (answer) =>
        expect(asked(answer)).toEqual([
          { question: "Which?", options: [{ label: "A" }, { label: "B" }], multi_select: false },
        ]),
    },
    {
      title: "asks several, with descriptions, headers and defaults",
      device: "/dev/tty",
      input: {
        op: "AskUser",
        questions: [
          {
            question: "Which?",
            header: "H",
            options: [{ label: "A", description: "the first" }, "B"],
            multi_select: true,
            default: ["A", "B"],
          },
          { question: "Why?", default: "so" },
        ],
      },
      answer: (answer) =>
        expect(asked(answer)).toEqual([
          {
            question: "Which?",
            header: "H",
            options: [{ label: "A", description: "the first" }, { label: "B" }],
            multi_select: true,
            default: ["A", "B"],
          },
          { question: "Why?", options: [], multi_select: false, default: "so" },
        ]),
    },
    ...[
      ["no questions", {}],
      ["a question that is no object", { questions: ["Which?"] }],
      ["a question without a text", { questions: [{ options: ["A"] }] }],
      ["options that are no list", { questions: [{ question: "Which?", options: "A" }] }],
      ["an option without a label", { questions: [{ question: "Which?", options: [{ description: "x" }] }] }],
    ].map(([title, input]) => ({
      title: `refuses ${title}`,
      device: "/dev/tty",
      input: input as object,
      error: "INVALID" as const,
    })),
  ],
});
