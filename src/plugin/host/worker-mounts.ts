import { type Device, type Mounted, SyscallError } from "../index.ts";
import { sketch } from "./sketch.ts";
import { type ToHost, toWire } from "./wire.ts";

/** Tables that may change so often a second at most; what comes faster is told together. */
const CHANGES_PER_SECOND = 5;

interface Held {
  mounted: Mounted;
  devices: Record<string, Device>;
  /** Its change is about to be told. */
  telling: ReturnType<typeof setTimeout> | undefined;
}

/** In the Worker: what the plugin has mounted, by the numbers of the kernel's side. */
export class WorkerMounts {
  readonly #held = new Map<number, Held>();
  readonly #post: (message: ToHost) => void;

  constructor(post: (message: ToHost) => void) {
    this.#post = post;
  }

  /** Answers it drawn, for the other side to judge. */
  add(mount: number, mounted: Mounted): unknown {
    const held: Held = { mounted, devices: mounted?.devices, telling: undefined };
    this.#held.set(mount, held);
    mounted?.onChange?.((devices) => {
      if (this.#held.get(mount) !== held) return;
      held.devices = devices;
      held.telling ??= setTimeout(() => this.#tell(mount, held), 1_000 / CHANGES_PER_SECOND);
    });
    mounted?.onEnd?.((why) => {
      if (this.#held.get(mount) === held) this.#post({ t: "ended", mount, error: toWire(why) });
    });
    return drawn(mounted, held.devices);
  }

  device(mount: number, place: string): Device {
    const found = this.#held.get(mount)?.devices[place];
    if (!found)
      throw new SyscallError("NOT_FOUND", `The mount has no ${place === "" ? "root" : place} any more.`);
    return found;
  }

  async end(mount: number): Promise<void> {
    const held = this.#held.get(mount);
    this.#held.delete(mount);
    clearTimeout(held?.telling);
    await held?.mounted.unmount();
  }

  #tell(mount: number, held: Held): void {
    held.telling = undefined;
    this.#post({ t: "changed", mount, sketch: drawn(held.mounted, held.devices) });
  }
}

function drawn(mounted: Mounted, devices: Record<string, Device>): unknown {
  const { onChange, onEnd, unmount } = Object(mounted);
  return sketch({ devices, onChange, onEnd, unmount: unmount === undefined ? undefined : unmount });
}
