/** Which variables of an environment are secrets, and the environments that runs and tools get. */

import { statSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import { FileCache } from "../files/file.ts";
import type { Env } from "./paths.ts";
import { isPlain } from "./plain-variables.ts";

/** Variables that hold a key of a model provider. `rnix` removes them from the environment of every tool. */
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
const OTHER_SECRETS = ["ANTHROPIC_AUTH_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "CLAUDE_CODE_OAUTH_TOKEN"];

/** A shorter value does not count as a key. */
const MIN_SECRET = 8;

/** What a run without a calling shell gets of the daemon's environment: no keys. Those come from `~/.config/rnix/env`. */
export function daemonEnvironment(env: Env): Record<string, string> {
  const entries = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(entries.filter(([name]) => isPlain(name)));
}

/**
 * The keys of all providers in these environments. `names`: variables that providers.yaml names. A value that is part
 * of a path is a placeholder for a server without keys, and no secret.
 */
export function providerKeys(envs: readonly Env[], names: Iterable<string> = []): string[] {
  const secret = secretNames(names);
  const plain = envs.flatMap((env) =>
    Object.entries(env).filter(([name]) => isPlain(name) || name === "PWD"),
  );
  const values = envs.flatMap((env) => [...secret].map((name) => env[name] ?? ""));
  return [...new Set(values)].filter(
    (value) => value.length >= MIN_SECRET && !plain.some(([, text]) => text?.includes(value)),
  );
}

/**
 * The environment of a run's tools: the spawner's without provider keys, without values that contain a key, and
 * without BUN_*, which would change how our own binary behaves. `names`: variables that providers.yaml names.
 * `keys`: further known keys.
 */
export function toolEnvironment(
  env: Env,
  names: Iterable<string> = [],
  keys: readonly string[] = [],
): Record<string, string> {
  const secret = secretNames(names);
  const known = [...providerKeys([env], secret), ...keys];
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] =>
        entry[1] !== undefined &&
        !secret.has(entry[0]) &&
        !entry[0].startsWith("BUN_") &&
        !known.some((key) => entry[1]?.includes(key)),
    ),
  );
}

/** The values of these keys: each from the first environment that has it. */
export function namedKeys(names: Iterable<string>, envs: readonly Env[]): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of names) {
    const value = envs.map((env) => env[name]).find((text) => text !== undefined && text !== "");
    if (value !== undefined) found[name] = value;
  }
  return found;
}

function secretNames(names: Iterable<string>): ReadonlySet<string> {
  return new Set([...PROVIDER_KEYS, ...OTHER_SECRETS, ...names]);
}

/** The KEY=VALUE lines of `~/.config/rnix/env`. Fails with INVALID when others can read it, and for any other line. */
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
    values[name] = value.trim().replace(/^(["'])(.*)\1$/, "$2");
  }
  return values;
});
