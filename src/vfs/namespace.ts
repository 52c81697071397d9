/** The devices of a run: namespaces, registries, and open files. */

import {
  type Device,
  type OpenFlag,
  type Services,
  SyscallError,
  type ToolDef,
  type VFSFile,
} from "../plugin/index.ts";

export interface NamedTool {
  tool: ToolDef;
  entry: DeviceEntry;
}

/**
 * The devices of one process: a stack of device tables, nearest first (its mounts, then the plugins of its project, the
 * user, the stock and the kernel). Projects of one kernel share only the far tables.
 */
export class Namespace {
  #layers: readonly DeviceRegistry[];
  #own: DeviceRegistry | undefined;
  #known: Offered | undefined;

  constructor(layers: readonly DeviceRegistry[]) {
    this.#layers = layers;
  }

  /** The process's own table, the nearest one. Made on first use: few processes have mounts. */
  get own(): DeviceRegistry {
    if (!this.#own) {
      this.#own = new DeviceRegistry();
      this.#layers = [this.#own, ...this.#layers];
      this.#known = undefined;
    }
    return this.#own;
  }

  /** Returns a namespace with this table before all others. */
  with(layer: DeviceRegistry): Namespace {
    return new Namespace([layer, ...this.#layers]);
  }

  /** Returns a namespace with this table behind all others. */
  over(layer: DeviceRegistry): Namespace {
    return new Namespace([...this.#layers, layer]);
  }

  /** The longest match over all layers; of equal matches the nearer layer. Fails with NOT_FOUND. */
  resolve(path: string): Match {
    let best: Match | undefined;
    for (const layer of this.#layers) {
      const match = layer.match(path);
      if (match && (!best || match.entry.path.length > best.entry.path.length)) best = match;
    }
    if (!best) {
      const message = `No device at ${path}. \`rnix tools\` and \`rnix plugins\` list what is there.`;
      throw new SyscallError("NOT_FOUND", message, { device: path });
    }
    return best;
  }

  /** All reachable devices, nearest first, without those that a nearer layer hides. */
  entries(): readonly DeviceEntry[] {
    return this.#offered().entries;
  }

  /** All tools, sorted by name. A nearer layer's tool hides a farther one of the same name. */
  tools(): readonly NamedTool[] {
    const offered = this.#offered();
    offered.tools ??= toolsOfAll(offered.entries);
    return offered.tools;
  }

  /** Computed once for each state of the tables: a spawn asks several times. */
  #offered(): Offered {
    let version = 0;
    for (const layer of this.#layers) version += layer.version;
    if (this.#known?.version === version) return this.#known;
    if (latest?.version === version && sameItems(latest.layers, this.#layers)) {
      this.#known = latest;
      return latest;
    }
    const seen = new Map<string, DeviceEntry>();
    for (const layer of this.#layers) {
      for (const entry of layer.entries()) if (!seen.has(entry.path)) seen.set(entry.path, entry);
    }
    latest = { version, layers: this.#layers, entries: [...seen.values()] };
    this.#known = latest;
    return latest;
  }
}

/** What tables offer in a version of them. */
interface Offered {
  version: number;
  layers: readonly DeviceRegistry[];
  entries: readonly DeviceEntry[];
  tools?: readonly NamedTool[];
}

/** Of the namespace that asked last: thousands of runs with the same tables share it. */
let latest: Offered | undefined;

function sameItems<T>(some: readonly T[], others: readonly T[]): boolean {
  return some.length === others.length && some.every((one, at) => one === others[at]);
}

function toolsOfAll(entries: readonly DeviceEntry[]): readonly NamedTool[] {
  const byName = new Map<string, NamedTool>();
  for (const entry of entries) {
    const tools = toolsOf.getOrInsertComputed(entry, namedTools);
    for (const named of tools) if (!byName.has(named.tool.name)) byName.set(named.tool.name, named);
  }
  return [...byName.values()].sort((a, b) => (a.tool.name < b.tool.name ? -1 : 1));
}

/** The tools of each device, made once and shared by all processes. */
const toolsOf = new WeakMap<DeviceEntry, readonly NamedTool[]>();

function namedTools(entry: DeviceEntry): readonly NamedTool[] {
  return (entry.device.tools ?? []).map((tool) => ({ tool, entry }));
}

/** The layer of a device table. Nearer layers come first in a namespace. */
export type Layer = "mount" | "project" | "user" | "stock" | "kernel";

/** A device in a table, with its plugin and the services of that plugin. */
export interface DeviceEntry {
  path: string;
  device: Device;
  plugin: string;
  layer: Layer;
  /** The plugin of the device is embedded in the binary. */
  isStock?: boolean;
  /** The services that the plugin needs. The OpenContext has exactly these. */
  needs: readonly (keyof Services)[];
  secrets?: readonly string[];
  /** The plugin's checked settings from config.yaml. */
  config?: unknown;
}

interface Match {
  entry: DeviceEntry;
  /** The rest of the path after the device's: "" or beginning with "/". */
  subpath: string;
}

const PATH = /^\/(?:[A-Za-z0-9._-]+\/)*[A-Za-z0-9._-]+$/;

/** A table of devices. Each path is unique. */
export class DeviceRegistry {
  readonly #entries = new Map<string, DeviceEntry>();
  /** Grows with each change. */
  version = 0;

  register(entry: DeviceEntry): void {
    if (!PATH.test(entry.path) || entry.path.split("/").some((part) => part === "." || part === "..")) {
      const message = `Device path "${entry.path}" of plugin ${entry.plugin}: expected an absolute path of letters, digits, ".", "_" and "-", without "." or ".." parts and without a trailing slash.`;
      throw new SyscallError("INVALID", message);
    }
    const taken = this.#entries.get(entry.path);
    if (taken) {
      const message = `Device path ${entry.path} of plugin ${entry.plugin} is taken by plugin ${taken.plugin} in the same layer. Rename one of them.`;
      throw new SyscallError("INVALID", message);
    }
    this.#entries.set(entry.path, entry);
    this.version++;
  }

  unregister(path: string): boolean {
    this.version++;
    return this.#entries.delete(path);
  }

  entries(): DeviceEntry[] {
    return [...this.#entries.values()];
  }

  /** Exact match first, then the longest prefix device at a path boundary. */
  match(path: string): Match | undefined {
    const exact = this.#entries.get(path);
    if (exact) return { entry: exact, subpath: "" };
    for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
      const entry = this.#entries.get(path.slice(0, end));
      if (entry?.device.match === "prefix") return { entry, subpath: path.slice(end) };
    }
    return undefined;
  }
}

export interface OpenFile<Grant> {
  file: VFSFile;
  /** The full path that was opened. */
  path: string;
  /** The path of the device that serves it, and the device's plugin. */
  device: string;
  plugin: string;
  flags: OpenFlag;
  /** The grant under which it was opened; absent if none was needed. */
  grant?: Grant;
}

const FIRST_FD = 3;

/** The open files of one process. Descriptors start at 3, only grow and are never reused. */
export class FdTable<Grant = never> {
  /** A list, because most processes have one file and a map would need much more memory. */
  #files: { readonly fd: number; readonly open: OpenFile<Grant> }[] = [];
  #next = FIRST_FD;

  add(open: OpenFile<Grant>): number {
    const fd = this.#next++;
    this.#files.push({ fd, open });
    return fd;
  }

  get(fd: number): OpenFile<Grant> {
    const found = this.#files.find((one) => one.fd === fd);
    if (!found) throw new SyscallError("NOT_FOUND", `File descriptor ${fd} is not open.`);
    return found.open;
  }

  has(fd: number): boolean {
    return this.#files.some((one) => one.fd === fd);
  }

  /** Removes the descriptor from the table. Only one caller gets the file, and closes it. */
  take(fd: number): OpenFile<Grant> {
    const open = this.get(fd);
    this.#files = this.#files.filter((one) => one.fd !== fd);
    return open;
  }

  list(): { fd: number; path: string }[] {
    return this.#files.map(({ fd, open: { path } }) => ({ fd, path }));
  }

  get size(): number {
    return this.#files.length;
  }
}
