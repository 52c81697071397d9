import type { DeviceLease, MountOpener } from "../../kernel/types.ts";
import { Namespace } from "../../vfs/namespace.ts";
import { DeviceRegistry } from "../../vfs/registry.ts";
import type { Device, Plugin, ToolDef } from "../index.ts";
import { asProblem, type PluginReport, problemText } from "./report.ts";

/** A plugin that is loaded and held, as it goes into the tables. */
export interface Mountable {
  /** What can't be mounted is added to its problems. */
  report: PluginReport;
  plugin: Plugin;
  /** Its part of config.yaml, checked. */
  config: unknown;
  release: () => void;
}

/** A DeviceLease that also tells what there was to load and what became of it. */
export interface HostLease extends DeviceLease {
  reports: PluginReport[];
  /** What the run should say: which plugins are left out, broken, or stand in a stock one's place. */
  notices: string[];
}

export function leaseOf(reports: PluginReport[], loaded: readonly Mountable[]): HostLease {
  const namespace = mount(loaded);
  const mounts = mountTypes(loaded);
  const versions = loaded.map(({ report }) => [report.name, report.version ?? "unknown"]);
  return {
    namespace,
    mounts,
    versions: Object.fromEntries(versions),
    reports,
    notices: reports.flatMap(noticesOf),
    release: () => {
      for (const { release } of loaded) release();
    },
  };
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
  if (takes.length > 0)
    notices.push(`The ${layer}'s plugin ${name} stands in the place of ${takes.join(", ")}.`);
  return notices;
}

/**
 * The tables of the three layers, nearest first. In one layer a path and a tool's name stand once: the
 * second of them is refused and named.
 */
function mount(plugins: readonly Mountable[]): Namespace {
  const layers = (["project", "user", "stock"] as const).map((layer) => {
    const table = new DeviceRegistry();
    const offered = new Map<string, string>();
    for (const one of plugins) if (one.report.layer === layer) mountOne(one, table, offered);
    return table;
  });
  return new Namespace(layers);
}

/** What can be mounted, by type: as with devices, the nearer layer's, and in one layer the first. */
function mountTypes(plugins: readonly Mountable[]): ReadonlyMap<string, MountOpener> {
  const types = new Map<string, MountOpener & { layer: string }>();
  for (const layer of ["project", "user", "stock"] as const) {
    for (const { plugin, config, report } of plugins) {
      if (report.layer !== layer || !plugin.mount) continue;
      const { type } = plugin.mount;
      const taken = types.get(type);
      if (taken?.layer === layer) {
        const message = `It can't be mounted: plugin ${taken.plugin} of the same layer has the type ${type}.`;
        report.problems.push({ message });
      }
      if (taken) continue;
      types.set(type, { plugin: plugin.name, needs: plugin.needs ?? [], config, type: plugin.mount, layer });
    }
  }
  return types;
}

function mountOne(
  { plugin, config, report: { layer, problems } }: Mountable,
  table: DeviceRegistry,
  offered: Map<string, string>,
): void {
  for (const [path, device] of Object.entries(plugin.devices ?? {})) {
    const taken = (device.tools ?? []).filter((tool) => offered.has(tool.name));
    for (const { name } of taken) {
      problems.push({
        message: `Its tool ${name} is not offered: plugin ${offered.get(name)} of the same layer has one of that name.`,
      });
    }
    try {
      const needs = plugin.needs ?? [];
      table.register({ path, device: without(device, taken), plugin: plugin.name, layer, needs, config });
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
