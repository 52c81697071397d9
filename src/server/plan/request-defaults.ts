/** The folder and environment of requests that bring none, such as those with the seeds' fields only (seeds 5.4). */

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { MCP } from "../../config/mcp/mcp.ts";
import type { MountRequest } from "../../kernel/types.ts";
import type { ResumeRequest, SpawnRequest } from "../../protocol/methods.ts";

/** A spawn request with its folder and environment. */
export type PlacedSpawn = SpawnRequest & { cwd: string; env: Record<string, string> };
export type PlacedResume = ResumeRequest & { env: Record<string, string> };

interface DefaultsPorts {
  /** The user's data folder. */
  dataDir: string;
  /** The environment of runs without a caller. */
  environment: Record<string, string>;
  /** The live process with this UUID. */
  parent(uuid: string): { cwd: string; env: Record<string, string> } | undefined;
}

/** The parent of the requested run; undefined if the user has typed the command. */
export function parentUuid(request: SpawnRequest, unit: string | undefined): string | undefined {
  return unit ?? request.env?.RNIX_UNIT ?? request.parent_uuid;
}

/** Fills in a missing folder and environment: those of the parent, else the daemon's. */
export function placedSpawn(
  request: SpawnRequest,
  unit: string | undefined,
  { dataDir, environment, parent }: DefaultsPorts,
): { request: PlacedSpawn; notices: string[] } {
  const uuid = parentUuid(request, unit);
  const above = uuid === undefined ? undefined : parent(uuid);
  const env = request.env ?? above?.env ?? environment;
  const given = request.cwd ?? above?.cwd;
  if (given !== undefined) return { request: { ...request, cwd: given, env }, notices: [] };
  const cwd = defaultFolder(dataDir);
  return { request: { ...request, cwd, env }, notices: [`no folder was given: it runs in ${cwd}`] };
}

/** A separate folder: in the home folder, the run could change all files of the user. */
function defaultFolder(dataDir: string): string {
  const folder = join(dataDir, "workspace");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return folder;
}

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
