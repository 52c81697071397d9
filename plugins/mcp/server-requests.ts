/** What an MCP server may ask of its client: every request is answered at once by policy, unless the server may ask. */

import {
  type Client,
  type ClientCapabilities,
  type CreateMessageRequest,
  ProtocolError,
  ProtocolErrorCode,
} from "@modelcontextprotocol/client";
import type { OpenContext } from "rnix/plugin";
import { askedForm, Form } from "./elicitation-form.ts";
import type { ServerSettings } from "./settings.ts";

/** Characters of a server's question in the notice about it. */
const MAX_QUESTION = 300;
/** Answers of the model for one server and call. */
const MAX_SAMPLES = 10;

/** A tool call that is open. */
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
