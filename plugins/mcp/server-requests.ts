/** What an MCP server may ask of its client: every request is answered at once by policy, unless the server may ask. */

import {
  type Client,
  type ClientCapabilities,
  type CreateMessageRequest,
  ProtocolError,
  ProtocolErrorCode,
} from "@modelcontextprotocol/client";
import type { Ask, AskQuestion, AskReply, OpenContext } from "rnix/plugin";
import { z } from "zod";
import type { ServerSettings } from "./settings.ts";

/** Characters of a server's question in the notice about it. */
const MAX_QUESTION = 300;
/** Answers of the model for one server and call. */
const MAX_SAMPLES = 10;

export interface OpenCall {
  context: OpenContext;
  notices: Set<string>;
  samples: number;
}

/** What the requests of a server need. */
export interface Asked {
  /** The call that the server asks in; undefined where there is none, or more than one: the protocol does not show which. */
  call(): OpenCall | undefined;
  /** A notice about a request, for the log and for the calls that are open. */
  notice(text: string): void;
}

/** Elicitation is announced even where it is declined, so that a server gets an answer instead of failing. */
export function capabilitiesOf({ sampling }: ServerSettings): ClientCapabilities {
  return { elicitation: { form: {}, url: {} }, ...(sampling === "allow" && { sampling: {} }) };
}

export function answerRequests(client: Client, settings: ServerSettings, asked: Asked): void {
  client.setRequestHandler("elicitation/create", async ({ params }) => {
    const isForm = "requestedSchema" in params;
    const question = isForm ? params.message : `${params.message} (${params.url})`;
    const { context } = settings.elicitation === "ask" ? (asked.call() ?? {}) : {};
    if (context?.ask && !context.process.operator) {
      const form = Form.parse(isForm ? params.requestedSchema : { properties: {} });
      const content = await askedForm(context.ask, `MCP server ${settings.name}: ${question}`, form);
      if (content) return isForm ? { action: "accept", content } : { action: "accept" };
      asked.notice(`The MCP server asked the user ${quoted(question)}. There was no answer.`);
      return { action: "decline" };
    }
    asked.notice(
      `The MCP server asked the user ${quoted(question)}. It was declined: a run does not wait for answers to servers.`,
    );
    return { action: "decline" };
  });
  if (settings.sampling === "allow")
    client.setRequestHandler("sampling/createMessage", ({ params }) => sample(params, settings, asked));
  // Not announced: a server that asks for it anyway is refused.
  client.fallbackRequestHandler = async ({ method }) => {
    asked.notice(
      `The MCP server asked its client for ${quoted(method)}. It was refused: servers get no model and no folders here.`,
    );
    throw new ProtocolError(ProtocolErrorCode.MethodNotFound, `${method} is not offered`);
  };
}

/** One answer of the run's own model, within the run's budget. */
async function sample(params: CreateMessageRequest["params"], { name }: ServerSettings, asked: Asked) {
  const call = asked.call();
  if (!call?.context.llm || ++call.samples > MAX_SAMPLES) {
    asked.notice(
      "The MCP server asked for an answer of the model. It was refused: no call of its own, or too many.",
    );
    throw new ProtocolError(ProtocolErrorCode.InvalidRequest, "no answer of the model is available now");
  }
  const prompt = params.messages
    .map(({ role, content }) => `[${role}]\n${[content].flat().map(textOf).join("\n")}`)
    .join("\n\n");
  const system = `The MCP server ${name} asks for the next answer in this conversation.\n${params.systemPrompt ?? ""}`;
  const { text } = await call.context.llm.ask({ prompt, system, max_output: params.maxTokens });
  asked.notice("The MCP server got an answer of the model.");
  const model = "the model of the run";
  return { model, role: "assistant" as const, content: { type: "text" as const, text } };
}

function textOf(block: { type: string; text?: unknown }): string {
  return typeof block.text === "string" ? block.text : `[${block.type}]`;
}

function quoted(question: string): string {
  return JSON.stringify(question.slice(0, MAX_QUESTION));
}

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
const Form = z.object({ properties: z.record(z.string(), Field), required: Names });
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
async function askedForm(ask: Ask, asker: string, form: Form): Promise<Record<string, Value> | null> {
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
