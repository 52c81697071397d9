/** Chooses the provider and model of a run. */

import type { ProviderChoice } from "../../options/definitions.ts";
import { type ListedModel, SyscallError } from "../../plugin/index.ts";
import type { Env } from "../environment/paths.ts";
import { digestText } from "../files/file.ts";
import type { Search } from "./discovery.ts";
import { anthropicModel, type ModelAddress, type ModelFacts, modelFacts } from "./model-facts.ts";
import {
  baseUrl,
  DEVICES,
  defaultsOf,
  deviceOf,
  findProvider,
  keyNames,
  keyOf,
  keyVariable,
  noKey,
  providerNamed,
  providerNames,
  whyUnusable,
} from "./provider-needs.ts";
import type { KeyCommand, Provider } from "./providers.ts";

export interface ProviderRequest extends Omit<Search, "ownModels"> {
  /** Asks a service for its list of models. Absent: no service is asked. */
  listed?(choice: ProviderChoice): Promise<readonly ListedModel[]>;
  /** `--provider`, `--model`. */
  flags?: { provider?: string; model?: string };
  /** What agent.yaml names. */
  agent?: {
    name: string;
    provider?: string;
    model?: string;
    fallback?: readonly string[];
    /** A model of Anthropic, or a name of the Claude Code CLI for one: it counts for these two only. */
    claudeModel?: string;
  };
  /** The choice of the parent run. Its address and key are not in the environment of tools. */
  parent?: ProviderChoice;
  /** The user asked for this provider only. By default true when a flag names it. */
  byFlag?: boolean;
  /** The remaining fallbacks of a resumed run, instead of the agent's. */
  fallback?: readonly Fallback[];
  keys: KeyCommands;
  clock: Search["clock"] & { now(): number };
  /** `context_window` of config.yaml, if a file has it. */
  contextWindow?: number;
}

/** A model that a run uses when the one before it fails. */
interface Fallback {
  provider: string;
  model: string;
}

/** Runs the commands that print keys. */
export interface KeyCommands {
  /** `secrets`: variables that the command must not see. */
  of(command: KeyCommand, env: Env, secrets: readonly string[]): KeySource;
}

/** The key that one command prints, shared by all providers with the same command and folder. */
export interface KeySource {
  /** Identifies the source. Does not depend on the key. */
  id: string;
  /** UNAVAILABLE when the command fails. */
  key(): Promise<string>;
  /** Runs the command again, once for all callers. Returns false when it prints the refused key again. */
  renew(refused: string): Promise<boolean>;
}

/**
 * Chooses the provider, the model and the fallbacks of a run. In this order: flag, RNIX_PROVIDER and RNIX_MODEL,
 * agent.yaml, the parent's choice, the project's and the user's providers.yaml, a search on the machine.
 * Fails with NOT_FOUND for an unknown provider, INVALID without a model, and UNAVAILABLE (exit 69) when nothing is
 * found or the named provider has no key.
 */
export async function resolveProvider(request: ProviderRequest): Promise<ProviderChoice> {
  const { parent, flags } = request;
  // A command in the shell of a replayed run may replay another recording, but not call a model.
  const named = flags?.provider && findProvider(flags.provider, request);
  const isAnother = named ? defaultsOf(named, request).plays === true : false;
  if (parent?.plays && !isAnother) return { ...parent, because: "its parent's" };
  const choice = await chosen(request);
  return { ...choice, fallbacks: choice.plays ? [] : fallbacksOf(choice, request) };
}

async function chosen(request: ProviderRequest): Promise<ProviderChoice> {
  const named = candidates(request).find(({ provider }) => provider !== undefined);
  if (named?.provider === undefined) return await detected(request);
  if (named.provider === request.parent?.name) return takenOver(request.parent, named.because, request);
  const provider = providerNamed(named.provider, request);
  const lack = whyUnusable(provider, request);
  if (lack) throw lack;
  const wished = modelWish(provider.name, request) ?? provider.defaultModel;
  const model = wished ?? (await (await discovery()).offeredModel(provider, searchOf(request)));
  if (model !== null) return choose(provider, model, named.because, request);
  // The provider is not on this machine, or offers none.
  const { problem } = await (await discovery()).probeLocal(provider, request);
  if (problem !== undefined)
    throw new SyscallError("UNAVAILABLE", `The provider ${provider.name} can't be used. ${problem}`);
  throw new SyscallError(
    "INVALID",
    `No model for the provider ${provider.name}: give --model, set RNIX_MODEL, or write default_model for it into ~/.config/rnix/providers.yaml.`,
  );
}

