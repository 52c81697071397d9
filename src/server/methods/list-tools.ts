/** The method list_tools. */

import { z } from "zod";
import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";

export const listTools = method({
  payload: () => ProjectRequest().extend({ agent: z.string().optional() }),
  handle: async (payload, { catalog }) => (await catalog()).tools(payload, payload.agent),
});
