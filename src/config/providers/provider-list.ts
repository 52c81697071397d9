/** The rows of `rnix providers` and `rnix models`. */

import type { ListedModel, ModelPrice } from "../../plugin/index.ts";
import { probeLocal, type Search } from "./discovery.ts";
import { knownModels, modelFacts } from "./model-facts.ts";
import {
  baseUrl,
  defaultsOf,
  deviceOf,
  keyOf,
  keyVariable,
  type Lookup,
  needsKey,
  providerNamed,
  providerNames,
  whyUnusable,
} from "./provider-needs.ts";
import type { Provider } from "./providers.ts";

/** One line of `rnix providers`. */
export interface ProviderLine {
  name: string;
  driver: string;
  base_url: string | null;
  /** The variable of its key, and whether it is set. Never the key. */
  key_env: string | null;
  /** "command": `api_key_command` is run for it when it is needed. */
  key: "set" | "missing" | "not needed" | "command";
  default_model: string | null;
  /** The models that a file describes, and those of a local server. */
  models: string[];
  source: string;
  /** Why it cannot be used; null when it can. */
  problem: string | null;
  /** It plays a recording, and calls no model. */
  plays: boolean;
}

/** Every provider that can be named, and why it cannot be used. Local servers and programs are probed. */
export function describeProviders(search: Search): Promise<ProviderLine[]> {
  return Promise.all(providerNames(search).map((name) => describe(name, search)));
}

async function describe(name: string, search: Search): Promise<ProviderLine> {
  const provider = providerNamed(name, search);
  const isSet = keyOf(provider, search) !== undefined;
  const otherwise = provider.keyCommand ? "command" : needsKey(provider, search) ? "missing" : "not needed";
  const lack = whyUnusable(provider, search)?.message;
  const { models = [], problem } = lack === undefined ? await probeLocal(provider, search) : {};
  return {
    name,
    driver: provider.driver,
    base_url: baseUrl(provider, search) ?? null,
    key_env: keyVariable(provider, search) ?? null,
    key: isSet ? "set" : otherwise,
    default_model: provider.defaultModel ?? null,
    models: [...new Set([...Object.keys(provider.models), ...models])],
    source: provider.source,
    problem: lack ?? problem ?? null,
    plays: defaultsOf(provider, search).plays === true,
  };
}

/** One line of `rnix models`. */
export interface ModelLine {
  model: string;
  /** Tokens of a request and its answer together. */
  contextWindow?: number;
  maxOutput?: number;
  price?: ModelPrice;
  /** Where its name comes from: the service's own list, the table of known models, or a file. */
  from: "service" | "table" | "file";
}

/**
 * The models that `listed`, the service's own list, has; without it, the known models of the provider's address and its
 * default model. Models of the files are always among them. Known ones come first, in the table's order.
 */
export function modelLines(
  provider: Provider,
  look: Lookup,
  { listed, defaultModel, now }: { listed?: readonly ListedModel[]; defaultModel?: string; now: number },
): ModelLine[] {
  const driver = deviceOf(provider, look)?.device.provider;
  const at = { url: baseUrl(provider, look), driver, extra: provider.extra };
  const known = knownModels(at);
  const names = new Map<string, ModelLine["from"]>();
  for (const name of Object.keys(provider.models)) names.set(name, "file");
  if (defaultModel !== undefined && listed === undefined && !names.has(defaultModel)) {
    names.set(defaultModel, known.includes(defaultModel) ? "table" : "file");
  }
  for (const { id } of listed ?? []) names.set(id, "service");
  if (listed === undefined) for (const name of known) if (!names.has(name)) names.set(name, "table");
  const lines = [...names].map(([model, from]): ModelLine => {
    const said = listed?.find(({ id }) => id === model);
    const facts = modelFacts(provider.models[model], { ...at, model }, now);
    return {
      model,
      contextWindow: facts.contextWindow ?? said?.contextWindow,
      maxOutput: facts.maxOutput ?? facts.outputLimit ?? said?.maxOutput,
      price: facts.price ?? said?.price,
      from,
    };
  });
  const rank = ({ model }: ModelLine): number => {
    const place = known.indexOf(model);
    return place < 0 ? known.length : place;
  };
  return lines.toSorted((a, b) => rank(a) - rank(b) || (a.model < b.model ? -1 : 1));
}
