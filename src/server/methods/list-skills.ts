import type { Answers, Payload } from "../protocol.ts";
import type { System } from "../system.ts";

export function listSkills(
  payload: Payload<"list_skills">,
  { catalog }: System,
): Promise<Answers["list_skills"]> {
  return catalog.skills(payload);
}
