/** The mounts of processes and projects: their tables, and where they come from. */

import { type Device, SyscallError, type ToolDef } from "../../plugin/index.ts";
import { type DeviceEntry, DeviceRegistry } from "../../vfs/namespace.ts";
import { factsOf } from "../permission/coverage.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { Core } from "../tiers/core.ts";
import type { DeviceLease, MountInfo, MountOpener, MountRequest, PID, ProjectHandle } from "../types.ts";
import type { Confine } from "./mount-context.ts";
import { type MountPoint, MountSource, type MountTable, type SourceEvents } from "./mount-source.ts";

/** The processes that see a shared mount: all of a project, or all of the user. */
export interface MountScope {
  of: "project" | "user";
  /** The project that holds its data; with "project", the one whose processes see it. */
  project: ProjectHandle;
  /** Released when it is unmounted. */
  devices: DeviceLease;
  env: Record<string, string>;
  /** What its programs may do (`programPolicy`), and what makes them do no more. Absent: what the user may. */
  policy?: string;
  confine?: Confine;
}

export interface ScopeRef extends Pick<MountScope, "of"> {
  project: Pick<ProjectHandle, "id">;
}

const USER = "user";

/** A process gets a table with its first mount; a project and the user get one on first use. */
export class MountTables {
  readonly #processes: ProcessTable;
  readonly #ofProcess = new Map<Process, MountTable>();
  /** By project ID; "user" for the user's. */
  readonly #ofScope = new Map<string, MountTable>();

  constructor(processes: ProcessTable) {
    this.#processes = processes;
  }

  /** The number of processes with mounts, plus the number of shared mounts. */
  get size(): number {
    const shared = [...this.#ofScope.values()].reduce((sum, { points }) => sum + points.size, 0);
    return this.#ofProcess.size + shared;
  }

  all(): MountTable[] {
    return [...this.#ofProcess.values(), ...this.#ofScope.values()];
  }

  of(proc: Process): MountTable {
    return this.#ofProcess.getOrInsertComputed(proc, () => {
      return { proc, devices: () => proc.spec.namespace.own, points: new Map(), processes: () => [proc] };
    });
  }

  find(proc: Process): MountTable | undefined {
    return this.#ofProcess.get(proc);
  }

  scope(scope: ScopeRef): MountTable {
    return this.#ofScope.getOrInsertComputed(scopeKey(scope), (key) => {
      const devices = new DeviceRegistry();
      const isSeenBy = ({ spec }: Process): boolean => key === USER || spec.opts.project.id === key;
      const processes = (): Process[] => this.#processes.all().filter(isSeenBy);
      return { isShared: true, devices: () => devices, points: new Map(), processes };
    });
  }

  /** The tables that the processes of a project share, the nearest first. */
  shared(project: Pick<ProjectHandle, "id">): MountTable[] {
    return (["project", "user"] as const).map((of) => this.scope({ of, project }));
  }

  forgetEmpty(proc: Process): void {
    if (this.#ofProcess.get(proc)?.points.size === 0) this.#ofProcess.delete(proc);
  }
}

export function scopeKey({ of, project }: ScopeRef): string {
  return of === "user" ? USER : project.id;
}

/** Returns a mount point. Fails with NOT_FOUND, which lists the mounted paths. */
export function pointAt(table: MountTable | undefined, path: string): MountPoint {
  const point = table?.points.get(path);
  if (point) return point;
  const there = [...(table?.points.keys() ?? [])];
  const message = `Nothing is mounted at ${path.slice(0, 200)}. Mounted: ${there.join(", ") || "nothing"}.`;
  throw new SyscallError("NOT_FOUND", message);
}

/** Removes every device at or below the path. */
export function removeDevices(registry: DeviceRegistry, path: string): void {
  const isThere = (entry: DeviceEntry): boolean => `${entry.path}/`.startsWith(`${path}/`);
  for (const entry of registry.entries().filter(isThere)) registry.unregister(entry.path);
}

export function mountInfos(table: MountTable | undefined): MountInfo[] {
  return [...(table?.points.values() ?? [])].map(({ path, request, source }) => ({
    path,
    type: request.type,
    down: source.down?.message ?? null,
  }));
}

const TYPE = /^[A-Za-z][A-Za-z0-9]{0,31}$/;
const NAME = /^[A-Za-z0-9._-]{1,64}$/;
/** Maximum characters of a tool's name at the model providers. */
const MAX_TOOL_NAME = 64;
const HASH_CHARS = 8;

