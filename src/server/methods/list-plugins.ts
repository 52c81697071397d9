import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Services } from "../services.ts";

export function listPlugins(
  payload: Payload<"list_plugins">,
  { catalog }: Services,
): Promise<Answers["list_plugins"]> {
  return catalog.plugins(payload);
}
