/** What `rnix trust` shows and binds. */

import { existsSync } from "node:fs";
import { visible, visibleWords } from "../plugin/visible.ts";
import { AGENT_CHECKS, projectAgents } from "./agents/agents.ts";
import { type ConfigSources, unreadable } from "./config-sources.ts";
import { filesOfLine } from "./files/named-files.ts";
import { filesOfInit, type InitFile, loadProjectInit, projectInitFile } from "./init.ts";
import { saidServer } from "./mcp/mcp-entry.ts";
import { projectMcpFiles } from "./mcp/mcp-files.ts";
import { loadProviders } from "./providers/providers.ts";
import { loadSettings } from "./settings/settings.ts";
import { projectSkills } from "./skills/skills.ts";
import { alwaysPart, type Trust, type TrustItem } from "./trust/trust.ts";
import { projectWorkflows } from "./workflows/workflows.ts";

/** A plugin of the project, which was read and not run. */
interface PluginFiles {
  name: string;
  /** Absolute: its entry first, then all its imports. */
  files: readonly string[];
  /** Paths and tools of stock plugins that it replaces. Shown to the user who decides. */
  takes?: readonly string[];
}

/**
 * Everything in the project that needs trust, by the table of project keys. Empty without a project. Fails with INVALID
 * when a configuration file cannot be read.
 */
export async function trustItems(
  sources: ConfigSources,
  trust: Trust,
  plugins: readonly PluginFiles[],
): Promise<TrustItem[]> {
  if (sources.project.kind === "none") return [];
  const items = [
    ...plugins.map((plugin) => pluginItem(trust, plugin)),
    ...(await configItems(sources, trust)),
    ...(await providerItems(sources, trust)),
    ...(await mcpItems(sources, trust)),
    ...(await initItems(sources, trust)),
    ...(await agentItems(sources, trust)),
    ...skillItems(sources, trust),
    ...workflowItems(sources, trust),
  ];
  // The user decides by what is shown: no part of it may hide.
  return items.map((item) => ({ ...item, what: visible(item.what) }));
}

function pluginItem(trust: Trust, { name, files, takes = [] }: PluginFiles): TrustItem {
  const instead = takes.length === 0 ? "" : `, in place of the stock ${takes.join(", ")}`;
  const what = `plugin ${name}: runs as you, ${files.length} ${files.length === 1 ? "file" : "files"}${instead}`;
  return trust.files({ kind: "plugin", name, what, file: files[0] ?? name }, files);
}

async function configItems(sources: ConfigSources, trust: Trust): Promise<TrustItem[]> {
  const { asked } = await loadSettings(sources);
  return asked.map(({ file, key, value, says }) => {
    const isRule = typeof value === "string" && key === alwaysPart(value);
    const item = {
      kind: isRule ? "always" : "config",
      name: isRule ? value : key,
      what: says,
      file,
    } as const;
    return trust.parts(item, { [key]: value });
  });
}

async function providerItems(sources: ConfigSources, trust: Trust): Promise<TrustItem[]> {
  const { asked } = await loadProviders(sources);
  const { dir } = sources.project;
  return asked.map(({ name, file, part, value }) => {
    if (typeof value === "string") {
      return trust.parts(
        { kind: "provider", name: part, what: `${part}: ${value}`, file },
        { [part]: value },
      );
    }
    const says = Object.entries(value).map(([key, said]) => `${key} ${JSON.stringify(said)}`);
    const what = `provider ${name}: ${says.join(", ")}`;
    const item = trust.parts({ kind: "provider", name, what, file }, { [part]: value });
    return trust.withNamed(item, filesOfLine(value.api_key_command ?? "", dir, dir));
  });
}

async function mcpItems(sources: ConfigSources, trust: Trust): Promise<TrustItem[]> {
  return (await projectMcpFiles(sources)).map(({ path, named, says }) => {
    const name = path.slice(sources.project.dir.length + 1);
    const what = `MCP servers: ${says.join("; ") || "none that can be read"}`;
    return trust.withNamed(trust.files({ kind: "mcp", name, what, file: path }, [path]), named);
  });
}

async function initItems({ project }: ConfigSources, trust: Trust): Promise<TrustItem[]> {
  const file = projectInitFile(project);
  if (file === null || !existsSync(file)) return [];
  // A malformed file is bound as it is, and starts nothing.
  const init = await loadProjectInit(file).catch(unreadable);
  const says = init ? startedBy(init) : [];
  const what = ["services started with the daemon", ...says].join("; ");
  const item = trust.files({ kind: "init", name: ".rnix/init.yaml", what, file }, [file]);
  return [init ? trust.withNamed(item, filesOfInit(init, project.dir)) : item];
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

/** Two items per agent: its checks, because they are commands, and its other keys. */
async function agentItems(sources: ConfigSources, trust: Trust): Promise<TrustItem[]> {
  return (await projectAgents(sources)).flatMap(({ name, file, asked, named }) => {
    const checks = asked.filter(({ key }) => key === AGENT_CHECKS);
    const others = asked.filter(({ key }) => key !== AGENT_CHECKS);
    const item = (kind: "agent" | "checks", of: typeof asked): TrustItem[] => {
      if (of.length === 0) return [];
      const what = `agent ${name}: ${of.map(({ says }) => says).join("; ")}`;
      const parts = Object.fromEntries(of.map(({ key, value }) => [key, value]));
      return [trust.parts({ kind, name, what, file }, parts)];
    };
    return [...item("agent", others), ...item("checks", checks).map((one) => trust.withNamed(one, named))];
  });
}

function workflowItems(sources: ConfigSources, trust: Trust): TrustItem[] {
  return projectWorkflows(sources).map(({ name, path, description }) => {
    const what = `workflow ${name}: starts agents with the rights of its run${description && `; ${description}`}`;
    return trust.files({ kind: "workflow", name, what, file: path }, [path]);
  });
}

function skillItems(sources: ConfigSources, trust: Trust): TrustItem[] {
  return projectSkills(sources).flatMap(({ name, file, scripts, takes, written }) => {
    const items: TrustItem[] = [];
    if (takes !== undefined) {
      const what = `skill ${name}: in place of ${takes} of this name`;
      items.push(trust.parts({ kind: "skill", name, what, file }, { name }));
    }
    if (written !== undefined) {
      const what = `skill ${name}, written by ${written}`;
      items.push(trust.files({ kind: "skill", name, what, file }, [file]));
    }
    if (scripts.length > 0) {
      const what = `${scripts.length} scripts of the skill ${name}`;
      items.push(trust.files({ kind: "scripts", name, what, file }, scripts));
    }
    return items;
  });
}
