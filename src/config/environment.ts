import { statSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../plugin/index.ts";
import { FileCache } from "./file.ts";
import type { Env } from "./paths.ts";

/**
 * Names that hold a model provider's key, whoever of them is in use. `rnix` takes them out of the
 * environment of every tool.
 */
const PROVIDER_KEYS = new Set(
  [
    ["AI_GATEWAY", "ANTHROPIC", "AZURE", "AZURE_OPENAI", "CEREBRAS", "CLAUDE", "CODEX", "COHERE", "CURSOR"],
    ["DASHSCOPE", "DEEPINFRA", "DEEPSEEK", "FIREWORKS", "GEMINI", "GOOGLE", "GOOGLE_GENERATIVE_AI", "GROQ"],
    ["HYPERBOLIC", "LITELLM", "LLAMA", "MINIMAX", "MISTRAL", "MOONSHOT", "NEBIUS", "NOVITA", "NVIDIA"],
    ["OLLAMA", "OPENAI", "OPENROUTER", "PERPLEXITY", "QWEN", "REPLICATE", "SAMBANOVA", "TOGETHER"],
    ["TOGETHER_AI", "VENICE", "VERTEX", "VLLM", "VOYAGE", "XAI", "ZAI", "ZHIPUAI"],
  ]
    .flat()
    .map((name) => `${name}_API_KEY`),
);
const OTHER_SECRETS = new Set([
  "ANTHROPIC_AUTH_TOKEN",
  "AWS_BEARER_TOKEN_BEDROCK",
  "CLAUDE_CODE_OAUTH_TOKEN",
]);

/** Where things are on this machine, and how its user likes them: what says nothing of whoever set it. */
const PLAIN = new Set(["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"]);
/** Read by the runtime as it starts, for servers with a certificate of one's own. */
const CERTIFICATES = new Set(["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"]);
/** Which daemon a command in a run finds. */
const SOCKET = "RNIX_SOCKET";

/** A value shorter than this is not taken for a copy of a key. */
const MIN_SECRET = 12;

/** Whether a variable is one of those that the daemon keeps of whoever happened to start it. */
export function isPlain(name: string): boolean {
  return PLAIN.has(name) || CERTIFICATES.has(name) || name === SOCKET || /^(?:XDG|LC)_/.test(name);
}

/**
 * Names of what the process around a kernel need not show the system: all but what is plain, and what tells whose
 * program it is.
 */
export function hidden(env: Env): string[] {
  return Object.keys(env).filter((name) => !isPlain(name) && !name.startsWith("RNIX_"));
}

/**
 * What a run that nobody's shell starts has of the daemon's environment (design §2): no key, also not of one in
 * the foreground. Keys are in `~/.config/rnix/env`.
 */
export function callerless(env: Env): Record<string, string> {
  const plain = Object.entries(env).filter(([name]) => isPlain(name));
  return Object.fromEntries(plain.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
}

/**
 * The environment a run's tools get: the spawner's without provider keys (`names`: those that providers.yaml
 * names), without copies of them under other names, and without BUN_*, which would change what our own
 * binary does.
 */
export function toolEnvironment(env: Env, names: Iterable<string> = []): Record<string, string> {
  const secret = new Set([...PROVIDER_KEYS, ...OTHER_SECRETS, ...names]);
  const values = new Set(
    [...secret].map((name) => env[name] ?? "").filter((value) => value.length >= MIN_SECRET),
  );
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] =>
        entry[1] !== undefined &&
        !secret.has(entry[0]) &&
        !entry[0].startsWith("BUN_") &&
        !values.has(entry[1]),
    ),
  );
}

/**
 * `~/.config/rnix/env`: KEY=VALUE lines, for keys that are not in the spawner's environment. INVALID when
 * others can read it, and for a line that is none.
 */
export function userEnv(configDir: string): Record<string, string> {
  const file = join(configDir, "env");
  const values = files.get(file);
  if (!values) return {};
  const mode = statSync(file).mode & 0o777;
  if ((mode & 0o077) !== 0) {
    throw new SyscallError(
      "INVALID",
      `${file} holds keys and others can read it (mode ${mode.toString(8)}). Run: chmod 600 ${file}`,
    );
  }
  return values;
}

const files = new FileCache((text, file) => {
  const values: Record<string, string> = {};
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (/^\s*(?:#|$)/.test(line)) continue;
    const [, name, value] = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$/.exec(line) ?? [];
    if (name === undefined || value === undefined) {
      // The line itself may be a key: it is not shown.
      throw new SyscallError(
        "INVALID",
        `${file}:${index + 1}:1: expected KEY=VALUE, or a comment after "#".`,
      );
    }
    values[name] = unquoted(value.trim());
  }
  return values;
});

function unquoted(value: string): string {
  const [, quoted] = /^(["'])(.*)\1$/.exec(value)?.slice(1) ?? [];
  return quoted ?? value;
}
