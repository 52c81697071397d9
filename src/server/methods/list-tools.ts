import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Services } from "../services.ts";

export function listTools(
  payload: Payload<"list_tools">,
  { catalog }: Services,
): Promise<Answers["list_tools"]> {
  return catalog.tools(payload, payload.agent);
}
