/** What the setup says of the stock providers. */

interface KnownProvider {
  about: string;
  /** Where the service gives keys. */
  keyPage?: string;
  keyVariable?: string;
}

function withKey(about: string, keyPage: string, keyVariable: string): KnownProvider {
  return { about, keyPage, keyVariable };
}

/** In the order in which they are offered. */
export const KNOWN_PROVIDERS: Readonly<Record<string, KnownProvider>> = {
  anthropic: withKey(
    "Anthropic's API, with a key",
    "https://platform.claude.com/settings/keys",
    "ANTHROPIC_API_KEY",
  ),
  openai: withKey("OpenAI's API, with a key", "https://platform.openai.com/api-keys", "OPENAI_API_KEY"),
  google: withKey("Google's Gemini API, with a key", "https://aistudio.google.com/apikey", "GEMINI_API_KEY"),
  openrouter: withKey(
    "models of many services, with one key",
    "https://openrouter.ai/settings/keys",
    "OPENROUTER_API_KEY",
  ),
  ollama: { about: "an Ollama server on this machine, without a key" },
  claude: { about: "the Claude Code CLI, with its own login" },
  cursor: { about: "the Cursor CLI, with its own login", keyVariable: "CURSOR_API_KEY" },
};

/** Servers with OpenAI's protocol that listen on this machine by default. */
export const LOCAL_SERVERS: readonly { name: string; about: string; url: string }[] = [
  { name: "lmstudio", about: "LM Studio on this machine", url: "http://127.0.0.1:1234/v1" },
  { name: "vllm", about: "a server on this machine, port 8000", url: "http://127.0.0.1:8000/v1" },
  { name: "llamacpp", about: "a server on this machine, port 8080", url: "http://127.0.0.1:8080/v1" },
];
