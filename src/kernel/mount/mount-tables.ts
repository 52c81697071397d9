/** The tables of mounts, and the paths, tool names and devices of a mount point. */

import { type Device, SyscallError, type ToolDef } from "../../plugin/index.ts";
import { type DeviceEntry, DeviceRegistry } from "../../vfs/namespace.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { DeviceLease, MountInfo, MountRequest, PID, ProjectHandle } from "../types.ts";
import type { Confine } from "./mount-context.ts";
import type { MountPoint, MountSource, MountTable } from "./mount-source.ts";

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

/** Identifies a scope. */
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
    const table = this.#ofProcess.get(proc) ?? {
      proc,
      devices: () => proc.spec.namespace.own,
      points: new Map(),
      processes: () => [proc],
    };
    this.#ofProcess.set(proc, table);
    return table;
  }

  find(proc: Process): MountTable | undefined {
    return this.#ofProcess.get(proc);
  }

  scope(scope: ScopeRef): MountTable {
    const key = scopeKey(scope);
    const known = this.#ofScope.get(key);
    if (known) return known;
    const devices = new DeviceRegistry();
    const table: MountTable = {
      isShared: true,
      devices: () => devices,
      points: new Map(),
      processes: () =>
        this.#processes.all().filter(({ spec }) => key === USER || spec.opts.project.id === key),
    };
    this.#ofScope.set(key, table);
    return table;
  }

  /** The tables that the processes of a project share, the nearest first. */
  shared(project: Pick<ProjectHandle, "id">): MountTable[] {
    return (["project", "user"] as const).map((of) => this.scope({ of, project }));
  }

  /** Removes the table of a process without mounts. */
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
  throw new SyscallError(
    "NOT_FOUND",
    `Nothing is mounted at ${path.slice(0, 200)}. Mounted: ${there.join(", ") || "nothing"}.`,
  );
}

/** Removes every device at or below the path. */
export function removeDevices(registry: DeviceRegistry, path: string): void {
  const there = registry
    .entries()
    .filter((entry) => entry.path === path || entry.path.startsWith(`${path}/`));
  for (const entry of there) registry.unregister(entry.path);
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
  throw new SyscallError(
    "INVALID",
    `Mount ${JSON.stringify(`${type} ${name}`).slice(0, 200)}: expected a type of letters and digits, and a name of at most 64 letters, digits, ".", "_" and "-", without "__".`,
  );
}

/** Returns `/mnt/<type>/{pid}-{name}`; for a shared mount, `/mnt/<type>/<name>`. */
export function mountPath({ type, name }: Pick<MountRequest, "type" | "name">, pid?: PID): string {
  return `/mnt/${type}/${pid === undefined ? name : `${pid}-${name}`}`;
}

/** Returns the prefix of its tools' names. */
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
      if (subpath !== "" && !subpath.startsWith("/"))
        throw new SyscallError(
          "INVALID",
          `Device ${JSON.stringify(subpath)}: expected "" or a path that begins with "/".`,
        );
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
