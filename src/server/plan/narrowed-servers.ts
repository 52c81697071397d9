/** Narrows the MCP servers of a run to its tool rules. */

import { MCP } from "../../config/mcp/mcp.ts";
import type { MountRequest } from "../../kernel/types.ts";

/** The tool rules that a run is given beside its agent's. */
export interface GivenRules {
  /** Instead of the agent's list. */
  allow?: readonly string[];
  deny?: readonly string[];
}

/**
 * The mounts without the MCP servers of which the given rules leave no tool: a server that can't be used is not
 * started. The notice names the rules that bring it back.
 */
export function narrowedServers<M extends Pick<MountRequest, "type" | "name">>(
  { allow, deny = [] }: GivenRules,
  mounts: readonly M[],
): { mounts: M[]; notices: string[] } {
  const servers = mounts.filter(({ type }) => type === MCP);
  const denied = servers.filter(({ name }) => deny.some((rule) => coversAll(rule, name)));
  const unlisted = servers.filter(
    (server) =>
      !denied.includes(server) && allow !== undefined && !allow.some((rule) => mayReach(rule, server.name)),
  );
  const left = [...denied, ...unlisted];
  const rules = unlisted.map(({ name }) => `${toolPrefix(name)}*`).join(",");
  return {
    mounts: left.length === 0 ? [...mounts] : mounts.filter((mount) => !left.includes(mount)),
    notices: [
      ...(denied.length === 0 ? [] : [`--deny leaves out the ${namesOf(denied)}`]),
      ...(unlisted.length === 0
        ? []
        : [`--allow leaves out the ${namesOf(unlisted)}; to use it, add --allow '${rules}'`]),
    ],
  };
}

function namesOf(servers: readonly { name: string }[]): string {
  return `MCP server${servers.length === 1 ? "" : "s"} ${servers.map(({ name }) => name).join(", ")}`;
}

/** Whether the rule, as far as its first wildcard or pattern, could name a tool or the device of the server. */
function mayReach(rule: string, server: string): boolean {
  const [head = ""] = rule.split(/[*?(]/, 1);
  return [toolPrefix(server), MOUNTS].some((one) => one.startsWith(head) || head.startsWith(one));
}

/** Whether the rule names all tools of the server. */
function coversAll(rule: string, server: string): boolean {
  const head = rule.slice(0, -1);
  return rule.endsWith("*") && !/[*?(]/.test(head) && toolPrefix(server).startsWith(head);
}

function toolPrefix(server: string): string {
  return `mcp__${server}__`;
}

const MOUNTS = "/mnt/mcp/";
