import type { Answers, Payload } from "../protocol.ts";
import type { System } from "../system.ts";

export function listTools(
  payload: Payload<"list_tools">,
  { catalog }: System,
): Promise<Answers["list_tools"]> {
  return catalog.tools(payload, payload.agent);
}
