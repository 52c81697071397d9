/** The method list_skills. */

import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";

export const listSkills = method({
  payload: ProjectRequest,
  handle: async (payload, { catalog }) => (await catalog()).skills(payload),
});
