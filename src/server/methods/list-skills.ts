import type { Diagnostic, SkillWire } from "../../protocol/methods.ts";
import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";

export const listSkills = method({
  payload: ProjectRequest,
  handle(payload, { catalog }): Promise<{ skills: SkillWire[]; diagnostics: Diagnostic[] }> {
    return catalog.skills(payload);
  },
});
