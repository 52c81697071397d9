import type { Answers, Payload } from "../../protocol/methods.ts";
import type { System } from "../services.ts";

export function listAgents(
  payload: Payload<"list_agents">,
  { catalog }: System,
): Promise<Answers["list_agents"]> {
  return catalog.agents(payload);
}
