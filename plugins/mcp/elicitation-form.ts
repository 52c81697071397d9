/** The form of an MCP server's question to the user, as questions of ours and as its answer. */

import type { Ask, AskQuestion, AskReply } from "rnix/plugin";
import { z } from "zod";

const Choices = z.array(z.object({ const: z.string(), title: z.string().optional() })).optional();
const Names = z.array(z.string()).optional();
const Field = z.object({
  type: z.string().optional(),
  title: z.string().optional(),
  description: z.string().optional(),
  enum: Names,
  oneOf: Choices,
  items: z.object({ enum: Names, anyOf: Choices }).optional(),
});
type Field = z.infer<typeof Field>;
export const Form = z.object({ properties: z.record(z.string(), Field), required: Names });
type Form = z.infer<typeof Form>;

const YES = "Yes";
/** Of one list. */
const MAX_QUESTIONS = 10;

/** One question for each field; for a form without fields, whether to agree. */
function questionsOf(asker: string, { properties }: Form): AskQuestion[] {
  const fields = Object.entries(properties);
  if (fields.length === 0) return [{ question: asker, options: [{ label: YES }, { label: "No" }] }];
  return fields.map(([name, field]) => ({
    question: [`${asker}\n${field.title ?? name}`, field.description].filter(Boolean).join(": "),
    header: (field.title ?? name).slice(0, 30),
    options: labels(field).map((label) => ({ label })),
    multi_select: field.type === "array",
  }));
}

/** Asks in lists of MAX_QUESTIONS. Returns null when the user has declined, or left out a field that is required. */
export async function askedForm(ask: Ask, asker: string, form: Form): Promise<Record<string, Value> | null> {
  const questions = questionsOf(asker, form);
  const answers: AskReply["answers"] = [];
  for (let at = 0; at < questions.length; at += MAX_QUESTIONS) {
    const reply = await ask.ask(questions.slice(at, at + MAX_QUESTIONS));
    if (reply.by !== "user") return null;
    answers.push(...reply.answers);
  }
  return contentOf(form, answers);
}

function contentOf(
  { properties, required = [] }: Form,
  answers: AskReply["answers"],
): Record<string, Value> | null {
  const fields = Object.entries(properties);
  if (fields.length === 0) return answers[0]?.answer[0] === YES ? {} : null;
  const content: Record<string, Value> = {};
  for (const [index, [name, field]] of fields.entries()) {
    const answer = answers[index]?.answer ?? [];
    if (answer.length > 0) content[name] = fieldValue(field, answer);
    else if (required.includes(name)) return null;
  }
  return content;
}

type Value = string | number | boolean | string[];

function fieldValue(field: Field, answer: string[]): Value {
  const [first = ""] = answer;
  if (field.type === "boolean") return first === YES;
  // What is no number is for the server to refuse.
  if (field.type === "number" || field.type === "integer")
    return Number.isNaN(Number(first)) ? first : Number(first);
  const choices = field.oneOf ?? field.items?.anyOf ?? [];
  const values = answer.map((label) => choices.find(({ title }) => title === label)?.const ?? label);
  return field.type === "array" ? values : (values[0] ?? "");
}

function labels({ type, enum: names, oneOf, items }: Field): string[] {
  if (type === "boolean") return [YES, "No"];
  const choices = oneOf ?? items?.anyOf;
  return choices?.map((choice) => choice.title ?? choice.const) ?? names ?? items?.enum ?? [];
}
