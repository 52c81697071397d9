import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Services } from "../services.ts";

export function listAgents(
  payload: Payload<"list_agents">,
  { catalog }: Services,
): Promise<Answers["list_agents"]> {
  return catalog.agents(payload);
}
