import { SyscallError } from "../../plugin/index.ts";
import { DeviceRegistry } from "../../vfs/registry.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { DeviceLease, MountInfo, MountRequest, ProjectHandle } from "../types.ts";
import type { MountSource } from "./mount-source.ts";

/** Who sees a mount that is no process's: all processes of a project, or all of the user's. */
export interface MountScope {
  of: "project" | "user";
  /** Where it stands and keeps its data; with "project" the one whose processes see it. */
  project: ProjectHandle;
  /** Held until it is unmounted. */
  devices: DeviceLease;
  env: Record<string, string>;
}

/** Which scope is meant. */
export interface ScopeRef extends Pick<MountScope, "of"> {
  project: Pick<ProjectHandle, "id">;
}

/** One place where a source stands. */
export interface MountPoint {
  request: MountRequest;
  path: string;
  table: MountTable;
  source: SharedSource;
  /** Its devices are in sight. */
  placed: boolean;
  /** Names of its tools, as they were last placed. */
  tools: ReadonlySet<string>;
  release?(): void;
}

/** What is opened once, with every point where it stands. */
export interface SharedSource {
  key: string;
  source: MountSource;
  points: Set<MountPoint>;
}

/** The mounts of one process, or of all processes that share them. */
export interface MountTable {
  /** Whose; undefined when many see it. */
  proc: Process | undefined;
  /** Made when it is first asked for. */
  devices(): DeviceRegistry;
  points: Map<string, MountPoint>;
  sees(proc: Process): boolean;
  /** Its process ends, so removals notify no one. */
  ending?: boolean;
}

const USER = "user";

/** Who has mounted what: a process with mounts has a table, a project and the user one each when asked for. */
export class MountTables {
  readonly #processes: ProcessTable;
  readonly #ofProcess = new Map<Process, MountTable>();
  /** By the project's id; those of the user by "user". */
  readonly #ofScope = new Map<string, MountTable>();

  constructor(processes: ProcessTable) {
    this.#processes = processes;
  }

  /** Processes that have mounts, and mounts that many see. */
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

  whoSees(table: MountTable): Process[] {
    return table.proc ? [table.proc] : this.#processes.all().filter((proc) => table.sees(proc));
  }

  /** A process without mounts holds nothing. */
  forgetEmpty(proc: Process): void {
    if (this.#ofProcess.get(proc)?.points.size === 0) this.#ofProcess.delete(proc);
  }
}

export function scopeKey({ of, project }: ScopeRef): string {
  return of === "user" ? USER : project.id;
}

/** NOT_FOUND names what is mounted. */
export function pointAt(table: MountTable | undefined, path: string): MountPoint {
  const point = table?.points.get(path);
  if (point) return point;
  const there = [...(table?.points.keys() ?? [])];
  throw new SyscallError(
    "NOT_FOUND",
    `Nothing is mounted at ${path.slice(0, 200)}. Mounted: ${there.join(", ") || "nothing"}.`,
  );
}

/** Takes out every device at or below the path. */
export function takeOut(registry: DeviceRegistry, path: string): void {
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
