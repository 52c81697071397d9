import type { Answers, Payload } from "../../protocol/methods.ts";
import type { System } from "../services.ts";

export function listTools(
  payload: Payload<"list_tools">,
  { catalog }: System,
): Promise<Answers["list_tools"]> {
  return catalog.tools(payload, payload.agent);
}
