import { type Device, type Services, SyscallError } from "../plugin/index.ts";

/** Which table a device stands in. Nearer layers come first in a namespace. */
export type Layer = "mount" | "project" | "user" | "stock" | "kernel";

/** A device as it stands in a table: with the plugin it belongs to and what that plugin may use. */
export interface DeviceEntry {
  path: string;
  device: Device;
  plugin: string;
  layer: Layer;
  /** The services the plugin asked for; the kernel puts exactly these on the OpenContext. */
  needs: readonly (keyof Services)[];
  /** The plugin's part of config.yaml, already checked. */
  config?: unknown;
}

export interface Match {
  entry: DeviceEntry;
  /** What follows the device's path: "" or beginning with "/". */
  subpath: string;
}

const PATH = /^\/(?:[A-Za-z0-9._-]+\/)*[A-Za-z0-9._-]+$/;

/** One table of devices (seeds 3.1). A path stands in it once. */
export class DeviceRegistry {
  readonly #entries = new Map<string, DeviceEntry>();

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
  }

  unregister(path: string): boolean {
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
