/** The report about one plugin, for `rnix plugins` and for notices of a run. */

import { type Device, type Plugin, type Services, SyscallError } from "../index.ts";
import { errorText, placeText, type SourcePosition, toWire } from "./wire-error.ts";

/** The layer in which a plugin was found. The nearer one wins. */
export type PluginLayer = "stock" | "user" | "project";

/** A problem of a plugin, with the position in its source if known. */
export interface Problem extends Partial<SourcePosition> {
  message: string;
  /** The line of the source, of a syntax error. */
  source?: string;
}

/** "file:line:column: message", as editors understand it. */
export function problemText({ message, file, line, column }: Problem): string {
  return file === undefined ? message : `${placeText({ file, line, column })}: ${message}`;
}

/** The thrown error as a problem, with its position in the plugin if it came from there. */
export function asProblem(thrown: unknown): Problem {
  const wire = toWire(thrown);
  const own = thrown instanceof SyscallError && thrown.code === "DRIVER" ? wire.cause : undefined;
  if (own) return { ...own.place, message: errorText(own) };
  return thrown instanceof SyscallError
    ? { message: wire.message }
    : { ...wire.place, message: errorText(wire) };
}

interface DeviceReport {
  path: string;
  match: "exact" | "prefix";
  tools: string[];
  /** The device is a model provider. */
  provider: boolean;
  /** The variables whose value it gets as its key. */
  keys: string[];
}

/** What a loaded plugin declares. */
interface Declared {
  needs: readonly (keyof Services)[];
  /** The names of its keys. */
  secrets: readonly string[];
  devices: DeviceReport[];
  /** The plugin's mount type, below /mnt; null if it mounts nothing. */
  mounts: string | null;
}

/** A plugin, as `rnix plugins` shows it. */
export interface PluginReport extends Declared {
  name: string;
  layer: PluginLayer;
  /** "embedded" or the absolute path of its entry. */
  source: string;
  /** loaded: its devices are available. broken: see `problems`. overridden: a nearer one of the name is used. */
  state: "loaded" | "broken" | "untrusted" | "overridden";
  /** The first 12 digits of the digest of its files; null when they could not be read. */
  version: string | null;
  runs: "kernel" | "worker";
  /** Device paths and tool names of stock plugins that it replaces. */
  takes: string[];
  problems: Problem[];
}

/** The result of `rnix plugins check FILE`. */
export interface CheckReport extends Declared {
  /** Whether its code was run, or only read. */
  loaded: boolean;
  name: string;
  /** The entry, absolute. */
  file: string;
  ok: boolean;
  /** All its files, absolute. */
  files: string[];
  takes: string[];
  problems: Problem[];
  /** Problems that do not prevent loading. */
  warnings: Problem[];
}

/** The `source` of a plugin in the binary. */
export const EMBEDDED = "embedded";

/** A new report. Its state is broken until it is known. */
export function newReport(name: string, layer: PluginLayer, source: string): PluginReport {
  const runs = source === EMBEDDED ? "kernel" : "worker";
  const unknown = { version: null, ...declaredBy({}), takes: [], problems: [] };
  return { name, layer, source, runs, state: "broken", ...unknown };
}

export function declaredBy({
  needs = [],
  secrets = [],
  devices = {},
  mount,
}: Pick<Plugin, "needs" | "secrets" | "devices" | "mount">): Declared {
  return { needs, secrets, devices: Object.entries(devices).map(deviceReport), mounts: mount?.type ?? null };
}

function deviceReport([path, device]: [string, Device]): DeviceReport {
  const { match = "exact", tools = [], provider } = device;
  return {
    path,
    match,
    tools: tools.map((tool) => tool.name),
    provider: provider !== undefined,
    keys: [...(provider?.keyEnvs ?? [])],
  };
}
