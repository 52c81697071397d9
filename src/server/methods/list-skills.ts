/** The method list_skills. */

import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";

export const listSkills = method({
  payload: ProjectRequest,
  handle: (payload, { catalog }) => catalog.skills(payload),
});
