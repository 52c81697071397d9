/** The method list_plugins. */

import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";

export const listPlugins = method({
  payload: ProjectRequest,
  handle: async (payload, { catalog }) => (await catalog()).plugins(payload),
});
