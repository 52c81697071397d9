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
  const names = mcp.map((server) => (typeof server === "string" ? server : server.name));
  /** A key with its value, what is said of it, and whether it goes beyond the user's own. undefined: it is not set. */
  type Written = [key: string, value: unknown, says: string, widens?: boolean];
  const keys: (Written | undefined)[] = [
    takes === undefined ? undefined : ["name", front.name, `in place of ${takes} of this name`],
    [
      "allowed_tools",
      allowed_tools,
      `tools ${allowed_tools.join(", ")}`,
      readOnlyRules(allowed_tools).left.length > 0,
    ],
    models && ["models", models, `models ${JSON.stringify(models)}`],
    mcp.length > 0 ? ["mcp", mcp, `MCP servers ${names.join(", ")}`] : undefined,
    ...AGENT_SETTINGS.map((key): Written | undefined => {
      const value = front[key];
      if (value === undefined) return undefined;
      return [key, value, `${key} ${formatLimit(value, SETTINGS[key])}`, isBeyond(value, limits[key])];
    }),
    ...SANDBOX_KEYS.map(([key, strict]): Written | undefined => {
      const value = front[key];
      return value && [key, value, `${key} ${value}`, value !== strict];
    }),
    checks.length > 0 ? ["checks", checks, `checks ${checks.join("; ")}`] : undefined,
  ];
  return keys.flatMap((written) => {
    if (!written) return [];
    const [key, value, says, widens] = written;
    return asksTrust(FILE, key, widens) ? [{ key, value, says }] : [];
  });
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
