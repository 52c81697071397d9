/** How a project names the test's MCP server. */

import { resolve } from "node:path";
import type { Machine } from "./machine.ts";

export const MCP_SERVER = resolve(import.meta.dir, "../../support/mcp-server/main.ts");

/** The arguments of `env` that run the server. Without the variable Bun would keep what it has transpiled in HOME. */
export const MCP_PROGRAM = ["BUN_RUNTIME_TRANSPILER_CACHE_PATH=0", process.execPath, MCP_SERVER];

/** The server's command line in a shell. */
export const MCP_COMMAND = `env ${MCP_PROGRAM.join(" ")}`;

/** The server as an entry of a list of servers. */
export function mcpServer(args: string[] = [], env?: Record<string, string>): object {
  return { command: "env", args: [...MCP_PROGRAM, ...args], ...(env && { env }) };
}

/** A server that misbehaves in this way when its tool is called, and with the names of its prompts. */
export function hostileServer(how: string): { command: string; args: string[] } {
  const program = MCP_PROGRAM.map((word) =>
    word === MCP_SERVER ? word.replace("main.ts", "hostile.ts") : word,
  );
  return { command: "env", args: [...program, how] };
}

/** Writes the project's `.mcp.json`. */
export function mcpJson(machine: Machine, servers: Record<string, object>): void {
  machine.write(".mcp.json", JSON.stringify({ mcpServers: servers }, null, 2));
}
