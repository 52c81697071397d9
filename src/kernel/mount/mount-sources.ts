import type { MountOpener, MountRequest } from "../types.ts";
import { MountSource, type MountSourcePorts } from "./mount-source.ts";
import type { MountPoint, MountScope, SharedSource } from "./mount-tables.ts";

interface MountSourcesPorts extends MountSourcePorts {
  /** Its devices are others than before. */
  changed(points: ReadonlySet<MountPoint>): void;
  /** A text of its plugin's for the processes that use it. */
  inbox(points: ReadonlySet<MountPoint>, text: string): Promise<void>;
}

/** Ms to mount in, where the request says nothing. */
const MOUNT_MS = 5_000;

/** The open mount sources. Each opens with its first user and closes with the last. */
export class MountSources {
  readonly #ports: MountSourcesPorts;
  readonly #byKey = new Map<string, SharedSource>();
  readonly #openers = new WeakMap<MountOpener["type"], number>();
  #lastOpener = 0;

  constructor(ports: MountSourcesPorts) {
    this.#ports = ports;
  }

  get size(): number {
    return this.#byKey.size;
  }

  /** The one that is open for the same wish in the same surroundings, or a new one that is being opened. */
  find(
    request: MountRequest,
    opener: MountOpener,
    { project, env }: Pick<MountScope, "project" | "env">,
  ): SharedSource {
    const { type, name, config, shared = true, timeoutMs = MOUNT_MS } = request;
    const wish = [this.#numberOf(opener), project.id, project.dir, type, name, config, sorted(env)];
    const key = shared ? Bun.CryptoHasher.hash("sha256", JSON.stringify(wish), "hex") : this.#ports.uuid();
    const known = this.#byKey.get(key);
    if (known) return known;
    const points = new Set<MountPoint>();
    const spec = { type, name, opener, config, project, env, timeoutMs };
    const source = new MountSource(spec, this.#ports, {
      changed: () => this.#ports.changed(points),
      inbox: (text) => this.#ports.inbox(points, text),
    });
    const fresh: SharedSource = { key, source, points };
    this.#byKey.set(key, fresh);
    return fresh;
  }

  /**
   * One user less, at once: with the last of them nobody finds it any more. What is returned closes it then,
   * and is nothing otherwise.
   */
  leave(point: MountPoint): () => Promise<void> {
    const shared = point.source;
    shared.points.delete(point);
    if (shared.points.size > 0 || this.#byKey.get(shared.key) !== shared) return async () => {};
    this.#byKey.delete(shared.key);
    return () => shared.source.close();
  }

  /** A plugin that was changed is another one. */
  #numberOf({ type }: MountOpener): number {
    const number = this.#openers.get(type) ?? ++this.#lastOpener;
    this.#openers.set(type, number);
    return number;
  }
}

function sorted(env: Record<string, string>): [string, string][] {
  return Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1));
}
