import type { Answers, Payload } from "../protocol.ts";
import type { System } from "../system.ts";

export function listPlugins(
  payload: Payload<"list_plugins">,
  { catalog }: System,
): Promise<Answers["list_plugins"]> {
  return catalog.plugins(payload);
}
