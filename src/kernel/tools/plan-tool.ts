/*
 * Decides whether the model of a process is offered the tool Plan. A run keeps one list: the tasks that it shares with its
 * sub-agents, or a plan of its own if its agent names that tool. Plan may be called even if it is not offered.
 */

import { plan } from "../devices/plan.ts";
import type { Permissions } from "../permission/permissions.ts";
import type { AgentInfo } from "../types.ts";

const NAMED = new RegExp(`\\b${plan.tool.name}\\b|${plan.path}\\b`);

export function isPlanTool(path: string): boolean {
  return path === plan.path;
}

/** Whether the agent's list or instructions, or a rule of the run, names it. `*` names none. */
export function offersPlan(
  { allowedTools, instructions }: Pick<AgentInfo, "allowedTools" | "instructions">,
  permissions: Permissions,
): boolean {
  const [own = []] = permissions.record().allow;
  return [...allowedTools, ...own, instructions].some((text) => NAMED.test(text));
}
