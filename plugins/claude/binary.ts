/** Finds the Claude Code CLI and reads which options it has. */

import { statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { type OpenContext, SyscallError } from "rnix/plugin";
import { findProgram, isFile } from "../_model/cli-program.ts";
import { grantsOf } from "./grants.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** The program that was found, and what it can do. */
export interface Binary {
  path: string;
  /** Long options that its help names. */
  options: ReadonlySet<string>;
}

/** Older versions are untested. Some read the files that a prompt names with an @, whatever the settings. */
const OLDEST = [2, 1, 329] as const;

/** Time for `--help`: the first start of a new version unpacks itself. */
const PROBE_MS = 30_000;
const MAX_PROBED = 8;

/** Options that switch off its own tools, settings and servers. */
const CONFINING = ["--tools", "--strict-mcp-config", "--mcp-config", "--setting-sources", "--allowed-tools"];

/** Programs asked so far, by path and modification time. */
const probed = new Map<string, Promise<Binary>>();

/** Where its installers put it, in the home folder. */
const INSTALLED = [".local/bin/claude", ".claude/local/claude", ".bun/bin/claude", ".npm-global/bin/claude"];

/** Finds the program on the PATH, then where its installers put it. */
export function findBinary(env: Env): string | undefined {
  return findProgram(env, ["claude"], INSTALLED);
}

/** The path of the program. UNAVAILABLE when there is none. */
export async function locate({ env }: OpenContext, command: string | undefined): Promise<string> {
  const path = command ?? findBinary(env) ?? (await ofNvm(env.HOME));
  if (path === undefined || !isFile(path)) throw notFound(command);
  return path;
}

/** The program and its options, asked once. UNAVAILABLE when there is none or it can't be confined. */
export async function binary(context: OpenContext, command: string | undefined): Promise<Binary> {
  const path = await locate(context, command);
  const key = `${path} ${statSync(path).mtimeMs}`;
  const known = probed.get(key);
  if (known) return known;
  const asked = probe(context, path);
  const [oldest] = probed.keys();
  if (oldest !== undefined && probed.size >= MAX_PROBED) probed.delete(oldest);
  probed.set(key, asked);
  // A failure is not kept: the next attempt may succeed.
  asked.catch(() => probed.delete(key));
  return asked;
}

async function probe(context: OpenContext, path: string): Promise<Binary> {
  const version = await printed(context, path, "--version");
  if (isOlder(version)) {
    const message = `${path} has version ${version.trim()}; it can be limited to the tools of a run from ${OLDEST.join(".")} on. Update it: claude update`;
    throw new SyscallError("UNAVAILABLE", message, { retryable: false });
  }
  const help = await printed(context, path, "--help");
  const options = new Set(help.match(/--[a-z][a-z-]+/g));
  const missing = CONFINING.filter((option) => !options.has(option));
  if (missing.length === 0) return { path, options };
  const message = `${path} does not know ${missing.join(", ")}, without which its own tools and settings can't be switched off. Update it: claude update`;
  throw new SyscallError("UNAVAILABLE", message, { retryable: false });
}

function isOlder(version: string): boolean {
  const numbers = /^(\d+)\.(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number) ?? [];
  const differs = OLDEST.findIndex((number, index) => numbers[index] !== number);
  return differs >= 0 && (numbers[differs] ?? 0) < (OLDEST[differs] ?? 0);
}

/** The output of one run of the program. */
async function printed({ exec, env }: OpenContext, path: string, option: string): Promise<string> {
  if (!exec) throw new SyscallError("INTERNAL", "/dev/llm/claude was opened without the service `exec`");
  const argv = [path, option];
  const child = await exec({ argv, grants: grantsOf(path, env), timeoutMs: PROBE_MS, life: "process" });
  const decoder = new TextDecoder();
  let text = "";
  for (let piece = await child.read(); piece; piece = await child.read()) {
    text += decoder.decode(piece.data, { stream: true });
  }
  const { code, timedOut } = await child.exited();
  if (code === 0) return text;
  const how = timedOut ? `did not answer within ${PROBE_MS / 1000} s` : `ended with ${code}`;
  throw new SyscallError("UNAVAILABLE", `${argv.join(" ")} ${how}: ${text.slice(-500).trim()}`, {
    retryable: false,
  });
}

/** The program of the newest Node version of nvm that has it. */
async function ofNvm(home: string | undefined): Promise<string | undefined> {
  if (home === undefined) return undefined;
  const versions = join(home, ".nvm/versions/node");
  const names = await readdir(versions).catch(() => []);
  return names
    .toSorted((a, b) => b.localeCompare(a, "en", { numeric: true }))
    .map((name) => join(versions, name, "bin/claude"))
    .find(isFile);
}

function notFound(command: string | undefined): SyscallError {
  const what =
    command === undefined
      ? "The program `claude` is neither on the PATH nor where its installers put it. Install Claude Code (npm install -g @anthropic-ai/claude-code), or give its path as extra.command in the provider's entry"
      : `There is no program ${command}, which the provider's entry names as extra.command (an absolute path)`;
  return new SyscallError("UNAVAILABLE", what, { retryable: false });
}
