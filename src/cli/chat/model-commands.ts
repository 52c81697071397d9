/** The commands /model, /effort and /agent of a conversation. */

import { nearestName } from "../../lib/edit-distance.ts";
import { EFFORTS } from "../../plugin/index.ts";
import type { ModelWire } from "../../protocol/methods.ts";
import { usageError } from "../exit.ts";
import { project } from "../io.ts";
import { formatCount, oneLine } from "../output/format.ts";
import type { ChatActions } from "./actions.ts";
import { YES_NO } from "./picker.ts";

const ABOUT_WIDTH = 200;

export async function model(chat: ChatActions, args: string): Promise<void> {
  const current = await currentModel(chat);
  const { models } = await chat.link.request("list_models", project(chat.io));
  const chosen = args === "" ? await pickModel(chat, models, current) : await namedModel(chat, args, models);
  if (chosen === null) return;
  const { provider, model } = chosen;
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

type Named = { provider?: string; model: string };

async function pickModel(
  chat: ChatActions,
  models: readonly ModelWire[],
  current: Partial<Named> | null,
): Promise<Named | null> {
  if (models.length === 0) {
    chat.print(await runsOn(chat));
    return null;
  }
  const isCurrent = (one: Named): boolean =>
    one.provider === current?.provider && one.model === current?.model;
  const choices = models
    .toSorted((a, b) => Number(isCurrent(b)) - Number(isCurrent(a)))
    .map((one) => ({
      value: one,
      label: `${one.provider}/${one.model}`,
      about: [...(isCurrent(one) ? ["in use"] : []), ...factsOf(one)].join(", "),
    }));
  return chat.pick("Which model?", choices);
}

/** Fails for a model that the service does not list; asks where there is no list to know it by. */
async function namedModel(
  chat: ChatActions,
  args: string,
  models: readonly ModelWire[],
): Promise<Named | null> {
  const named = splitModel(args, await providerNames(chat));
  const provider = named.provider ?? (await currentModel(chat))?.provider;
  const known = models.filter((one) => one.provider === provider);
  if (known.some(({ model }) => model === named.model)) return named;
  const shown = JSON.stringify(named.model);
  if (known.some(({ from }) => from === "service")) {
    const near = nearestName(
      named.model,
      known.map(({ model }) => model),
    );
    const hint = near === undefined ? "" : `did you mean ${near}? `;
    throw usageError(`${provider} has no model ${shown}: ${hint}/model lists its models`);
  }
  const isMeant = await chat.pick(`No list of ${provider ?? "a provider"} has ${shown}. Use it?`, YES_NO);
  return isMeant === true ? named : null;
}

/** null: a new conversation has none yet. */
async function currentModel(chat: ChatActions): Promise<Partial<Named> | null> {
  if (chat.uuid !== null) return chat.link.request("show", { uuid: chat.uuid });
  return chosenModel(chat);
}

export async function effort(chat: ChatActions, args: string): Promise<void> {
  const now =
    chat.uuid === null ? chat.options.effort : (await chat.link.request("show", { uuid: chat.uuid })).effort;
  const choices = EFFORTS.map((value) => ({ value, label: value, about: value === now ? "in use" : "" }));
  const wanted = EFFORTS.find((one) => one === args);
  if (args !== "" && wanted === undefined)
    throw usageError(`/effort takes ${EFFORTS.join(", ")}; got ${JSON.stringify(args)}`);
  const chosen =
    wanted ?? (await chat.pick(`How much is the model to think? Now: ${now ?? "its own default"}`, choices));
  if (chosen === null) return;
  if (chat.uuid === null) {
    chat.options.effort = chosen;
    chat.print(`effort of the new conversation: ${chosen}`);
    return;
  }
  const { applied } = await chat.link.request("set_model", { uuid: chat.uuid, effort: chosen });
  chat.print(`effort: ${chosen}${applied ? "" : ", from the next step on"}`);
}

export async function effortValues(): Promise<{ value: string; about: string }[]> {
  return EFFORTS.map((value) => ({ value, about: "" }));
}

/** The model and agent of a new conversation, or that there is none. */
export async function runsOn(chat: NewConversation): Promise<string> {
  const chosen = await chosenModel(chat);
  if (chosen === null) return "no provider can be used yet: rnix setup";
  const { provider, model = "a model that must be named" } = chosen;
  return `${provider}/${model}, agent ${chat.options.agent ?? "default"}`;
}

type NewConversation = Pick<ChatActions, "link" | "io" | "options">;

async function chosenModel({ link, io, options }: NewConversation): Promise<Partial<Named> | null> {
  const { providers } = await link.request("list_providers", project(io));
  const named = options.provider ?? io.env.RNIX_PROVIDER;
  const chosen = providers.find((one) => (named ? one.name === named : one.chosen));
  if (chosen === undefined) return null;
  return { provider: chosen.name, model: options.model ?? io.env.RNIX_MODEL ?? chosen.model ?? undefined };
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
  return models.map((one) => ({ value: `${one.provider}/${one.model}`, about: factsOf(one).join(", ") }));
}

function factsOf({ context_window, price }: ModelWire): string[] {
  return [
    ...(context_window === null ? [] : [`${formatCount(context_window)} tokens`]),
    ...(price === null ? [] : [`$${price.input}/$${price.output} per million`]),
  ];
}

export async function agent(chat: ChatActions, name: string): Promise<void> {
  const known = await agentValues(chat);
  if (name === "") {
    const list = known.map(({ value, about }) => `  ${value}  ${about}`).join("\n");
    chat.print(`agent of a new conversation: ${chat.options.agent ?? "default"}\n${list}`);
    return;
  }
  if (!known.some(({ value }) => value === name)) {
    throw usageError(`there is no agent ${JSON.stringify(name)}: /agent lists them`);
  }
  chat.options.agent = name;
  if (chat.uuid === null) return chat.print(`agent: ${name}`);
  const { uuid } = chat;
  await chat.begin();
  chat.print(`your next message begins a new conversation with ${name}; /resume ${uuid} returns to this one`);
}

export async function agentValues(chat: ChatActions): Promise<{ value: string; about: string }[]> {
  const { agents } = await chat.link.request("list_agents", project(chat.io));
  return agents.map(({ name, description }) => ({ value: name, about: oneLine(description, ABOUT_WIDTH) }));
}
