import { z } from "zod";
import type { ToolWire } from "../../protocol/methods.ts";
import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";

export const listTools = method({
  payload: () => ProjectRequest().extend({ agent: z.string().optional() }),
  handle(payload, { catalog }): Promise<{ tools: ToolWire[] }> {
    return catalog.tools(payload, payload.agent);
  },
});
