import { lookFor, type Search } from "./discovery.ts";
import { baseUrl, keyOf, keyVariable, lackOf, providerNamed, providerNames } from "./provider-needs.ts";
import { defaultsOf } from "./stock-providers.ts";

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
  /** Those that a file speaks of, and those that a server on this machine has. */
  models: string[];
  source: string;
  /** Why it cannot be used; null when it can. */
  problem: string | null;
  /** It plays what was said before: there is nobody to ask. */
  plays: boolean;
}

/** Every provider that can be named, with what it lacks. What is looked for on this machine is looked for. */
export function describeProviders(search: Search): Promise<ProviderLine[]> {
  return Promise.all(providerNames(search).map((name) => describe(name, search)));
}

async function describe(name: string, search: Search): Promise<ProviderLine> {
  const provider = providerNamed(name, search);
  const isSet = keyOf(provider, search) !== undefined;
  const otherwise = provider.keyCommand ? "command" : provider.needsKey ? "missing" : "not needed";
  const lack = lackOf(provider, search)?.message;
  const { models = [], problem } = lack === undefined ? await lookFor(provider, search) : {};
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
    plays: defaultsOf(provider).plays === true,
  };
}
