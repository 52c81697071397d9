/** The method list_commands. */

import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";

export const listCommands = method({
  payload: ProjectRequest,
  handle: async (payload, { catalog }) => (await catalog()).commands(payload),
});
