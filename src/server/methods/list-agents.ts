import type { AgentWire, Diagnostic } from "../../protocol/methods.ts";
import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";

export const listAgents = method({
  payload: ProjectRequest,
  handle(payload, { catalog }): Promise<{ agents: AgentWire[]; diagnostics: Diagnostic[] }> {
    return catalog.agents(payload);
  },
});
