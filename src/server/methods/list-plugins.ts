/** The method list_plugins. */

import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";

export const listPlugins = method({
  payload: ProjectRequest,
  handle: (payload, { catalog }) => catalog.plugins(payload),
});
