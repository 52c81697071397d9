/** The devices, mounts and hooks of plugins, as a run leases them. */

import type { MountType, Plugin, Services } from "../plugin/index.ts";
import type { DeviceEntry, Namespace } from "./namespace.ts";

/** The devices as they were at spawn, held until `release`: an old plugin answers as long as it is leased. */
export interface DeviceLease {
  namespace: Namespace;
  /** What can be mounted, by type. */
  mounts?: ReadonlyMap<string, MountOpener>;
  /** The plugins that the kernel asks without a call. */
  hooks?: readonly HookSource[];
  secrets?: readonly string[];
  /** Plugin name to version or digest, for the receipt. */
  versions: Record<string, string>;
  release(): void;
}

/** A plugin's `mount`, as the kernel opens it. Two leases of one version of a plugin have the same `type`. */
export interface MountOpener {
  plugin: string;
  /** The plugin is embedded in the binary. */
  isStock?: boolean;
  needs: readonly (keyof Services)[];
  /** The plugin's part of config.yaml, already checked. */
  config: unknown;
  type: MountType;
}

/** What the kernel asks a plugin without a call. */
export interface HookSource
  extends Pick<DeviceEntry, "plugin" | "isStock" | "layer" | "needs" | "secrets" | "config">,
    Pick<Plugin, "prompt" | "filesChanged"> {}
