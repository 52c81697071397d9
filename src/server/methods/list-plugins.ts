import type { PluginReport } from "../../plugin/host/report.ts";
import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";

export const listPlugins = method({
  payload: ProjectRequest,
  handle(payload, { catalog }): Promise<{ plugins: PluginReport[] }> {
    return catalog.plugins(payload);
  },
});
