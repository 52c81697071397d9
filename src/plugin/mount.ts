/** A mount: devices that exist for some processes only, and that may change. */

import type { OpenContext } from "./context.ts";
import type { Device } from "./device.ts";
import type { SyscallError } from "./errors.ts";

/** A type of device tables that can be mounted: at spawn, or for all processes of a project. */
export interface MountType {
  /** Letters and digits, the first a letter. Mounts of this type are at `/mnt/<type>/…`. */
  type: string;
  /** The key of its config with the URL to which the mount connects by itself. A run's network limits the use of it. */
  address?: string;
  /**
   * Opens a mount. The context belongs to the mount, not to one process: processes share it, and it lives until the last
   * one releases it. Programs with `life: "process"` end with the mount. `signal` aborts when no process waits for it.
   */
  open(config: object, context: OpenContext, signal: AbortSignal): Promise<Mounted>;
}

/** An open mount: a table of devices that may change, such as an MCP server's tools. */
export interface Mounted {
  /**
   * The devices by their path below the mount point: "" is the point itself. Their tools are shown as
   * `<type>__<name of the mount>__<tool>`, so that names cannot collide.
   */
  devices: Record<string, Device>;
  /** Registers the listener for changes, once. The driver calls it with the whole new table. */
  onChange?(notify: (devices: Record<string, Device>) => void): void;
  /**
   * Registers the listener for an unexpected end, once. The kernel then opens the mount again, at growing intervals.
   * Meanwhile its devices fail with UNAVAILABLE.
   */
  onEnd?(notify: (why: SyscallError) => void): void;
  /** Frees everything. Called exactly once, also after an unexpected end. Its programs are ended afterwards. */
  unmount(): Promise<void>;
}
