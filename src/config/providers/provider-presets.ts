/** Stock providers that use the driver of another name with their own address. */

import type { DriverFacts } from "../../plugin/index.ts";

/** The facts of a provider, unless a file overrides them. */
export interface ProviderDefaults extends DriverFacts {
  /** Turns the value of `baseUrlEnv` into a URL. Absent: the value is a URL. */
  urlOf?(value: string): string;
  /** An Ollama server. It is searched for on this machine when no other provider is found. */
  isLocal?: true;
  defaultModel?: string;
}

export const PRESETS: Readonly<Record<string, ProviderDefaults & { driver: string }>> = {
  openrouter: {
    driver: "openai-compatible",
    keyEnvs: ["OPENROUTER_API_KEY"],
    needsKey: true,
    baseUrl: "https://openrouter.ai/api/v1",
    defaultModel: "openrouter/auto",
  },
  ollama: {
    driver: "openai-compatible",
    keyEnvs: [],
    needsKey: false,
    baseUrlEnv: "OLLAMA_HOST",
    urlOf: ollamaUrl,
    baseUrl: "http://127.0.0.1:11434/v1",
    isLocal: true,
  },
};

/** The preset of this name, if the provider still has its driver. */
export function presetOf({ name, driver }: { name: string; driver: string }): ProviderDefaults | undefined {
  const preset = Object.hasOwn(PRESETS, name) ? PRESETS[name] : undefined;
  return preset?.driver === driver ? preset : undefined;
}

/**
 * Reads OLLAMA_HOST as Ollama's own client does (`envconfig.Host`): `host`, `host:port`, `:port` or a URL. The port is
 * 11434 unless a scheme is given. A server that listens on all addresses is called on the loopback address.
 */
function ollamaUrl(value: string): string {
  const text = value.trim();
  const [, scheme, rest = ""] = /^(?:(https?):\/\/)?(.*)$/.exec(text) ?? [];
  const [, host = "", port, path = ""] = /^(\[[^\]]*\]|[^:/]*)(?::(\d+))?(\/.*)?$/.exec(rest) ?? [];
  if (host === "" && port === undefined) return text;
  const name = ["", "0.0.0.0"].includes(host) ? "127.0.0.1" : host === "[::]" ? "[::1]" : host;
  const at = port ?? (scheme === undefined ? "11434" : undefined);
  return `${scheme ?? "http"}://${name}${at === undefined ? "" : `:${at}`}${path.replace(/\/+$/, "")}/v1`;
}