/** Most runs have a provider and a model that are named. */
const discovery = () => import("./discovery.ts");

/** Stands for a model in a choice that is made to ask for the list. */
const NO_MODEL = "none";

export function searchOf({ listed, ...request }: ProviderRequest): Search {
  if (listed === undefined) return request;
  return { ...request, ownModels: (provider) => listed(choose(provider, NO_MODEL, "", request)) };
}

async function detected(request: ProviderRequest): Promise<ProviderChoice> {
  const found = await (await discovery()).discover(searchOf(request));
  if (!found) throw new SyscallError("UNAVAILABLE", nothingFound(request));
  const { provider, model, because } = found;
  return choose(provider, modelWish(provider.name, request) ?? model, because, request);
}

/** The sources that may name a provider or a model, the strongest first. */
function candidates(
  { flags, env, agent, parent, providers }: ProviderRequest,
  claudeModel?: string,
): { provider?: string; model?: string; because: string }[] {
  return [
    { provider: flags?.provider, model: flags?.model, because: "--provider" },
    {
      provider: env.RNIX_PROVIDER || undefined,
      model: env.RNIX_MODEL || undefined,
      because: "RNIX_PROVIDER",
    },
    { provider: agent?.provider, model: agent?.model ?? claudeModel, because: `the agent ${agent?.name}` },
    { provider: parent?.name, model: parent?.model, because: "its parent's" },
    ...providers.defaults.map(({ name, because }) => ({ provider: name, because })),
  ];
}

/** The model of the strongest source. A source that names both counts only for its own provider. */
function modelWish(provider: string, request: ProviderRequest): string | undefined {
  const ofProvider = candidates(request, claudeModelAt(provider, request)).filter(
    (candidate) => candidate.provider === undefined || candidate.provider === provider,
  );
  return ofProvider.find(({ model }) => model !== undefined)?.model;
}

/** What an agent of Claude Code means by its model, at this provider; undefined where the name means nothing. */
function claudeModelAt(provider: string, request: ProviderRequest): string | undefined {
  const wish = request.agent?.claudeModel;
  const driver = findProvider(provider, request)?.driver;
  if (wish === undefined || driver === "claude") return wish;
  return driver === "anthropic" ? anthropicModel(wish) : undefined;
}

/** The parent's choice. Only the model may differ. */
function takenOver(parent: ProviderChoice, because: string, request: ProviderRequest): ProviderChoice {
  const model = modelWish(parent.name, request) ?? parent.model;
  const byFlag = parent.byFlag || isByFlag(request);
  return { ...(model === parent.model ? parent : withModel(parent, model, request)), because, byFlag };
}

/** Returns the choice with another model of the same provider. */
function withModel(choice: ProviderChoice, model: string, request: ProviderRequest): ProviderChoice {
  const { base_url: url, extra } = choice.config;
  const address = { driver: choice.device.slice(DEVICES.length), model, url, extra };
  const file = request.providers.byName.get(choice.name)?.models[model];
  return { ...choice, model, ...factsOf(address, file, request), fallbacks: undefined };
}

/** What is known of a model at an address. */
function factsOf(
  { driver, ...address }: Omit<ModelAddress, "driver"> & { driver: string },
  file: ModelFacts | undefined,
  request: ProviderRequest,
): ModelFacts {
  const { contextWindow, clock } = request;
  const facts = deviceOf({ driver }, request)?.device.provider;
  return modelFacts(file, { ...address, driver: facts, contextWindow }, clock.now());
}

/**
 * The usable fallbacks that the agent names, in its order. An agent without fallbacks gets the parent's if it has the
 * parent's provider and key, else those of the provider's entry. A model without a provider belongs to the agent's
 * provider, else to the chosen one. A provider given by flag allows no fallback of another provider.
 */
function fallbacksOf(choice: ProviderChoice, request: ProviderRequest): ProviderChoice[] {
  const { agent, parent, fallback, warn } = request;
  const theirs = (entries: readonly string[] | undefined, of: string): readonly Fallback[] | undefined =>
    entries?.map((entry) => fallbackNamed(entry, of, request));
  const named = fallback ?? theirs(agent?.fallback, agent?.provider ?? choice.name);
  if (!named && parent?.gateKey === choice.gateKey) return [...(choice.fallbacks ?? [])];
  const entry = request.providers.byName.get(choice.name);
  const because = `fallback of ${choice.name}/${choice.model}`;
  const usable: ProviderChoice[] = [];
  for (const { provider, model } of named ?? theirs(entry?.fallback, choice.name) ?? []) {
    const known = [choice, ...usable].some((one) => one.name === provider && one.model === model);
    if (known) continue;
    const left = (why: string): void => warn(`The fallback ${provider}/${model} is left out: ${why}`);
    if (provider !== choice.name && choice.byFlag && fallback === undefined) {
      left(`it belongs to another provider than ${choice.name}, which the flag names.`);
      continue;
    }
    const made = fallbackOf(provider, model, choice, request);
    if (made instanceof SyscallError) left(made.message);
    else usable.push({ ...made, because, byFlag: choice.byFlag, fallbacks: undefined });
  }
  return usable;
}

