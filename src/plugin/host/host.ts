/** The plugin host: finds, loads and leases the plugins of a project. */

import { dirname } from "node:path";
import type { z } from "zod";
import { issueText } from "../../lib/issue-text.ts";
import { readSchema } from "../../vfs/json-schema.ts";
import { type Plugin, SyscallError } from "../index.ts";
import type { DiskPlugin, DiskPorts, Loadable } from "./disk-plugin.ts";
import { compiled, type EmbeddedPlugin, listDigest, StockPlugins } from "./embedded.ts";
import { besideBinary, findPlugins, type PluginLocation, pluginFolders, withoutCopies } from "./folders.ts";
import { type HostLease, leaseOf, type Mountable } from "./lease.ts";
import { type Confine, type PluginSandbox, realTimers } from "./process-options.ts";
import {
  asProblem,
  type CheckReport,
  declaredBy,
  newReport,
  type PluginReport,
  type Problem,
} from "./report.ts";
import { type FileDigest, nameOf } from "./stock-files.ts";

/** A project with its trust and plugin settings, as the plugin host needs it. */
export interface HostProject {
  id: string;
  /** Where its plugins are. */
  dir: string;
  /** Where its other files are; absent: there, too. */
  workTree?: string;
  /** "none": there is no project, and nothing of the folder is read. */
  kind: "rnix" | "git" | "folder" | "none";
  /** Whether these files (absolute, with their present digests) may run. Called at every lease. */
  isTrusted(files: readonly FileDigest[]): boolean;
  /** The settings of each plugin, by its name (`plugins` of config.yaml). */
  settings?: Readonly<Record<string, unknown>>;
  /** How the processes of plugins from disk are confined. `outside`: the names of plugins that are not. Absent: not at all. */
  sandbox?: Pick<PluginSandbox, "level" | "required"> & { outside: readonly string[] };
}

export interface HostOptions extends Partial<Omit<DiskPorts, "start" | "confine">>, Pick<DiskPorts, "start"> {
  confine?: Confine;
  /** `~/.config/rnix`. */
  configDir: string;
  /** The folder whose `plugins/` counts as stock. By default the executable's; null for none. */
  beside?: string | null;
}

interface ProjectPlugin {
  name: string;
  /** Absolute: its entry first, then all its imports. */
  files: string[];
  /** Paths and tools of stock plugins that its sources name. */
  takes: string[];
  problems: Problem[];
}

/** A plugin that a lease may contain. */
interface Step {
  report: PluginReport;
  /** Set if it is the nearest of its name and may run. */
  load?: () => Promise<Loading>;
}

/** The result of loading: the plugin, held until `release`, or its problems. */
interface Loading {
  held?: { plugin: Plugin; release: () => void };
  problems: readonly Problem[];
}

/** Loads again if a version ends before it is held, because another run has loaded a newer one. */
const MOST_ATTEMPTS = 3;
const IDLE_MS = 5 * 60_000;

/**
 * Finds, checks, loads and reloads plugins . Stock plugins run in this thread and are imported on first use.
 * Plugins from disk have a process per version. A broken, untrusted or hanging plugin is reported and affects no other.
 */
export class PluginHost {
  readonly #configDir: string;
  readonly #beside: string | null;
  readonly #ports: DiskPorts;
  readonly #confine: Confine | undefined;
  readonly #stock = new StockPlugins();
  readonly #disk = new Map<string, DiskPlugin>();
  /** The lease of all runs that have stock plugins only, without settings. */
  #stockLease: Promise<HostLease> | undefined;
  #closed = false;

  constructor({ configDir, beside = compiled ? besideBinary() : null, confine, ...ports }: HostOptions) {
    this.#confine = confine;
    this.#configDir = configDir;
    this.#beside = beside;
    this.#ports = { timers: realTimers, now: Date.now, idleMs: IDLE_MS, confine: async () => null, ...ports };
  }

