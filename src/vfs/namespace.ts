/** The devices and tools that one process sees. */

import { SyscallError, type ToolDef } from "../plugin/index.ts";
import { type DeviceEntry, DeviceRegistry, type Match } from "./registry.ts";

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
  /** What its tables offer in this version of them. */
  #known: { version: number; entries: readonly DeviceEntry[]; tools?: readonly NamedTool[] } | undefined;

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
      throw new SyscallError(
        "NOT_FOUND",
        `No device at ${path}. \`rnix tools\` and \`rnix plugins\` list what is there.`,
        {
          device: path,
        },
      );
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
  #offered() {
    let version = 0;
    for (const layer of this.#layers) version += layer.version;
    if (this.#known?.version === version) return this.#known;
    const seen = new Map<string, DeviceEntry>();
    for (const layer of this.#layers) {
      for (const entry of layer.entries()) if (!seen.has(entry.path)) seen.set(entry.path, entry);
    }
    this.#known = { version, entries: [...seen.values()] };
    return this.#known;
  }
}

function toolsOfAll(entries: readonly DeviceEntry[]): readonly NamedTool[] {
  const byName = new Map<string, NamedTool>();
  for (const entry of entries) {
    for (const named of toolsOf(entry)) {
      if (!byName.has(named.tool.name)) byName.set(named.tool.name, named);
    }
  }
  return [...byName.values()].sort((a, b) => (a.tool.name < b.tool.name ? -1 : 1));
}

/** The tools of each device, made once and shared by all processes. */
const named = new WeakMap<DeviceEntry, readonly NamedTool[]>();

function toolsOf(entry: DeviceEntry): readonly NamedTool[] {
  const known = named.get(entry);
  if (known) return known;
  const tools = (entry.device.tools ?? []).map((tool): NamedTool => ({ tool, entry }));
  named.set(entry, tools);
  return tools;
}
