/** The commands that need no server: they read and write files of the user and the project. */

import { dirname, join } from "node:path";
import { type ConfigSources, embeddedNames } from "../config/config-sources.ts";
import { namedKeys, userEnv } from "../config/environment/environment.ts";
import { type Env, homeNotice, thisUser, userPaths } from "../config/environment/paths.ts";
import { readText } from "../config/files/file.ts";
import type { McpFileEditor } from "../config/mcp/edit-mcp.ts";
import type { McpServerList } from "../config/mcp/mcp.ts";
import { findProject, type Project } from "../config/project/project.ts";
import {
  type AlwaysRule,
  describeSettings,
  loadSettings,
  modesOf,
  type SettingLine,
  type Settings,
} from "../config/settings/settings.ts";
import { type ReviewedItem, Trust } from "../config/trust/trust.ts";
import type { loadWorkflows } from "../config/workflows/workflows.ts";
import type { AskMode } from "../lib/ask-modes.ts";
import type { SettingValues } from "../options/settings.ts";
import { startProgram } from "../os/channel.ts";
import type { CheckReport } from "../plugin/host/report.ts";
import type { CommandSpec } from "../plugin/index.ts";
import { daemonLogPath } from "../protocol/daemon-paths.ts";

/**
 * The CLI's access to config and plugin/host. Loaded by the commands that need it; heavy modules are loaded at their
 * first use.
 */
export { prepareProject } from "../config/project/project.ts";
export { checkSkills } from "../config/skills/skills.ts";
export type { CheckReport, Project, ReviewedItem, SettingLine };
export { homeNotice, userPaths };

/** Maximum bytes read of the daemon's log. The daemon writes less; more comes from another program. */
const MAX_LOG_BYTES = 16 * 1024 ** 2;

interface Where {
  /** Absolute. */
  cwd: string;
  env: Env;
}

/** Every setting with its value here, and the settings withheld from an untrusted project. */
export async function settings(where: Where): Promise<{ lines: SettingLine[]; withheld: string[] }> {
  const loaded = await loadHere(where);
  return { lines: describeSettings(loaded), withheld: loaded.withheld };
}

/** The values in effect here, for a command that uses them itself. */
export async function settingValues(where: Where): Promise<SettingValues> {
  return (await loadHere(where)).values;
}

/** The mode of a conversation that begins here without a flag. */
export async function usualMode(where: Where): Promise<AskMode> {
  return modesOf((await loadHere(where)).words.ask).byHand;
}

function loadHere(where: Where): Promise<Settings> {
  return loadSettings(sourcesOf(where));
}

/** Where the configuration of this folder comes from, beside what is in the binary. */
function sourcesOf(where: Where) {
  const { configDir, dataDir, home } = userPaths(where.env);
  const project = projectOf(where);
  return { configDir, dataDir, home, project, trust: new Trust(dataDir, project) };
}

export function projectOf({ cwd, env }: Where): Project {
  const { home } = userPaths(env);
  return findProject({ cwd, home, uid: thisUser().uid, env });
}

/** What of a project is trusted, and what can be trusted. */
export interface TrustReview {
  project: Project;
  trust: Trust;
  /** What is not asked for here, by the user's file and the project's. */
  always: AlwaysRule[];
  /** Removes rules from the project's file; returns those that it does not have. */
  askAgain(rules: readonly string[]): Promise<string[]>;
  items: ReviewedItem[];
  /** Plugins of the project that can't be read: they are not loaded, trusted or not. */
  problems: string[];
}

/** Reads all parts of the project that need trust, and runs none of them. */
export async function reviewTrust(where: Where): Promise<TrustReview> {
  const { configDir, dataDir, home, project, trust } = sourcesOf(where);
  const [{ trustItems }, { PluginHost }] = await Promise.all([
    import("../config/trust-items.ts"),
    import("../plugin/host/host.ts"),
  ]);
  const host = new PluginHost({ configDir, start: startProgram });
  try {
    const plugins = await host.review({ ...project, isTrusted: () => false });
    // Includes the stock ones, whose names a project's agent or skill may replace.
    const { embeddedAgents, embeddedSkills } = await import("../plugin/host/embedded.ts");
    const [agents, skills] = await Promise.all([embeddedAgents(), embeddedSkills()]);
    const sources: ConfigSources = { project, trust, configDir, home, agents, skills };
    const items = await trustItems(sources, trust, plugins);
    const problems = plugins.flatMap(({ name, problems }) =>
      problems.map(({ message }) => `plugin ${name}: ${message}`),
    );
    const { allowAlways: always } = await loadSettings(sources);
    const askAgain = async (rules: readonly string[]): Promise<string[]> => {
      const { withdrawAlways } = await import("../config/settings/always-rules.ts");
      return withdrawAlways(dataDir, project, rules);
    };
    return { project, trust, always, askAgain, items: trust.review(items), problems };
  } finally {
    await host.close();
  }
}

