/** What `rnix trust` shows and binds. */

import { existsSync } from "node:fs";
import { visible, visibleWords } from "../plugin/visible.ts";
import { projectAgents } from "./agents/agents.ts";
import { type ConfigSources, unreadable } from "./config-sources.ts";
import { filesOfInit, type InitFile, loadProjectInit, projectInitFile } from "./init.ts";
import { projectMcpFiles } from "./mcp/mcp.ts";
import { saidServer } from "./mcp/mcp-entry.ts";
import { loadProviders } from "./providers/providers.ts";
import { loadSettings } from "./settings/settings.ts";
import { projectSkills } from "./skills/skills.ts";
import type { Trust, TrustItem, TrustRequest } from "./trust/trust.ts";
import { projectWorkflows } from "./workflows/workflows.ts";

/** A plugin of the project, which was read and not run. */
interface PluginFiles {
  name: string;
  /** Absolute: its entry first, then all its imports. */
  files: readonly string[];
  /** Paths and tools of stock plugins that it replaces. Shown to the user who decides. */
  takes?: readonly string[];
}

/** All that needs trust, by the table of project keys. Fails with INVALID when a configuration file can't be read. */
export async function trustItems(
  sources: ConfigSources,
  trust: Trust,
  plugins: readonly PluginFiles[],
): Promise<TrustItem[]> {
  if (sources.project.kind === "none") return [];
  const requests = [
    ...plugins.map(pluginRequest),
    ...(await loadSettings(sources)).asked,
    ...(await loadProviders(sources)).asked,
    ...(await projectMcpFiles(sources)),
    ...(await initRequests(sources)),
    ...(await projectAgents(sources)),
    ...projectSkills(sources),
    ...projectWorkflows(sources),
  ];
  // The user decides by what is shown: no part of it may hide.
  return requests.map((request) => trust.item({ ...request, what: visible(request.what) }));
}

function pluginRequest({ name, files, takes = [] }: PluginFiles): TrustRequest {
  const instead = takes.length === 0 ? "" : `, in place of the stock ${takes.join(", ")}`;
  const what = `plugin ${name}: runs as you, ${files.length} ${files.length === 1 ? "file" : "files"}${instead}`;
  return { kind: "plugin", name, what, file: files[0] ?? name, files: files.map((path) => ({ path })) };
}

async function initRequests({ project }: ConfigSources): Promise<TrustRequest[]> {
  const file = projectInitFile(project);
  if (file === null || !existsSync(file)) return [];
  // A malformed file is bound as it is, and starts nothing.
  const init = await loadProjectInit(file).catch(unreadable);
  const what = ["services started with the daemon", ...(init ? startedBy(init) : [])].join("; ");
  const named = init ? filesOfInit(init, project.dir) : undefined;
  return [{ kind: "init", name: ".rnix/init.yaml", what, file, files: [{ path: file }], named }];
}

function startedBy({ services, supervisors }: InitFile): string[] {
  return [
    ...services.map((one) =>
      one.type === "mcp"
        ? saidServer(one.name, one.config)
        : `${one.name} runs ${visibleWords(one.config.argv)}`,
    ),
    ...supervisors.flatMap(({ name, children }) =>
      children.map(
        ({ id, options, intent }) => `${name}/${id} runs agent ${options.agent ?? "default"}: ${intent}`,
      ),
    ),
  ];
}
