import type { Answers, Payload } from "../../protocol/methods.ts";
import type { System } from "../services.ts";

export function listPlugins(
  payload: Payload<"list_plugins">,
  { catalog }: System,
): Promise<Answers["list_plugins"]> {
  return catalog.plugins(payload);
}
