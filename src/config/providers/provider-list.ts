/** The rows of `rnix providers`. */

import { probeLocal, type Search } from "./discovery.ts";
import {
  baseUrl,
  defaultsOf,
  keyOf,
  keyVariable,
  needsKey,
  providerNamed,
  providerNames,
  whyUnusable,
} from "./provider-needs.ts";

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
