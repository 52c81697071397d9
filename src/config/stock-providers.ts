/** What is known of the stock drivers, and of providers that use them with another address. */

/** The stock providers and their drivers. */

/** The facts of a provider, unless a file overrides them. */
export interface ProviderDefaults {
  /** The variables that hold its key. The first one that is set counts. */
  keyEnvs: readonly string[];
  /** A run without a key fails at its start. */
  needsKey: boolean;
  /** The variable of its address. */
  baseUrlEnv?: string;
  /** Turns the variable's value into a URL. Absent: the value is a URL. */
  urlOf?(value: string): string;
  /** The default address. Absent: the driver has its own. */
  baseUrl?: string;
  /** There is no default address: the user has to give one. */
  needsBaseUrl?: boolean;
  /** An Ollama server. It is searched for on this machine when no other provider is found. */
  isLocal?: true;
  /** It runs a program that must be on the PATH. */
  isProgram?: true;
  defaultModel?: string;
  /** It plays a recording. Children of its run use it too, and it has no fallback. */
  plays?: true;
}

/** The stock drivers, in the order in which the search tries their keys. */
export const DRIVERS: Readonly<Record<string, ProviderDefaults>> = {
  anthropic: { keyEnvs: ["ANTHROPIC_API_KEY"], baseUrlEnv: "ANTHROPIC_BASE_URL", needsKey: true },
  openai: { keyEnvs: ["OPENAI_API_KEY"], baseUrlEnv: "OPENAI_BASE_URL", needsKey: true },
  google: {
    keyEnvs: ["GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"],
    baseUrlEnv: "GOOGLE_GEMINI_BASE_URL",
    needsKey: true,
  },
  "openai-compatible": {
    keyEnvs: ["OPENAI_API_KEY"],
    baseUrlEnv: "OPENAI_BASE_URL",
    needsKey: false,
    needsBaseUrl: true,
  },
  claude: {
    keyEnvs: ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"],
    baseUrlEnv: "ANTHROPIC_BASE_URL",
    // The program may be logged in.
    needsKey: false,
    isProgram: true,
  },
  cursor: { keyEnvs: ["CURSOR_API_KEY"], needsKey: true, isProgram: true },
  replay: { keyEnvs: [], needsKey: false, plays: true },
};

/** Providers that use the driver of another name with their own address. */
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

/** The facts of the preset if the entry still has its driver, else of the driver. A plugin's driver has none. */
export function defaultsOf({ name, driver }: { name: string; driver: string }): ProviderDefaults {
  const preset = Object.hasOwn(PRESETS, name) ? PRESETS[name] : undefined;
  if (preset?.driver === driver) return preset;
  return (Object.hasOwn(DRIVERS, driver) ? DRIVERS[driver] : undefined) ?? { keyEnvs: [], needsKey: false };
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
