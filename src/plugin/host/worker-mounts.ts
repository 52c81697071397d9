/** The open mounts of a plugin in its Worker. */

import { type Device, type Mounted, SyscallError } from "../index.ts";
import { sketch } from "./sketch.ts";
import { type ToHost, toWire } from "./wire.ts";

/** The limit of change messages per second and mount. Faster changes are combined. */
const CHANGES_PER_SECOND = 5;

interface WorkerMount {
  mounted: Mounted;
  devices: Record<string, Device>;
  /** The timer of a change message. */
  pendingChange: ReturnType<typeof setTimeout> | undefined;
}

/** Runs in the Worker: the open mounts of the plugin, by the kernel's numbers. */
export class WorkerMounts {
  readonly #mounts = new Map<number, WorkerMount>();
  readonly #post: (message: ToHost) => void;

  constructor(post: (message: ToHost) => void) {
    this.#post = post;
  }

  /** Returns a sketch of the mount, which the kernel's side checks. */
  add(mount: number, mounted: Mounted): unknown {
    const held: WorkerMount = { mounted, devices: mounted?.devices, pendingChange: undefined };
    this.#mounts.set(mount, held);
    mounted?.onChange?.((devices) => {
      if (this.#mounts.get(mount) !== held) return;
      held.devices = devices;
      held.pendingChange ??= setTimeout(() => this.#postChange(mount, held), 1_000 / CHANGES_PER_SECOND);
    });
    mounted?.onEnd?.((why) => {
      if (this.#mounts.get(mount) === held) this.#post({ t: "ended", mount, error: toWire(why) });
    });
    return sketchOf(mounted, held.devices);
  }

  device(mount: number, place: string): Device {
    const found = this.#mounts.get(mount)?.devices[place];
    if (!found)
      throw new SyscallError("NOT_FOUND", `The mount has no ${place === "" ? "root" : place} any more.`);
    return found;
  }

  async end(mount: number): Promise<void> {
    const held = this.#mounts.get(mount);
    this.#mounts.delete(mount);
    clearTimeout(held?.pendingChange);
    await held?.mounted.unmount();
  }

  #postChange(mount: number, held: WorkerMount): void {
    held.pendingChange = undefined;
    this.#post({ t: "changed", mount, sketch: sketchOf(held.mounted, held.devices) });
  }
}

function sketchOf(mounted: Mounted, devices: Record<string, Device>): unknown {
  const { onChange, onEnd, unmount } = Object(mounted);
  return sketch({ devices, onChange, onEnd, unmount: unmount === undefined ? undefined : unmount });
}
