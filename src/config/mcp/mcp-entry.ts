/** One MCP server as a file writes it. */

import { resolve } from "node:path";
import { z } from "zod";
import { SETTINGS } from "../../options/settings.ts";
import type { SyscallError } from "../../plugin/index.ts";
import { visibleWords } from "../../plugin/visible.ts";
import { allNamed, filesOfWords, type NamedFiles } from "../files/named-files.ts";
import { anyText, choice, flag, list, mapping, number, strict, text } from "../files/values.ts";

/** The entry of one server in a file. */
export type McpEntry = z.infer<ReturnType<typeof mcpEntry>>;

/** Makes an INVALID error at a part of a server's entry. */
export type Wrong = (path: readonly PropertyKey[], message: string) => SyscallError;

/** A name that can also be the last part of a mount's path. */
export const SERVER_NAME = /^(?!.*__)[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const KIB = 1024;
const MIB = 1024 * KIB;
const TYPES = ["stdio", "http", "streamable-http"] as const;

/** The schema of one server, in mcp.yaml and as a service of init.yaml. */
export function mcpEntry() {
  return strict({
    type: choice(TYPES).optional(),
    command: text("a program").optional(),
    args: list("arguments", anyText()).optional(),
    env: mapping("variables", anyText()).optional(),
    cwd: text("a folder").optional(),
    url: text("a URL of http or https").optional(),
    headers: mapping("headers", anyText()).optional(),
    mount_timeout: number(SETTINGS.mcp_mount_timeout).optional(),
    request_timeout: number(SETTINGS.mcp_request_timeout).optional(),
    max_output: number({ measure: "size", min: KIB, max: 64 * MIB }).optional(),
    shared: flag().optional(),
    elicitation: choice(["decline", "ask"]).optional(),
    sampling: choice(["refuse", "allow"]).optional(),
    sandbox: choice(["off"]).optional(),
  });
}

/** What a command runs, whatever else is wrong with the entry. */
const Command = z.lazy(() =>
  z.object({
    command: z.string().optional(),
    args: z.array(z.coerce.string()).optional(),
    cwd: z.string().optional(),
    url: z.string().optional(),
    env: z.record(z.string(), z.coerce.string()).optional(),
    sandbox: z.string().optional(),
  }),
);

/** What a server runs or connects to, as shown to the user. `entry`: as written in the file. */
export function saidServer(name: string, entry: unknown): string {
  const { success, data } = Command.safeParse(entry);
  if (!success) return `${name} can't be read`;
  const { command, args = [], url, env = {}, sandbox } = data;
  if (command === undefined) return `${name} is at ${url ?? "no address"}`;
  const set = Object.entries(env).map(([key, value]) => `${key}=${value}`);
  const outside = sandbox === undefined ? "" : " (outside of any sandbox)";
  return `${name} runs ${visibleWords([...set, command, ...args])}${outside}`;
}

/** The command without its variables, or the address, as the file writes it. "" for a malformed entry. */
export function targetOfServer(entry: unknown): string {
  const { command, args = [], url = "" } = Command.safeParse(entry).data ?? {};
  return command === undefined ? url : visibleWords([command, ...args]);
}

/** The files that an entry's command names. Empty for a malformed entry, which is never mounted. */
export function filesOfServer(entry: unknown, projectDir: string): NamedFiles {
  const { success, data } = Command.safeParse(entry);
  if (!success) return allNamed([]);
  const base = resolve(projectDir, data.cwd ?? ".");
  return filesOfWords([data.command ?? "", ...(data.args ?? [])], base, projectDir);
}
