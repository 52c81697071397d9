import { SyscallError, type ToolDef } from "../plugin/index.ts";
import { type DeviceEntry, DeviceRegistry, type Match } from "./registry.ts";

export interface NamedTool {
  tool: ToolDef;
  entry: DeviceEntry;
}

/**
 * What one process sees: a stack of device tables, nearest first (its mounts, its project's plugins, the
 * user's, the stock ones, the kernel's). Two projects served by one kernel share only the far tables.
 */
export class Namespace {
  #layers: readonly DeviceRegistry[];
  #own: DeviceRegistry | undefined;

  constructor(layers: readonly DeviceRegistry[]) {
    this.#layers = layers;
  }

  /** The table of this view alone, nearer than all others. Made when it is first asked for: few have mounts. */
  get own(): DeviceRegistry {
    if (!this.#own) {
      this.#own = new DeviceRegistry();
      this.#layers = [this.#own, ...this.#layers];
    }
    return this.#own;
  }

  /** The same view with a nearer table in front. */
  with(layer: DeviceRegistry): Namespace {
    return new Namespace([layer, ...this.#layers]);
  }

  /** The same view with a farther table behind. */
  over(layer: DeviceRegistry): Namespace {
    return new Namespace([...this.#layers, layer]);
  }

  /** The longest match over all layers; the nearer layer between equals. NOT_FOUND names the path. */
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

  /** Every device that can be reached, nearest first; one hidden by a nearer layer is left out. */
  entries(): DeviceEntry[] {
    const seen = new Map<string, DeviceEntry>();
    for (const layer of this.#layers) {
      for (const entry of layer.entries()) if (!seen.has(entry.path)) seen.set(entry.path, entry);
    }
    return [...seen.values()];
  }

  /** Every tool by name, in a stable order. A nearer layer's tool hides a farther one of the same name. */
  tools(): NamedTool[] {
    const byName = new Map<string, NamedTool>();
    for (const entry of this.entries()) {
      for (const named of toolsOf(entry)) {
        if (!byName.has(named.tool.name)) byName.set(named.tool.name, named);
      }
    }
    return [...byName.values()].sort((a, b) => (a.tool.name < b.tool.name ? -1 : 1));
  }
}

/** Made once per device: each process keeps those that it is shown. */
const named = new WeakMap<DeviceEntry, readonly NamedTool[]>();

function toolsOf(entry: DeviceEntry): readonly NamedTool[] {
  const known = named.get(entry);
  if (known) return known;
  const tools = (entry.device.tools ?? []).map((tool): NamedTool => ({ tool, entry }));
  named.set(entry, tools);
  return tools;
}
