/** `/dev/tty`: asks the user questions, for the tool AskUser. */

import { type AskQuestion, definePlugin, defineTool, SyscallError } from "rnix/plugin";
import { isObject } from "./_lib/json.ts";

const OPTION = {
  anyOf: [
    { type: "string" },
    {
      type: "object",
      properties: { label: { type: "string" }, description: { type: "string" } },
      required: ["label"],
      additionalProperties: false,
    },
  ],
} as const;

const askUser = defineTool({
  name: "AskUser",
  defer: true,
  description:
    "Ask the user 1 to 10 questions at once, when only the user can decide and a wrong guess would cost much. The user sees `options` as a list (several may be chosen with `multi_select`) and can always answer in their own words. `default` counts when no answer comes. If the user cannot be asked, the result says what to do.",
  input: {
    type: "object",
    properties: {
      questions: {
        type: "array",
        minItems: 1,
        items: {
          type: "object",
          properties: {
            question: { type: "string", minLength: 1 },
            header: { type: "string", description: "One to three words for a small space." },
            options: { type: "array", items: OPTION, description: "Labels, or {label, description}." },
            multi_select: { type: "boolean" },
            default: {
              anyOf: [{ type: "string" }, { type: "array", items: { type: "string" } }],
              description: "The label of an option (several with multi_select), or a text.",
            },
          },
          required: ["question"],
          additionalProperties: false,
        },
      },
    },
    required: ["questions"],
    additionalProperties: false,
  },
  // It changes nothing; a resume asks again, or takes the answer that has come.
  annotations: { readOnlyHint: true, idempotentHint: true },
  needs: ["ask"],
  async run({ questions }, { ask }) {
    if (!Array.isArray(questions)) throw wrong("questions", "a list of questions");
    return JSON.stringify(await ask.ask(questions.map(questionOf)));
  },
});

export default definePlugin({ name: "tty", tools: [askUser] });

/** A write to the device itself is not checked against the tool's schema. */
function questionOf(asked: unknown, i: number): AskQuestion {
  const where = `questions[${i}]`;
  if (!isObject(asked)) throw wrong(where, "an object with a question");
  const { question, header, options = [], multi_select, default: usual } = asked;
  if (typeof question !== "string") throw wrong(`${where}.question`, "a text");
  if (!Array.isArray(options)) throw wrong(`${where}.options`, "a list");
  return {
    question,
    options: options.map((option, n) => optionOf(option, `${where}.options[${n}]`)),
    multi_select: multi_select === true,
    ...(typeof header === "string" && header !== "" && { header }),
    ...(isDefault(usual) && usual.length > 0 && { default: usual }),
  };
}

function optionOf(option: unknown, where: string): { label: string; description?: string } {
  if (typeof option === "string") return { label: option };
  if (!isObject(option) || typeof option.label !== "string")
    throw wrong(where, "a label or {label, description}");
  const { label, description } = option;
  return { label, ...(typeof description === "string" && { description }) };
}

function isDefault(value: unknown): value is string | string[] {
  return typeof value === "string" || (Array.isArray(value) && value.every((one) => typeof one === "string"));
}

function wrong(where: string, expected: string): SyscallError {
  return new SyscallError("INVALID", `AskUser: ${where}: expected ${expected}.`);
}
