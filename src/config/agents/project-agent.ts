/** What an agent of a project may do before it is trusted. */

import type { Limits } from "../../options/definitions.ts";
import { AGENT_SETTINGS, SETTINGS } from "../../options/settings.ts";
import { formatLimit } from "../files/values.ts";
import { isBeyond } from "../settings/settings.ts";
import { asksTrust } from "../trust/project-keys.ts";
import type { AgentFront } from "./agent-file.ts";

/** The read-only tools of the default agent, and the only tools of an untrusted agent. */
export const READ_ONLY_TOOLS = ["Read", "Glob", "Grep", "Plan", "Skill", "Complete"] as const;

/** A key of a project's agent.yaml that needs trust. */
export interface AskedKey {
  key: string;
  value: unknown;
  /** Shown to the user who decides. */
  says: string;
}

const FILE = "agents/*/agent.yaml";
/** Keys that are not left out: a run that needs them is refused. */
const SAID_ELSEWHERE: ReadonlySet<string> = new Set(["checks", "mcp"]);

/** The keys of the sandbox, each with the value that allows least. */
const SANDBOX_KEYS = [
  ["sandbox", "required"],
  ["sandbox_level", "read-only"],
] as const;

/** The keys that need trust. `limits`: the user's, which an agent may lower. `takes`: the agent that it would replace. */
export function askedOf(front: AgentFront, limits: Limits, takes: string | undefined): AskedKey[] {
  const { allowed_tools = ["*"], models, mcp = [], checks = [] } = front;
  const asked: (AskedKey & { widens?: boolean })[] = [
    ...(takes === undefined
      ? []
      : [{ key: "name", value: front.name, says: `in place of ${takes} of this name` }]),
    {
      key: "allowed_tools",
      value: allowed_tools,
      says: `tools ${allowed_tools.join(", ")}`,
      widens: readOnlyRules(allowed_tools).left.length > 0,
    },
    ...(models ? [{ key: "models", value: models, says: `models ${JSON.stringify(models)}` }] : []),
    ...(mcp.length > 0
      ? [{ key: "mcp", value: mcp, says: `MCP servers ${mcp.map(serverName).join(", ")}` }]
      : []),
    ...AGENT_SETTINGS.flatMap((key) => {
      const value = front[key];
      if (value === undefined) return [];
      const says = `${key} ${formatLimit(value, SETTINGS[key])}`;
      return [{ key, value, says, widens: isBeyond(value, limits[key]) }];
    }),
    ...SANDBOX_KEYS.flatMap(([key, strict]) => {
      const value = front[key];
      return value === undefined ? [] : [{ key, value, says: `${key} ${value}`, widens: value !== strict }];
    }),
    ...(checks.length > 0 ? [{ key: "checks", value: checks, says: `checks ${checks.join("; ")}` }] : []),
  ];
  return asked
    .filter(({ key, widens }) => asksTrust(FILE, key, widens))
    .map(({ key, value, says }) => ({ key, value, says }));
}

/** The agent.yaml without the refused keys, and with read-only tools if its tools are refused. */
export function without(front: AgentFront, refused: readonly AskedKey[]): AgentFront {
  const keys = new Set(refused.map(({ key }) => key));
  const rest = Object.entries(front).filter(([key]) => !keys.has(key) || SAID_ELSEWHERE.has(key));
  const kept: AgentFront = { ...Object.fromEntries(rest), name: front.name, description: front.description };
  if (!keys.has("allowed_tools")) return kept;
  return { ...kept, allowed_tools: readOnlyRules(front.allowed_tools ?? ["*"]).kept };
}

/** Splits rules into those for read-only tools (`kept`) and the others (`left`). */
export function readOnlyRules(rules: readonly string[]): { kept: string[]; left: string[] } {
  const kept: string[] = [];
  const left: string[] = [];
  for (const rule of rules) {
    const name = /^[^(]*/.exec(rule)?.[0] ?? "";
    if (READ_ONLY_TOOLS.some((tool) => tool === name)) kept.push(rule);
    else {
      left.push(rule);
      if (rule === "*") kept.push(...READ_ONLY_TOOLS);
    }
  }
  return { kept: [...new Set(kept)], left };
}

function serverName(server: string | { name: string }): string {
  return typeof server === "string" ? server : server.name;
}
