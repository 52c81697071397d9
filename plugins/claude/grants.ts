/** What the Claude Code CLI has beyond the sandbox and the network of its run: its login, itself, and its provider's hosts. */

import { realpathSync } from "node:fs";
import { join } from "node:path";
import type { ProgramGrants } from "rnix/plugin";

/** Of its folder: what it runs or obeys later, which no run may change. */
const OBEYED = [
  "CLAUDE.md",
  "agents",
  "commands",
  "hooks",
  "output-styles",
  "plugins",
  "rules",
  "settings.json",
  "settings.local.json",
  "skills",
];

interface GrantOptions {
  baseUrl?: string | undefined;
  /** The URL of the endpoint with the tools of the run. */
  tools?: string | undefined;
  /** Further files that it reads. */
  files?: readonly string[];
}

/** `env`: of the run. */
export function grantsOf(
  path: string,
  env: Readonly<Record<string, string | undefined>>,
  { baseUrl = env.ANTHROPIC_BASE_URL, tools, files = [] }: GrantOptions = {},
): ProgramGrants {
  const { HOME = "/", CLAUDE_CONFIG_DIR } = env;
  const folder = CLAUDE_CONFIG_DIR ?? join(HOME, ".claude");
  return {
    write: [folder, join(CLAUDE_CONFIG_DIR ?? HOME, ".claude.json")],
    read: [...files, ...programFiles(path), ...OBEYED.map((name) => join(folder, name))],
    hosts: [...(baseUrl ? [hostOf(baseUrl)] : SERVICE), ...(tools ? [hostOf(tools)] : [])],
  };
}

/** Its file, or the packages that npm has installed with it. */
function programFiles(path: string): string[] {
  const real = realpathSync(path);
  return [real, ...[path, real].flatMap((one) => /^.*\/node_modules\/[^/]+(?=\/)/.exec(one) ?? [])];
}

/** Its model, and where its login is renewed. */
const SERVICE = ["api.anthropic.com:443", "console.anthropic.com:443", "platform.claude.com:443"];

function hostOf(url: string): string {
  const { hostname, port, protocol } = new URL(url);
  return `${hostname}:${port || (protocol === "http:" ? 80 : 443)}`;
}
