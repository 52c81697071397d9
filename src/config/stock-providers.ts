/** What is known of a provider when no file says otherwise. */
export interface ProviderDefaults {
  /** The variables that hold its key, as its own tools read them: the first that is set counts. */
  keyEnvs: readonly string[];
  /** A run without a key cannot begin. */
  needsKey: boolean;
  /** The variable of its address. */
  baseUrlEnv?: string;
  /** What that variable says, as a URL; as it stands by default. */
  urlOf?(value: string): string;
  /** Its address where neither file nor variable has one; without it the driver knows its own. */
  baseUrl?: string;
  /** There is no address but one that is given. */
  needsBaseUrl?: boolean;
  /** An Ollama: it may run on this machine, where it is looked for when nothing else is found. */
  isLocal?: true;
  /** It is a program on the PATH: without it there is nothing to use. */
  isProgram?: true;
  defaultModel?: string;
  /** It plays what was said before: so do all that its run spawns, and nothing else takes its place. */
  plays?: true;
}

/** In the order in which a key that lies around is taken for the answer. */
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
    // It may be logged in.
    needsKey: false,
    isProgram: true,
  },
  cursor: { keyEnvs: ["CURSOR_API_KEY"], needsKey: true, isProgram: true },
  replay: { keyEnvs: [], needsKey: false, plays: true },
};

/** Providers that are an address for a driver of another name. */
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

/** Of the preset when it still is one, else of the driver; nothing is known of somebody's plugin. */
export function defaultsOf({ name, driver }: { name: string; driver: string }): ProviderDefaults {
  const preset = Object.hasOwn(PRESETS, name) ? PRESETS[name] : undefined;
  if (preset?.driver === driver) return preset;
  return (Object.hasOwn(DRIVERS, driver) ? DRIVERS[driver] : undefined) ?? { keyEnvs: [], needsKey: false };
}

/**
 * OLLAMA_HOST as Ollama's own client reads it (`envconfig.Host`): `host`, `host:port`, `:port` or a URL; the port is
 * 11434 unless the scheme is written out. A server that listens everywhere is spoken to here.
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
