import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Services } from "../services.ts";

export function listSkills(
  payload: Payload<"list_skills">,
  { catalog }: Services,
): Promise<Answers["list_skills"]> {
  return catalog.skills(payload);
}