  /**
   * The devices of a run in this project, from the present files. They are held until `release`: if a plugin changes
   * later, this lease keeps its version. A plugin that can't be loaded is in `reports`.
   */
  async lease(project: HostProject): Promise<HostLease> {
    if (this.#closed) throw new SyscallError("CLOSED", "The plugin host is closed.");
    const found = this.#look(project);
    if (found.length > 0 || Object.keys(project.settings ?? {}).length > 0) return this.#make(found, project);
    this.#stockLease ??= this.#make([], project);
    return this.#stockLease;
  }

  async #make(found: readonly PluginLocation[], project: HostProject): Promise<HostLease> {
    const steps = await this.#steps(found, project);
    const loaded = await Promise.all(steps.map((step) => this.#load(step, project.settings)));
    const reports = steps.map(({ report }) => report);
    return leaseOf(
      reports,
      loaded.filter((one) => one !== undefined),
    );
  }

  /** The state of all plugins, for `rnix plugins`. Loads what a run would load. */
  async list(project: HostProject): Promise<PluginReport[]> {
    const lease = await this.lease(project);
    lease.release();
    return lease.reports;
  }

  /** The project's own plugins, read without running them, for `rnix trust`. */
  async review(project: HostProject): Promise<ProjectPlugin[]> {
    const all = this.#look(project);
    const own = all.filter(({ layer, refused }) => layer === "project" && refused === undefined);
    return Promise.all(
      own.map(async (found) => {
        const { files, problems } = await (await this.#diskPlugin(found, project)).read();
        const others = files.map(({ path }) => path).filter((path) => path !== found.entry);
        const takes = await this.#stock.mentionedBy(found.name, files);
        return { name: found.name, files: [found.entry, ...others], takes, problems: [...problems] };
      }),
    );
  }

  /**
   * Reads the file, then loads it in a process of its own if `mayRun` allows what was read. Loading runs its code. `file`:
   * absolute.
   */
  async check(file: string, mayRun: HostProject["isTrusted"]): Promise<CheckReport> {
    const { checkPlugin } = await import("./check.ts");
    return checkPlugin(nameOf(file), file, mayRun, this.#stock, this.#ports);
  }

  /** Ends all processes and disposes of the stock plugins. Open files fail with CLOSED. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([this.#stock.dispose(), ...[...this.#disk.values()].map((plugin) => plugin.end())]);
    this.#disk.clear();
  }

  /** All plugins, farthest first. Overridden and untrusted ones are already reported. */
  async #steps(found: readonly PluginLocation[], project: HostProject): Promise<Step[]> {
    const disk = await Promise.all(found.map((one) => this.#readStep(one, project)));
    const steps = [...this.#stock.all.map((stock) => this.#stockStep(stock)), ...disk];
    const winners = new Map(steps.filter(({ load }) => load).map((step) => [step.report.name, step]));
    for (const step of steps) {
      if (!step.load || winners.get(step.report.name) === step) continue;
      step.load = undefined;
      step.report.state = "overridden";
    }
    return steps;
  }

  #stockStep(stock: EmbeddedPlugin): Step {
    const report = newReport(stock.name, "stock", "embedded");
    report.version = short(stock.digest);
    const held = async () => ({ plugin: await this.#stock.load(stock), release: () => {} });
    return { report, load: async () => ({ held: await held(), problems: [] }) };
  }

  async #readStep(found: PluginLocation, project: HostProject): Promise<Step> {
    const report = newReport(found.name, found.layer, found.entry);
    if (found.refused !== undefined) {
      report.problems.push({ message: found.refused });
      return { report };
    }
    const plugin = await this.#diskPlugin(found, project);
    const { files, problems, code } = await plugin.read();
    if (files.length > 0) report.version = short(listDigest(files));
    if (found.layer === "project" && !project.isTrusted(files)) {
      report.state = "untrusted";
      report.problems.push(...problems);
      return { report };
    }
    if (code === null) return { report, load: async () => ({ problems }) };
    return { report, load: () => loadDisk(plugin, { files, code }) };
  }

  /** Loads a plugin and writes the result into its report. Never throws. */
  async #load({ report, load }: Step, settings: HostProject["settings"]): Promise<Mountable | undefined> {
    let release: (() => void) | undefined;
    try {
      const loading = await load?.();
      report.problems.push(...(loading?.problems ?? []));
      if (!loading?.held) return undefined;
      const { plugin } = loading.held;
      release = loading.held.release;
      const given = settings?.[plugin.name];
      const config =
        given === undefined && report.runs === "kernel" ? defaultsOf(plugin) : pluginSettings(plugin, given);
      if (report.runs === "worker") report.takes = await this.#stock.takenBy(plugin.name, plugin);
      Object.assign(report, { state: "loaded", ...declaredBy(plugin) });
      return { report, plugin, config, release };
    } catch (thrown) {
      release?.();
      report.problems.push(asProblem(thrown));
      return undefined;
    }
  }

  /** The plugins on disk, farthest first, without copies of embedded ones. Retires removed ones. */
  #look({ dir, workTree = dir, kind }: HostProject): PluginLocation[] {
    const own = kind === "none" ? null : { dir, workTree };
    const folders = pluginFolders(this.#configDir, own, this.#beside);
    const all = findPlugins(folders);
    const entries = new Set(all.map(({ entry }) => entry));
    for (const [key, plugin] of this.#disk) {
      const { entry } = plugin;
      if (entries.has(entry) || !folders.some(({ path }) => entry.startsWith(`${path}/`))) continue;
      plugin.retire();
      this.#disk.delete(key);
    }
    return withoutCopies(all, (name) => this.#stock.named(name));
  }

  /** A plugin of several projects has a process for each, where those are confined. */
  async #diskPlugin({ name, entry }: PluginLocation, project: HostProject): Promise<DiskPlugin> {
    // The process's code and zod are loaded with the first plugin from disk.
    const { DiskPlugin } = await import("./disk-plugin.ts");
    const sandbox = this.#confine && sandboxOf(name, entry, project);
    const key = sandbox ? JSON.stringify([entry, sandbox]) : entry;
    const confine = async () => (sandbox && (await this.#confine?.(sandbox))) ?? null;
    const made = () => new DiskPlugin(name, entry, { ...this.#ports, confine });
    return this.#disk.getOrInsertComputed(key, made);
  }
}

function sandboxOf(
  name: string,
  entry: string,
  { sandbox, id, kind, dir, workTree = dir }: HostProject,
): PluginSandbox | undefined {
  if (!sandbox || sandbox.outside.some((one) => one === name || one === "*")) return undefined;
  const { level, required } = sandbox;
  return { level, required, id, project: kind === "none" ? null : workTree, folder: dirname(entry) };
}

async function loadDisk(plugin: DiskPlugin, read: Loadable): Promise<Loading> {
  try {
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const version = await plugin.load(read);
      if (!version.usable) continue;
      return { held: { plugin: version.plugin, release: version.hold() }, problems: plugin.problems };
    }
    const message = "It ended again and again right after it was loaded.";
    return { problems: [{ message }, ...plugin.problems] };
  } catch (thrown) {
    return { problems: [...plugin.problems, asProblem(thrown)] };
  }
}

/** A short digest that distinguishes versions. */
function short(digest: string): string {
  return digest.slice(0, 12);
}

/**
 * The plugin's settings from config.yaml, checked against its configSchema and completed with the schema's defaults.
 * Fails with INVALID for settings that do not fit. A plugin without a schema gets no settings.
 */
function pluginSettings({ name, configSchema }: Plugin, part: unknown): unknown {
  if (!configSchema) {
    if (part === undefined) return undefined;
    const message = `config.yaml has settings for plugin ${name}, which takes none. Remove plugins.${name}.`;
    throw new SyscallError("INVALID", message);
  }
  const parsed = schemas.getOrInsertComputed(configSchema, readSchema).safeParse(part ?? {});
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map((issue) => ({ ...issue, path: ["plugins", name, ...issue.path] }));
  const message = `The settings of plugin ${name} in config.yaml do not fit its schema. ${issueText({ issues })}.`;
  throw new SyscallError("INVALID", message);
}

/** The settings of a stock plugin for which nothing is set. Its schema is known to be right, and zod takes long to read it. */
function defaultsOf({ configSchema }: Plugin): unknown {
  if (!configSchema) return undefined;
  const properties = "properties" in configSchema ? Object.entries(configSchema.properties ?? {}) : [];
  const defaults = properties.map(([name, { default: value }]) => [name, value]);
  return structuredClone(Object.fromEntries(defaults.filter(([, value]) => value !== undefined)));
}

/** Each run reads the settings of all its plugins; a plugin's schema stays the same object until it is loaded again. */
const schemas = new WeakMap<object, z.ZodType>();