function fallbackOf(
  name: string,
  model: string,
  choice: ProviderChoice,
  request: ProviderRequest,
): ProviderChoice | SyscallError {
  const { parent } = request;
  const there = [choice, parent, ...(parent?.fallbacks ?? [])].find((one) => one?.name === name);
  if (there) return withModel(there, model, request);
  const provider = findProvider(name, request);
  if (!provider) return new SyscallError("NOT_FOUND", `there is no provider "${name}" any more.`);
  return whyUnusable(provider, request) ?? choose(provider, model, "", request);
}

/** Parses `model` or `provider/model`. A part before a slash that names no provider belongs to the model's name. */
function fallbackNamed(entry: string, of: string, request: ProviderRequest): Fallback {
  const slash = entry.indexOf("/");
  const provider = entry.slice(0, Math.max(0, slash));
  if (provider !== "" && findProvider(provider, request)) return { provider, model: entry.slice(slash + 1) };
  return { provider: of, model: entry };
}

function isByFlag({ byFlag, flags }: ProviderRequest): boolean {
  return byFlag ?? flags?.provider !== undefined;
}

function choose(
  provider: Provider,
  model: string,
  because: string,
  request: ProviderRequest,
): ProviderChoice {
  const { driver, extra } = provider;
  const { plays, concurrency } = defaultsOf(provider, request);
  const url = baseUrl(provider, request);
  const key = keyOf(provider, request);
  const { keyCommand } = provider;
  const source =
    key === undefined && keyCommand ? request.keys.of(keyCommand, request.env, keyNames(request)) : undefined;
  const account = digestText(JSON.stringify([provider.driver, url, source?.id ?? key]));
  return {
    name: provider.name,
    device: `${DEVICES}${provider.driver}`,
    plays: plays || undefined,
    model,
    config: { base_url: url, key_source: keySource(provider, request), extra },
    gateKey: `${provider.name}:${account.slice(7, 23)}`,
    concurrency: provider.concurrency ?? concurrency,
    requestsPerMinute: provider.requestsPerMinute,
    ...factsOf({ driver, model, url, extra }, provider.models[model], request),
    unconfined: deviceOf(provider, request)?.device.provider?.unconfined,
    because,
    byFlag: isByFlag(request),
    secret: secretOf(source, key, key === undefined ? noKey(provider, request) : ""),
    renewSecret: source?.renew.bind(source),
  };
}

/** A function of its own: a run keeps its closure, which must not hold the whole request of the choice. */
function secretOf(source: KeySource | undefined, key: string | undefined, missing: string) {
  return async (): Promise<string> => {
    if (source) return source.key();
    if (key !== undefined) return key;
    throw new SyscallError("UNAVAILABLE", missing);
  };
}

/** What a person checks when the key is refused. */
function keySource(provider: Provider, request: ProviderRequest): string {
  const isPrinted = provider.keyCommand !== undefined && keyOf(provider, request) === undefined;
  if (isPrinted) return "api_key_command of the provider's entry";
  return keyVariable(provider, request) ?? `api_key_env of ${provider.name}: its entry names no key`;
}

function nothingFound(request: ProviderRequest): string {
  const all = providerNames(request).join(", ");
  if (request.withoutShell) {
    return `No model provider found, and a job takes no key from your shell. \`rnix setup\` sets one up. Or write ANTHROPIC_API_KEY=… or OPENAI_API_KEY=… (OPENAI_BASE_URL=http://… for a server of your own) into ~/.config/rnix/env (chmod 600), or name one with --provider (${all}).`;
  }
  return `No model provider found. \`rnix setup\` sets one up. Or export ANTHROPIC_API_KEY=… or OPENAI_API_KEY=… (OPENAI_BASE_URL=http://… for a server of your own), start Ollama, or name one with --provider (${all}). \`rnix demo\` needs none.`;
}
