import { type Plugin, type Services, SyscallError } from "../index.ts";
import { placeText, type SourcePosition, said, toWire } from "./wire.ts";

/** Where a plugin was found; the nearer one wins. */
export type PluginLayer = "stock" | "user" | "project";

/** What is wrong with a plugin and, where it is known, the place in its source. */
export interface Problem extends Partial<SourcePosition> {
  message: string;
}

/** "file:line:column: message", as editors and people read it. */
export function problemText({ message, file, line, column }: Problem): string {
  return file === undefined ? message : `${placeText({ file, line, column })}: ${message}`;
}

/** What was thrown as a problem: an error of the plugin's own with the place in the plugin it came from. */
export function asProblem(thrown: unknown): Problem {
  const wire = toWire(thrown);
  const own = thrown instanceof SyscallError && thrown.code === "DRIVER" ? wire.cause : undefined;
  if (own) return { ...own.place, message: said(own) };
  return thrown instanceof SyscallError ? { message: wire.message } : { ...wire.place, message: said(wire) };
}

interface DeviceReport {
  path: string;
  match: "exact" | "prefix";
  tools: string[];
  /** It is a model provider. */
  provider: boolean;
}

/** One plugin as `rnix plugins` shows it. */
export interface PluginReport {
  name: string;
  layer: PluginLayer;
  /** "embedded" or the absolute path of its entry. */
  source: string;
  /** loaded: its devices are there. broken: `problems` says why not. overridden: a nearer one of the name is used. */
  state: "loaded" | "broken" | "untrusted" | "overridden";
  /** The first 12 digits of the digest of its files; null when they could not be read. */
  version: string | null;
  runs: "kernel" | "worker";
  needs: readonly (keyof Services)[];
  devices: DeviceReport[];
  /** The type of what it can mount, below /mnt; null when it mounts nothing. */
  mounts: string | null;
  /** Device paths and tool names of stock plugins that it takes. */
  takes: string[];
  problems: Problem[];
}

/** What `rnix plugins check FILE` found. */
export interface CheckReport {
  /** Its code was run; false: it was only read. */
  loaded: boolean;
  name: string;
  /** The entry, absolute. */
  file: string;
  ok: boolean;
  /** Everything it is made of, absolute. */
  files: string[];
  needs: readonly (keyof Services)[];
  devices: DeviceReport[];
  mounts: string | null;
  takes: string[];
  /** What stops it. */
  problems: Problem[];
  /** What is odd but does not. */
  warnings: Problem[];
}

/** A report before anything is known: broken until it is found to be something else. */
export function newReport(name: string, layer: PluginLayer, source: string): PluginReport {
  const runs = source === "embedded" ? "kernel" : "worker";
  return {
    name,
    layer,
    source,
    runs,
    state: "broken",
    version: null,
    needs: [],
    devices: [],
    mounts: null,
    takes: [],
    problems: [],
  };
}

export function describe(report: PluginReport, plugin: Plugin): void {
  report.state = "loaded";
  report.needs = plugin.needs ?? [];
  report.devices = devicesOf(plugin);
  report.mounts = plugin.mount?.type ?? null;
}

export function devicesOf({ devices = {} }: Pick<Plugin, "devices">): DeviceReport[] {
  return Object.entries(devices).map(([path, { match = "exact", tools = [], provider }]) => ({
    path,
    match,
    tools: tools.map((tool) => tool.name),
    provider: provider !== undefined,
  }));
}
