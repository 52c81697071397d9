import {
  baseUrl,
  keyOf,
  keyVariable,
  type Lookup,
  lackOf,
  providerNamed,
  providerNames,
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
  models: string[];
  source: string;
  /** Why it cannot be used; null when it can. */
  problem: string | null;
}

/** Every provider that can be named, with what it lacks. */
export function describeProviders(look: Lookup): ProviderLine[] {
  return providerNames(look).map((name) => {
    const provider = providerNamed(name, look);
    const isSet = keyOf(provider, look) !== undefined;
    const otherwise = provider.keyCommand ? "command" : provider.needsKey ? "missing" : "not needed";
    return {
      name,
      driver: provider.driver,
      base_url: baseUrl(provider, look) ?? null,
      key_env: keyVariable(provider, look) ?? null,
      key: isSet ? "set" : otherwise,
      default_model: provider.defaultModel ?? null,
      models: Object.keys(provider.models),
      source: provider.source,
      problem: lackOf(provider, look)?.message ?? null,
    };
  });
}