/** Fails with INVALID for a type or name that can't be part of a path and of a tool's name. */
export function checkRequest({ type, name }: Pick<MountRequest, "type" | "name">): void {
  if (TYPE.test(type) && NAME.test(name) && !name.includes("__") && !/^\.+$/.test(name)) return;
  const message = `Mount ${JSON.stringify(`${type} ${name}`).slice(0, 200)}: expected a type of letters and digits, and a name of at most 64 letters, digits, ".", "_" and "-", without "__".`;
  throw new SyscallError("INVALID", message);
}

/** Returns `/mnt/<type>/{pid}-{name}`; for a shared mount, `/mnt/<type>/<name>`. */
export function mountPath({ type, name }: Pick<MountRequest, "type" | "name">, pid?: PID): string {
  return `/mnt/${type}/${pid === undefined ? name : `${pid}-${name}`}`;
}

export function toolPrefix({ type, name }: Pick<MountRequest, "type" | "name">): string {
  return `${type}__${name.replaceAll(".", "_")}__`;
}

/** Returns the rules that a mount grants: its tools by name, which children can have too, and its path. */
export function mountRules(request: MountRequest, path: string): string[] {
  return [`${toolPrefix(request)}*`, path];
}

/**
 * Returns the devices of a source at a mount point. A device or tool that does not fit is reported as a problem.
 * `defer`: the model loads the tools with ToolSearch.
 */
export function devicesAt(
  request: MountRequest,
  path: string,
  source: MountSource,
  defer?: true,
): { entries: DeviceEntry[]; problems: string[] } {
  const { plugin, needs, config } = source.opener;
  const table = new DeviceRegistry();
  const problems: string[] = [];
  const taken = new Set<string>();
  for (const [subpath, device] of Object.entries(source.devices)) {
    const named = prefixedTools(toolPrefix(request), device.tools ?? [], taken, problems);
    const tools = defer ? named.map((tool) => ({ ...tool, defer })) : named;
    const shown: Device = { match: device.match, tools, factory: source.factory(subpath) };
    try {
      const message = `Device ${JSON.stringify(subpath)}: expected "" or a path that begins with "/".`;
      if (!/^(?:\/|$)/.test(subpath)) throw new SyscallError("INVALID", message);
      table.register({ path: path + subpath, device: shown, plugin, layer: "mount", needs, config });
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      problems.push(thrown.message);
    }
  }
  return { entries: table.entries(), problems };
}

/** Gives the tools their full names. The operation written to the device keeps the plugin's own name. */
function prefixedTools(
  prefix: string,
  tools: readonly ToolDef[],
  taken: Set<string>,
  problems: string[],
): ToolDef[] {
  return tools.flatMap((tool) => {
    const name = shortenName(prefix + tool.name.replaceAll(/[^A-Za-z0-9_-]/g, "_"));
    if (taken.has(name)) {
      problems.push(`Its tool ${tool.name} is not offered: another tool has the name ${name}.`);
      return [];
    }
    taken.add(name);
    return [{ ...tool, name, op: tool.op ?? tool.name }];
  });
}

/** Shortens a name that is too long; a hash of the whole name keeps it unique. */
function shortenName(name: string): string {
  if (name.length <= MAX_TOOL_NAME) return name;
  const hash = Bun.hash(name).toString(16).padStart(HASH_CHARS, "0").slice(-HASH_CHARS);
  return `${name.slice(0, MAX_TOOL_NAME - HASH_CHARS - 1)}_${hash}`;
}

interface MountSourcesEvents extends Omit<SourceEvents, "failed"> {
  warn(thrown: unknown): void;
}

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
  /** The kernel ends: no source is opened or kept. */
  isClosing = false;

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
    this.isClosing = true;
    await Promise.all(this.#unused().map((source) => this.#close(source)));
  }

  /** A plugin from disk ends with the lease of its last run. */
  #isKept({ request, source }: MountPoint): boolean {
    if (this.isClosing || !this.#core.mountsKeptMs) return false;
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

function news(fresh: readonly string[], deferred: readonly string[], gone: readonly string[]): string {
  const parts: string[] = [];
  if (fresh.length > 0) parts.push(`New tools: ${fresh.join(", ")}.`);
  if (deferred.length > 0) parts.push(`New tools to load with ToolSearch: ${deferred.join(", ")}.`);
  if (gone.length > 0) parts.push(`Removed tools: ${gone.join(", ")}.`);
  return parts.join(" ");
}
