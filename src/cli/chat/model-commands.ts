/** The commands /model and /agent of a conversation. */

import { SyscallError } from "../../plugin/index.ts";
import { project } from "../io.ts";
import { formatCount, oneLine } from "../output/format.ts";
import type { ChatActions } from "./actions.ts";

/** Columns kept of an agent's description. */
const ABOUT_WIDTH = 200;

export async function model(chat: ChatActions, args: string): Promise<void> {
  const { provider, model } = splitModel(args, await providerNames(chat));
  if (args === "") {
    chat.print(await currentModel(chat));
    return;
  }
  if (chat.uuid !== null) {
    const env = chat.options.env;
    const set = await chat.link.request("set_model", { uuid: chat.uuid, provider, model, env });
    chat.print(`model: ${set.provider}/${set.model}${set.applied ? "" : ", from the next step on"}`);
    return;
  }
  chat.options.provider = provider ?? chat.options.provider;
  chat.options.model = model;
  chat.print(`model of the new conversation: ${[provider, model].filter(Boolean).join("/")}`);
}

async function currentModel(chat: ChatActions): Promise<string> {
  if (chat.uuid === null) return `a new conversation runs on ${await runsOn(chat)}`;
  const { provider, model } = await chat.link.request("show", { uuid: chat.uuid });
  return `model: ${provider}/${model}`;
}

/** The model and agent of a new conversation, or that there is none. */
export async function runsOn(chat: Pick<ChatActions, "link" | "io" | "options">): Promise<string> {
  const { providers } = await chat.link.request("list_providers", project(chat.io));
  const named = chat.options.provider ?? chat.io.env.RNIX_PROVIDER;
  const chosen = providers.find((one) => (named ? one.name === named : one.chosen));
  if (chosen === undefined) return "no provider can be used yet: rnix setup";
  const model = chat.options.model ?? chat.io.env.RNIX_MODEL ?? chosen.model ?? "a model that must be named";
  return `${chosen.name}/${model}, agent ${chat.options.agent ?? "default"}`;
}

async function providerNames(chat: ChatActions): Promise<string[]> {
  const { providers } = await chat.link.request("list_providers", project(chat.io));
  return providers.map(({ name }) => name);
}

/** `openai/gpt-5` names both; a slash may also be a part of a model's name. */
function splitModel(args: string, providers: readonly string[]): { provider?: string; model: string } {
  const cut = args.indexOf("/");
  const provider = args.slice(0, Math.max(0, cut));
  return providers.includes(provider) ? { provider, model: args.slice(cut + 1) } : { model: args };
}

export async function modelValues(chat: ChatActions): Promise<{ value: string; about: string }[]> {
  const { models } = await chat.link.request("list_models", project(chat.io));
  return models.map(({ provider, model, context_window, price }) => ({
    value: `${provider}/${model}`,
    about: [
      ...(context_window === null ? [] : [`${formatCount(context_window)} tokens`]),
      ...(price === null ? [] : [`$${price.input}/$${price.output} per million`]),
    ].join(", "),
  }));
}

export async function agent(chat: ChatActions, name: string): Promise<void> {
  const known = await agentValues(chat);
  if (name === "") {
    const list = known.map(({ value, about }) => `  ${value}  ${about}`).join("\n");
    chat.print(`agent of a new conversation: ${chat.options.agent ?? "default"}\n${list}`);
    return;
  }
  if (!known.some(({ value }) => value === name)) {
    throw new SyscallError("INVALID", `there is no agent ${JSON.stringify(name)}: /agent lists them`);
  }
  chat.options.agent = name;
  if (chat.uuid === null) {
    chat.print(`agent: ${name}`);
    return;
  }
  const { uuid } = chat;
  await chat.begin();
  chat.print(`your next message begins a new conversation with ${name}; /resume ${uuid} returns to this one`);
}

export async function agentValues(chat: ChatActions): Promise<{ value: string; about: string }[]> {
  const { agents } = await chat.link.request("list_agents", project(chat.io));
  return agents.map(({ name, description }) => ({ value: name, about: oneLine(description, ABOUT_WIDTH) }));
}
