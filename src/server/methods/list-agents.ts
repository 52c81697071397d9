import type { Answers, Payload } from "../protocol.ts";
import type { System } from "../system.ts";

export function listAgents(
  payload: Payload<"list_agents">,
  { catalog }: System,
): Promise<Answers["list_agents"]> {
  return catalog.agents(payload);
}
