/** The plugins and devices that one run holds. */

import type { DeviceLease, HookSource, MountOpener } from "../../vfs/lease.ts";
import { DeviceRegistry, Namespace } from "../../vfs/namespace.ts";
import type { CommandSpec, Device, Plugin, ToolDef } from "../index.ts";
import { asProblem, EMBEDDED, type PluginReport, problemText } from "./report.ts";

/** A loaded plugin that is held for a lease. */
export interface Mountable {
  /** Conflicts with other plugins are added to its problems. */
  report: PluginReport;
  plugin: Plugin;
  /** The plugin's settings, already checked. */
  config: unknown;
  release: () => void;
}

/** A DeviceLease with a report about each plugin. */
export interface HostLease extends DeviceLease {
  /** The commands of the plugins. Of two with one name, the nearer layer's. */
  commands: PluginCommand[];
  reports: PluginReport[];
  /** Shown to the user: plugins that are left out, broken, or replace stock ones. */
  notices: string[];
}

export interface PluginCommand extends CommandSpec {
  plugin: string;
}

export function leaseOf(reports: PluginReport[], loaded: readonly Mountable[]): HostLease {
  const namespace = mount(loaded);
  const mounts = mountTypes(loaded);
  const versions = loaded.map(({ report }) => [report.name, report.version ?? "unknown"]);
  return {
    namespace,
    mounts,
    hooks: loaded.flatMap(hooksOf),
    commands: commandsOf(loaded),
    secrets: loaded.flatMap(({ plugin }) => plugin.secrets ?? []),
    versions: Object.fromEntries(versions),
    reports,
    notices: reports.flatMap(noticesOf),
    release: () => {
      for (const { release } of loaded) release();
    },
  };
}

const NEAREST_FIRST = ["project", "user", "stock"] as const;

/**
 * What the plugins offer by name. The nearer layer counts, and within a layer the first; the second gets the problem
 * `conflict`.
 */
function nearest<T extends { plugin: string }>(
  loaded: readonly Mountable[],
  offers: (one: Mountable) => [name: string, offer: T][],
  conflict: (name: string, first: T) => string,
): Map<string, T> {
  const taken = new Map<string, { offer: T; layer: string }>();
  for (const layer of NEAREST_FIRST) {
    for (const one of loaded.filter(({ report }) => report.layer === layer)) {
      for (const [name, offer] of offers(one)) {
        const first = taken.get(name);
        if (!first) taken.set(name, { offer, layer });
        else if (first.layer === layer) one.report.problems.push({ message: conflict(name, first.offer) });
      }
    }
  }
  return new Map([...taken].map(([name, { offer }]) => [name, offer]));
}

function commandsOf(loaded: readonly Mountable[]): PluginCommand[] {
  const commands = nearest<PluginCommand>(
    loaded,
    ({ plugin: { name: plugin, commands = [] } }) =>
      commands.map((command) => [command.name, { ...command, plugin }]),
    (name, { plugin }) =>
      `Its command ${name} is not offered: plugin ${plugin} of the same layer has one of that name.`,
  );
  return [...commands.values()];
}

function hooksOf({ plugin, config, report: { layer, source } }: Mountable): HookSource[] {
  const { name, needs = [], secrets } = plugin;
  const prompt = plugin.prompt?.bind(plugin);
  const filesChanged = plugin.filesChanged?.bind(plugin);
  if (!prompt && !filesChanged) return [];
  const isStock = source === EMBEDDED;
  return [{ plugin: name, isStock, layer, needs, secrets, config, prompt, filesChanged }];
}

function noticesOf(report: PluginReport): string[] {
  const { name, source, state, takes, layer } = report;
  const problems = report.problems.map(problemText);
  if (state === "untrusted") {
    return [`Plugin ${name} (${source}) is not trusted and left out. \`rnix trust\` shows what it is.`];
  }
  if (state === "broken") return [`Plugin ${name} (${source}) is broken and left out. ${problems.join(" ")}`];
  if (state === "overridden") return [];
  const notices = problems.map((problem) => `Plugin ${name}: ${problem}`);
  if (takes.length > 0) notices.push(`The ${layer}'s plugin ${name} replaces ${takes.join(", ")}.`);
  return notices;
}

/** The tables of the three layers, nearest first. Within a layer, a second device path or tool name is refused. */
function mount(plugins: readonly Mountable[]): Namespace {
  const layers = NEAREST_FIRST.map((layer) => {
    const table = new DeviceRegistry();
    const offered = new Map<string, string>();
    for (const one of plugins) if (one.report.layer === layer) mountOne(one, table, offered);
    return table;
  });
  return new Namespace(layers);
}

function mountTypes(loaded: readonly Mountable[]): ReadonlyMap<string, MountOpener> {
  return nearest<MountOpener>(
    loaded,
    ({ plugin: { name: plugin, needs = [], mount }, config, report }) =>
      mount
        ? [[mount.type, { plugin, isStock: report.source === EMBEDDED, needs, config, type: mount }]]
        : [],
    (type, { plugin }) => `It can't be mounted: plugin ${plugin} of the same layer has the type ${type}.`,
  );
}

function mountOne(
  { plugin, config, report: { layer, source, problems } }: Mountable,
  table: DeviceRegistry,
  offered: Map<string, string>,
): void {
  for (const [path, device] of Object.entries(plugin.devices ?? {})) {
    const taken = (device.tools ?? []).filter((tool) => offered.has(tool.name));
    for (const { name } of taken) {
      const message = `Its tool ${name} is not offered: plugin ${offered.get(name)} of the same layer has one of that name.`;
      problems.push({ message });
    }
    try {
      const { name, needs = [], secrets } = plugin;
      const isStock = source === EMBEDDED;
      const served = without(device, taken);
      table.register({ path, device: served, plugin: name, isStock, layer, needs, secrets, config });
    } catch (thrown) {
      problems.push(asProblem(thrown));
      continue;
    }
    for (const { name } of device.tools ?? []) if (!offered.has(name)) offered.set(name, plugin.name);
  }
}

function without(device: Device, taken: readonly ToolDef[]): Device {
  if (taken.length === 0) return device;
  const { match, provider } = device;
  const tools = device.tools?.filter((tool) => !taken.includes(tool));
  return { match, provider, tools, factory: (...args) => device.factory(...args) };
}
