import type { Answers, Payload } from "../protocol.ts";
import type { System } from "../system.ts";

export function listProviders(
  payload: Payload<"list_providers">,
  { catalog }: System,
): Promise<Answers["list_providers"]> {
  return catalog.providers(payload, payload.probe ?? false);
}