/** Changes the servers of the user's file, or of the project's. */
export async function editMcpServers(where: Where, of: "user" | "project"): Promise<McpFileEditor> {
  const { McpFileEditor } = await import("../config/mcp/edit-mcp.ts");
  return new McpFileEditor(sourcesOf(where), of);
}

/** The MCP servers that files of the user and the project name here. */
export async function mcpServers(where: Where): Promise<McpServerList> {
  const { listMcpServers } = await import("../config/mcp/mcp.ts");
  return listMcpServers(sourcesOf(where));
}

/** The saved workflows of the project and the user. */
export async function savedWorkflows(where: Where): Promise<ReturnType<typeof loadWorkflows>> {
  const workflows = await import("../config/workflows/workflows.ts");
  return workflows.loadWorkflows(sourcesOf(where));
}

/** The names of the agents inside the binary. */
export async function stockAgents(): Promise<string[]> {
  const { embeddedAgents } = await import("../plugin/host/embedded.ts");
  return embeddedNames(await embeddedAgents());
}

/** The names of the skills inside the binary. */
export async function stockSkills(): Promise<string[]> {
  const { embeddedSkills } = await import("../plugin/host/embedded.ts");
  return embeddedNames(await embeddedSkills());
}

/** Whether there are plugins beside the stock ones, trusted or not. */
export async function hasOwnPlugins(where: Where): Promise<boolean> {
  const [{ besideBinary, findPlugins, pluginFolders }, { compiled, embeddedPlugins }] = await Promise.all([
    import("../plugin/host/folders.ts"),
    import("../plugin/host/embedded.ts"),
  ]);
  const { configDir, project } = sourcesOf(where);
  const { dir, kind } = project;
  const beside = compiled ? besideBinary() : null;
  const folders = pluginFolders(configDir, kind === "none" ? null : { dir, workTree: dir }, beside);
  const stock = embeddedPlugins().map(({ name }) => name);
  return findPlugins(folders).some(({ name, layer }) => layer !== "stock" || !stock.includes(name));
}

/** The commands of the stock plugins. */
export async function stockCommands(): Promise<CommandSpec[]> {
  const { embeddedCommands } = await import("../plugin/host/embedded.ts");
  return embeddedCommands();
}

/** Names of the plugins inside the binary, which a project's plugin should not have. */
export async function stockPlugins(): Promise<string[]> {
  const { embeddedPlugins } = await import("../plugin/host/embedded.ts");
  return embeddedPlugins().map(({ name }) => name);
}

/**
 * Reads a plugin and loads it on trial, which runs its code: one of the user's own, one that its project's trust
 * covers, or any with the user's consent (`run`).
 */
export async function checkPlugin(file: string, env: Env, run: boolean): Promise<CheckReport> {
  const { PluginHost } = await import("../plugin/host/host.ts");
  const { configDir, dataDir } = userPaths(env);
  const host = new PluginHost({ configDir, start: startProgram });
  const isUsers = file.startsWith(join(configDir, "plugins", "/"));
  try {
    const report = await host.check(file, (files) => {
      if (run || isUsers) return true;
      const project = projectOf({ cwd: dirname(file), env });
      return new Trust(dataDir, project).allows({ files });
    });
    const set = namedKeys(report.secrets, [env, userEnv(configDir)]);
    for (const name of report.secrets.filter((key) => set[key] === undefined)) {
      report.warnings.push({
        message: `${name} is not set. Write ${name}=… into ${join(configDir, "env")} (chmod 600).`,
      });
    }
    return report;
  } finally {
    await host.close();
  }
}

/** The lines of the daemon's log, also after its end; the oldest first. */
export function readDaemonLog(env: Env): string[] {
  return readLog(daemonLogPath(userPaths(env).dataDir));
}

/** What the MCP servers of this name have printed, in any project; the oldest line first. */
export async function readMcpLog(env: Env, name: string): Promise<string[]> {
  const { mountLogPath } = await import("./daemon/daemon-log.ts");
  return readLog(mountLogPath(userPaths(env).dataDir, `mcp ${name}`));
}

function readLog(path: string): string[] {
  const text = [`${path}.1`, path].map((file) => readText(file, MAX_LOG_BYTES) ?? "").join("");
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

/** Lists them and ends none: the next start of the server does that. */
export async function leftovers(env: Env): Promise<ReturnType<typeof leftRunning>> {
  const [{ leftRunning }, { processTable }, { KernelLocks, kernelFolders }] = await Promise.all([
    import("../os/sweep.ts"),
    import("../os/process-table.ts"),
    import("./daemon/kernel-locks.ts"),
  ]);
  const folders = kernelFolders(userPaths(env).dataDir);
  const locks = new KernelLocks(folders.locks);
  return leftRunning(folders.ledgers, (id) => locks.isAlive(id), processTable());
}
