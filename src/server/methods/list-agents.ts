/** The method list_agents. */

import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";

export const listAgents = method({
  payload: ProjectRequest,
  handle: async (payload, { catalog }) => (await catalog()).agents(payload),
});
