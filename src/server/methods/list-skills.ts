import type { Answers, Payload } from "../../protocol/methods.ts";
import type { System } from "../services.ts";

export function listSkills(
  payload: Payload<"list_skills">,
  { catalog }: System,
): Promise<Answers["list_skills"]> {
  return catalog.skills(payload);
}
