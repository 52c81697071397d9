/** Where the mounts of a process come from, and which of them it sees. */

import { factsOf } from "../permission/coverage.ts";
import type { Process } from "../process/process.ts";
import type { Core } from "../tiers/core.ts";
import type { MountOpener, MountRequest } from "../types.ts";
import { type MountPoint, MountSource, type MountTable, type SourceEvents } from "./mount-source.ts";
import { devicesAt, type MountScope, mountRules, removeDevices, toolPrefix } from "./mount-tables.ts";

interface MountSourcesEvents extends Omit<SourceEvents, "failed"> {
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
  readonly #events: MountSourcesEvents & SourceEvents;
  readonly #byKey = new Map<string, MountSource>();
  readonly #openers = new WeakMap<MountOpener["type"], number>();
  #lastOpener = 0;
  #isClosing = false;

  constructor(core: Core, events: MountSourcesEvents) {
    this.#core = core;
    this.#events = {
      ...events,
      failed: (source, why) => {
        if (source.points.size > 0) return; // Its users report it.
        events.warn(why);
        void this.#close(source);
      },
    };
  }

  get size(): number {
    return this.#byKey.size;
  }

  /** The kernel ends: no source is opened or kept. */
  get isClosing(): boolean {
    return this.#isClosing;
  }

  /** Returns the open source of an equal request, project, environment and policy, or opens a new one. */
  find(
    request: MountRequest,
    opener: MountOpener,
    { project, env, policy, confine }: Pick<MountScope, "project" | "env" | "policy" | "confine">,
  ): MountSource {
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
    const spec = { type, name, opener, config, project, env, confine, timeoutMs };
    const source = new MountSource(key, spec, this.#core, this.#events);
    this.#byKey.set(key, source);
    return source;
  }

  /**
   * Removes a user at once. The returned function closes the source if this was its last user and it is not kept, and
   * does nothing otherwise.
   */
  leave(point: MountPoint): () => Promise<void> {
    const { source } = point;
    const isUser = source.points.delete(point);
    if (!isUser || source.points.size > 0 || this.#byKey.get(source.key) !== source) return async () => {};
    if (this.#isKept(point)) {
      this.#keep(source);
      return async () => {};
    }
    this.#byKey.delete(source.key);
    return () => source.close();
  }

  /** Closes what is kept without a user; nothing is kept afterwards. */
  async closeUnused(): Promise<void> {
    this.#isClosing = true;
    await Promise.all(this.#unused().map((source) => this.#close(source)));
  }

  /** A plugin from disk ends with the lease of its last run. */
  #isKept({ request, source }: MountPoint): boolean {
    if (this.#isClosing || !this.#core.mountsKeptMs) return false;
    return request.shared !== false && source.opener.isStock === true && source.isUseful;
  }

  #keep(source: MountSource): void {
    source.closing = this.#core.clock.timer(this.#core.mountsKeptMs ?? 0, () => void this.#close(source));
    const [oldest, ...others] = this.#unused();
    if (oldest && others.length >= MAX_UNUSED) void this.#close(oldest);
  }

  #unused(): MountSource[] {
    return [...this.#byKey.values()].filter(({ points }) => points.size === 0);
  }

  async #close(source: MountSource): Promise<void> {
    source.closing?.cancel();
    if (this.#byKey.get(source.key) === source) this.#byKey.delete(source.key);
    await source.close().catch((thrown) => this.#events.warn(thrown));
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

export class MountVisibility {
  readonly #parts: Core;
  readonly #warn: (thrown: unknown, table: MountTable) => void;

  constructor(parts: Core, warn: (thrown: unknown, table: MountTable) => void) {
    this.#parts = parts;
    this.#warn = warn;
  }

  /** Replaces the devices of a mount point by those of its source. */
  show(point: MountPoint): void {
    const { request, path, table, source } = point;
    const { preparation, starting } = table.proc?.toolset ?? {};
    const start = starting?.get(toolPrefix(request));
    // A resumed run has the tools that it had.
    const isLate = start?.isPromised === false && (!preparation || preparation.resumes);
    if (isLate) point.defers = true;
    const { entries, problems } = devicesAt(request, path, source, point.defers);
    for (const problem of problems) this.#warn(`${path}: ${problem}`, table);
    const registry = table.devices();
    removeDevices(registry, path);
    for (const entry of entries) registry.register(entry);
    const before = point.tools;
    point.isVisible = true;
    point.tools = new Set(entries.flatMap(({ device }) => device.tools ?? []).map(({ name }) => name));
    if (table.proc) this.#grantAccess(table.proc, request, path);
    // News would make the model answer again.
    if (isLate && table.proc && before.size === 0) this.#updateRights(table.proc);
    else this.#notifySeers(point, before);
  }

  /** Removes the mount point's devices from all processes at once. Does nothing if they are not visible. */
  hide(point: MountPoint): void {
    if (!point.isVisible) return;
    const { path, table } = point;
    point.isVisible = false;
    removeDevices(table.devices(), path);
    if (table.proc) this.#parts.table.setPermissions(table.proc, table.proc.permissions.withoutMount(path));
    const before = point.tools;
    point.tools = new Set();
    this.#notifySeers(point, before);
  }

  /** Grants a process the right to its own mount. */
  #grantAccess(proc: Process, request: MountRequest, path: string): void {
    this.#parts.table.setPermissions(proc, proc.permissions.withMount(path, mountRules(request, path)));
  }

  #updateRights(proc: Process): void {
    proc.permissions = proc.permissions.withFacts(factsOf(proc.spec.namespace));
  }

  /** Updates the rights of all processes that see the table, and notifies models that run of its tools. */
  #notifySeers(point: MountPoint, before: ReadonlySet<string>): void {
    const fresh = [...point.tools].filter((name) => !before.has(name));
    const gone = [...before].filter((name) => !point.tools.has(name));
    for (const proc of point.table.processes()) {
      this.#updateRights(proc);
      if (proc.pid === 0 || proc.state !== "running" || proc.stopped) continue;
      if (proc.toolset.preparation || point.table.ending) continue;
      this.#parts.showNewTools(proc);
      const usable = fresh.filter((name) => proc.permissions.showsTool(name));
      const text = news(
        usable.filter((name) => proc.toolset.shown.has(name)),
        usable.filter((name) => !proc.toolset.shown.has(name)),
        gone.filter((name) => proc.toolset.shown.has(name)),
      );
      if (text !== "")
        void this.#parts.notifyAsKernel(proc, text).catch((thrown) => this.#warn(thrown, point.table));
    }
  }
}

/** Formats the notification for the model. */
function news(fresh: readonly string[], deferred: readonly string[], gone: readonly string[]): string {
  const parts: string[] = [];
  if (fresh.length > 0) parts.push(`New tools: ${fresh.join(", ")}.`);
  if (deferred.length > 0) parts.push(`New tools to load with ToolSearch: ${deferred.join(", ")}.`);
  if (gone.length > 0) parts.push(`Removed tools: ${gone.join(", ")}.`);
  return parts.join(" ");
}
