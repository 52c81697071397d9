/** A table of devices by path. */

import { type Device, type Services, SyscallError } from "../plugin/index.ts";

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
  /** The names of the plugin's keys. */
  secrets?: readonly string[];
  /** The plugin's checked settings from config.yaml. */
  config?: unknown;
}

export interface Match {
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
      throw new SyscallError(
        "INVALID",
        `Device path "${entry.path}" of plugin ${entry.plugin}: expected an absolute path of letters, digits, ".", "_" and "-", without "." or ".." parts and without a trailing slash.`,
      );
    }
    const taken = this.#entries.get(entry.path);
    if (taken) {
      throw new SyscallError(
        "INVALID",
        `Device path ${entry.path} of plugin ${entry.plugin} is taken by plugin ${taken.plugin} in the same layer. Rename one of them.`,
      );
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
