/** The open mount sources of a kernel. */

import type { Core } from "../tiers/core.ts";
import type { MountOpener, MountRequest } from "../types.ts";
import { MountSource } from "./mount-source.ts";
import type { MountPoint, MountScope, SharedSource } from "./mount-tables.ts";

interface MountSourcesEvents {
  /** Called when a source's devices have changed. */
  changed(points: ReadonlySet<MountPoint>): void;
  /** Sends a text of its plugin to the processes that use it. */
  inbox(points: ReadonlySet<MountPoint>, text: string): Promise<void>;
  warn(thrown: unknown): void;
}

/** Default time limit of a mount. */
const MOUNT_MS = 5_000;
/** Maximum sources that are kept open without a user. */
const MAX_UNUSED = 16;

/**
 * Each source opens with its first user. It closes with the last, or `mountsKeptMs` later: then the next run does not
 * wait for its start.
 */
export class MountSources {
  readonly #core: Core;
  readonly #events: MountSourcesEvents;
  readonly #byKey = new Map<string, SharedSource>();
  readonly #openers = new WeakMap<MountOpener["type"], number>();
  #lastOpener = 0;
  #closing = false;

  constructor(core: Core, events: MountSourcesEvents) {
    this.#core = core;
    this.#events = events;
  }

  get size(): number {
    return this.#byKey.size;
  }

  /** Returns the open source of an equal request, project, environment and policy, or opens a new one. */
  find(
    request: MountRequest,
    opener: MountOpener,
    { project, env, policy, confine }: Pick<MountScope, "project" | "env" | "policy" | "confine">,
  ): SharedSource {
    const { type, name, config, shared = true, timeoutMs = MOUNT_MS } = request;
    const where = [project.id, project.dir, sorted(env), policy];
    const identity = [this.#openerNumber(opener), type, name, config, ...where];
    const key = shared ? Bun.CryptoHasher.hash("sha256", JSON.stringify(identity), "hex") : this.#core.uuid();
    const known = this.#byKey.get(key);
    if (known) {
      known.closing?.cancel();
      known.closing = undefined;
      return known;
    }
    const points = new Set<MountPoint>();
    const spec = { type, name, opener, config, project, env, confine, timeoutMs };
    const source = new MountSource(spec, this.#core, {
      changed: () => this.#events.changed(points),
      failed: (why) => {
        if (points.size > 0) return; // Its users report it.
        this.#events.warn(why);
        void this.#close(fresh);
      },
      inbox: (text) => this.#events.inbox(points, text),
    });
    const fresh: SharedSource = { key, source, points };
    this.#byKey.set(key, fresh);
    return fresh;
  }

  /**
   * Removes a user at once. The returned function closes the source if this was its last user and it is not kept, and
   * does nothing otherwise.
   */
  leave(point: MountPoint): () => Promise<void> {
    const shared = point.source;
    const isUser = shared.points.delete(point);
    if (!isUser || shared.points.size > 0 || this.#byKey.get(shared.key) !== shared) return async () => {};
    if (this.#isKept(point)) {
      this.#keep(shared);
      return async () => {};
    }
    this.#byKey.delete(shared.key);
    return () => shared.source.close();
  }

  /** Closes what is kept without a user; nothing is kept afterwards. */
  async closeUnused(): Promise<void> {
    this.#closing = true;
    await Promise.all(this.#unused().map((shared) => this.#close(shared)));
  }

  /** A plugin from disk ends with the lease of its last run. */
  #isKept({ request, source: { source } }: MountPoint): boolean {
    if (this.#closing || !this.#core.mountsKeptMs) return false;
    return request.shared !== false && source.opener.isStock === true && source.isUseful;
  }

  #keep(shared: SharedSource): void {
    shared.closing = this.#core.clock.timer(this.#core.mountsKeptMs ?? 0, () => void this.#close(shared));
    const [oldest, ...others] = this.#unused();
    if (oldest && others.length >= MAX_UNUSED) void this.#close(oldest);
  }

  #unused(): SharedSource[] {
    return [...this.#byKey.values()].filter(({ points }) => points.size === 0);
  }

  async #close(shared: SharedSource): Promise<void> {
    shared.closing?.cancel();
    if (this.#byKey.get(shared.key) === shared) this.#byKey.delete(shared.key);
    await shared.source.close().catch((thrown) => this.#events.warn(thrown));
  }

  /** Numbers openers: a changed plugin has a new one. */
  #openerNumber({ type }: MountOpener): number {
    const number = this.#openers.get(type) ?? ++this.#lastOpener;
    this.#openers.set(type, number);
    return number;
  }
}

/** What differs between two shells, folders of one, or traces makes no difference to a server. */
const OF_SHELL: ReadonlySet<string> = new Set(["PWD", "OLDPWD", "SHLVL", "_", "TRACEPARENT"]);

function sorted(env: Record<string, string>): [string, string][] {
  const entries = Object.entries(env).filter(([name]) => !OF_SHELL.has(name));
  return entries.sort(([a], [b]) => (a < b ? -1 : 1));
}
