/** The tables of mounts: one for each process, project and user that has mounts. */

import type { Timer } from "../../lib/clock.ts";
import { SyscallError } from "../../plugin/index.ts";
import { DeviceRegistry } from "../../vfs/registry.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { DeviceLease, MountInfo, MountRequest, ProjectHandle } from "../types.ts";
import type { MountSource } from "./mount-source.ts";

/** The processes that see a shared mount: all of a project, or all of the user. */
export interface MountScope {
  of: "project" | "user";
  /** The project that holds its data; with "project", the one whose processes see it. */
  project: ProjectHandle;
  /** Released when it is unmounted. */
  devices: DeviceLease;
  env: Record<string, string>;
}

/** Identifies a scope. */
export interface ScopeRef extends Pick<MountScope, "of"> {
  project: Pick<ProjectHandle, "id">;
}

/** A path at which a source is mounted. */
export interface MountPoint {
  request: MountRequest;
  path: string;
  table: MountTable;
  source: SharedSource;
  /** True while processes see its devices. */
  isVisible: boolean;
  /** It was ready after the first step began: the model loads its tools with ToolSearch. */
  defers?: true;
  /** Names of its visible tools. */
  tools: ReadonlySet<string>;
  release?(): void;
}

/** An open source with all its mount points. */
export interface SharedSource {
  key: string;
  source: MountSource;
  points: Set<MountPoint>;
  /** Closes it, while it has no users. */
  closing?: Timer;
}

/** The mounts of one process, or of all processes that share them. */
export interface MountTable {
  /** The process that owns it; undefined for a shared table. */
  proc: Process | undefined;
  /** Made on first use. */
  devices(): DeviceRegistry;
  points: Map<string, MountPoint>;
  sees(proc: Process): boolean;
  /** It exists for a listing only. */
  looks?: true;
  /** Its process ends, so removals need no notification. */
  ending?: boolean;
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
      sees: (other: Process) => other === proc,
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
    const sees = (proc: Process): boolean => key === USER || proc.spec.opts.project.id === key;
    const table: MountTable = { proc: undefined, devices: () => devices, points: new Map(), sees };
    this.#ofScope.set(key, table);
    return table;
  }

  processesThatSee(table: MountTable): Process[] {
    return table.proc ? [table.proc] : this.#processes.all().filter((proc) => table.sees(proc));
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
    down: source.source.down?.message ?? null,
  }));
}
