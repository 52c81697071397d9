/** The syscalls Mount, Unmount and UnmountAll. */

import type { Lazy } from "../lib/caches.ts";
import { messageOf } from "../lib/error-detail.ts";
import { SyscallError } from "../plugin/index.ts";
import { isLimited } from "../proxy/host-rules.ts";
import { type DeviceEntry, DeviceRegistry, type Namespace } from "../vfs/namespace.ts";
import type { FileSystem } from "./file-system.ts";
import type { OpenContexts } from "./files/open-context.ts";
import type { Confine } from "./mount/mount-context.ts";
import { addressIn, type MountPoint, type MountSource, type MountTable } from "./mount/mount-source.ts";
import {
  checkRequest,
  type MountScope,
  MountSources,
  MountTables,
  MountVisibility,
  mountInfos,
  mountPath,
  pointAt,
  type ScopeRef,
  scopeKey,
} from "./mount/mount-tables.ts";
import type { RunNetworks } from "./network/run-networks.ts";
import type { Process } from "./process/process.ts";
import { programPolicy } from "./process/program-policy.ts";
import type { ResourceHolder } from "./process/resource-holder.ts";
import type { Core } from "./tiers/core.ts";
import type { DeviceLease, MountInfo, MountRequest, PID, ProjectHandle } from "./types.ts";

export type { MountScope } from "./mount/mount-tables.ts";

type MountManagerParts = Core & {
  files: FileSystem;
  networks: Lazy<Pick<RunNetworks, "connect">>;
  openContexts: Pick<OpenContexts, "confinedShared">;
};

/** Where a source is opened, and what its programs may do. */
type MountPlace = Pick<MountScope, "project" | "env" | "devices" | "policy" | "confine">;

/** A mount that was not required, and why it failed. */
interface FailedMount {
  request: MountRequest;
  error: SyscallError;
}

/**
 * Mount, Unmount, UnmountAll, for any table of devices. A source with several mounts is
 * opened once, and closed with the last of them. A mount that fails leaves nothing behind.
 */
export class MountManager implements ResourceHolder {
  readonly #parts: MountManagerParts;
  readonly #tables: MountTables;
  readonly #sources: MountSources;
  readonly #visibility: MountVisibility;

  constructor(parts: MountManagerParts) {
    this.#parts = parts;
    this.#tables = new MountTables(parts.table);
    this.#visibility = new MountVisibility(parts, (thrown, table) => this.#warn(thrown, table));
    this.#sources = new MountSources(parts, {
      changed: ({ points }) => {
        for (const point of points) if (point.isVisible) this.#visibility.show(point);
      },
      warn: (thrown) => parts.log("warn", "mounts", messageOf(thrown)),
      inbox: async ({ points }, text) => {
        const users = [...points].flatMap(({ table }) => table.processes());
        const notified = await Promise.allSettled(
          [...new Set(users)].map((proc) => parts.notifyAsKernel(proc, text)),
        );
        // A process that is ending, or whose inbox is full, does not keep the text from the others.
        const failed = notified.find((one) => one.status === "rejected");
        if (failed) throw failed.reason;
      },
    });
  }

  /** The number of processes with mounts, of shared mounts, and of open sources. */
  get size(): number {
    return this.#tables.size + this.#sources.size;
  }

  /** Adds the shared mounts of a project's processes to a namespace: they come before its devices, the nearest first. */
  addShared(project: ProjectHandle, namespace: Namespace): Namespace {
    return this.#tables.shared(project).reduceRight((view, table) => view.with(table.devices()), namespace);
  }

  list(pid: PID): MountInfo[] {
    return mountInfos(this.#tables.find(this.#parts.table.get(pid)));
  }

  listShared(scope: ScopeRef): MountInfo[] {
    return mountInfos(this.#tables.scope(scope));
  }

  /** Returns the names of shared mounts of this type: a process that asks for such a name gets the shared mount. */
  services(project: Pick<ProjectHandle, "id">, type: string): string[] {
    const names = this.#tables
      .shared(project)
      .flatMap(({ points }) => [...points.values()])
      .filter((point) => point.isVisible && point.request.type === type)
      .map((point) => point.request.name);
    return [...new Set(names)];
  }

  /** Whether the process has a mount there that is open already. */
  isOpen(proc: Process, path: string): boolean {
    return this.#tables.find(proc)?.points.get(path)?.source.isOpen === true;
  }

  /** Mounts for one process and grants it the rights. Returns the path. */
  async mount(pid: PID, request: MountRequest): Promise<string> {
    return this.#mountOf(this.#parts.table.get(pid), request);
  }

  async #mountOf(proc: Process, request: MountRequest): Promise<string> {
    const path = mountPath(request, proc.pid);
    return this.#parts.debug.call(proc, "Mount", { path, type: request.type }, async () => {
      try {
        await this.#requireReach(proc, request);
        const { own, where } = this.#placeOf(proc, request);
        await this.#mount(this.#tables.of(proc), own, where, proc.signal);
      } finally {
        this.#tables.forgetEmpty(proc);
      }
      return path;
    });
  }

  /**
   * Makes the mounts of a new process in parallel. When a required one fails, all are unmounted and its error is thrown.
   * Failures of the others are returned.
   */
  async mountAll(proc: Process, requests: readonly MountRequest[]): Promise<FailedMount[]> {
    const settled = await Promise.allSettled(requests.map((request) => this.#mountOf(proc, request)));
    const failed: FailedMount[] = [];
    for (const [i, request] of requests.entries()) {
      const result = settled[i];
      if (result?.status !== "rejected") continue;
      const error: unknown = result.reason;
      if (request.required !== false || !(error instanceof SyscallError)) {
        await this.clear(proc);
        throw error;
      }
      failed.push({ request, error });
    }
    return failed;
  }

  /**
   * Unmounts the mounts of which the process may use no tool, and returns a notice for each. Fails with PERMISSION for a
   * required one.
   */
  async dropUnusable(proc: Process): Promise<string[]> {
    const unusable = this.#pointsOf(proc).filter(
      ({ tools }) => tools.size > 0 && ![...tools].some((name) => proc.permissions.showsTool(name)),
    );
    const words: string[] = [];
    for (const { request, path, tools } of unusable) {
      const { type, name, required } = request;
      const text = `${type} ${name} is mounted for nothing: agent ${proc.spec.agent.name} may use none of its ${tools.size} tools, by its own list, its parent's or a deny rule.`;
      if (required !== false) throw new SyscallError("PERMISSION", text);
      await this.#unmountOf(proc, path);
      if (!request.offered) words.push(text);
    }
    return words;
  }

  /**
   * Mounts for all processes in the scope, including the live ones. The lease is released with the mount. The signal
   * cancels a mount that is not yet complete.
   */
  mountShared(
    scope: MountScope,
    request: MountRequest,
    signal = new AbortController().signal,
  ): Promise<string> {
    const path = mountPath(request);
    const args = { path, type: request.type, scope: scopeKey(scope) };
    return this.#parts.debug.callFor(undefined, undefined, "Mount", args, async () => {
      try {
        const point = await this.#mount(this.#tables.scope(scope), request, scope, signal);
        point.release = () => scope.devices.release();
        return path;
      } catch (thrown) {
        scope.devices.release();
        throw thrown;
      }
    });
  }

  /** Reads the devices of a mount for a listing. It is opened for that, unless a process has it open, and closed again. */
  async look(
    request: MountRequest,
    where: Pick<MountScope, "project" | "env" | "devices">,
  ): Promise<DeviceEntry[]> {
    const devices = new DeviceRegistry();
    const table: MountTable = { devices: () => devices, points: new Map(), processes: () => [] };
    const point = await this.#mount(table, request, where, new AbortController().signal);
    try {
      return devices.entries();
    } finally {
      await this.#leave(point)();
    }
  }

  /** Fails with NOT_FOUND when the process has no mount there. Throws the plugin's error after unmounting. */
  async unmount(pid: PID, path: string): Promise<void> {
    await this.#unmountOf(this.#parts.table.get(pid), path);
  }

  unmountShared(scope: ScopeRef, path: string): Promise<void> {
    return this.#parts.debug.callFor(undefined, undefined, "Unmount", { path, scope: scopeKey(scope) }, () =>
      this.#unmount(pointAt(this.#tables.scope(scope), path)),
    );
  }

  /** Unmounts everything when the kernel ends. Nothing can be mounted afterwards. */
  unmountAll(): Promise<void> {
    return this.#parts.debug.callFor(undefined, undefined, "UnmountAll", {}, async () => {
      const points = this.#tables.all().flatMap((table) => [...table.points.values()]);
      await Promise.all([
        this.#sources.closeUnused(),
        ...points.map((point) => this.#unmount(point).catch((thrown) => this.#warn(thrown, point.table))),
      ]);
    });
  }

  /**
   * Returns a function that cancels the grace period of what the process has mounted now, except what others use, too.
   */
  hurrier(proc: Process): () => void {
    const points = this.#pointsOf(proc);
    return () => {
      for (const point of points)
        if ([...point.source.points].every((user) => user === point)) point.source.hurry();
    };
  }

  /** Unmounts everything of a process that ends. Failures are logged and do not delay the end. */
  async clear(proc: Process): Promise<void> {
    const table = this.#tables.find(proc);
    if (!table) return;
    table.ending = true;
    const paths = [...table.points.keys()];
    await Promise.all(
      paths.map((path) => this.#unmountOf(proc, path).catch((thrown) => this.#warn(thrown, table))),
    );
  }

  async #mount(
    table: MountTable,
    request: MountRequest,
    where: MountPlace,
    signal: AbortSignal,
  ): Promise<MountPoint> {
    const path = mountPath(request, table.proc?.pid);
    this.#refuse(table, request, path);
    const opener = where.devices.mounts?.get(request.type);
    if (!opener) throw unknownType(request.type, where.devices);
    const shared = table.isShared ? undefined : this.#sharedSource(request, where.project);
    const source = shared ?? this.#sources.find(request, opener, where);
    const point: MountPoint = { request, path, table, source, isVisible: false, tools: new Set() };
    table.points.set(path, point);
    source.points.add(point);
    try {
      await source.ready(signal);
      if (table.points.get(path) !== point) {
        throw new SyscallError("CLOSED", `${path} was unmounted while it was being mounted.`);
      }
      this.#visibility.show(point);
      return point;
    } catch (thrown) {
      await this.#leave(point)().catch((fault) => this.#warn(fault, table));
      throw thrown;
    }
  }

  /** Its programs may do what those of the process may. A limited network is of one run, and so is its source. */
  #placeOf(proc: Process, request: MountRequest): { own: MountRequest; where: MountPlace } {
    const { project, env, devices, network } = proc.spec.opts;
    const where = { project, env, devices };
    const policy = programPolicy(proc);
    const isRemote = addressIn(request.config, devices.mounts?.get(request.type)) !== undefined;
    if (policy === undefined || isRemote || request.sandbox === "off") return { own: request, where };
    const confine: Confine = (program) => this.#parts.openContexts.confinedShared(proc, program);
    return {
      own: isLimited(network) ? { ...request, shared: false } : request,
      where: { ...where, policy, confine },
    };
  }

  /** Fails with PERMISSION where the network of the process does not reach the source. */
  async #requireReach(proc: Process, request: MountRequest): Promise<void> {
    const { project, devices } = proc.spec.opts;
    const shared = this.#sharedSource(request, project);
    const address = shared?.address ?? addressIn(request.config, devices.mounts?.get(request.type));
    if (address !== undefined) await this.#parts.networks().connect(proc, address);
  }

  /** A shared mount of this name takes precedence: the process gets its own mount point of it. */
  #sharedSource(request: MountRequest, project: ProjectHandle): MountSource | undefined {
    const path = mountPath(request);
    const points = this.#tables.shared(project).map((table) => table.points.get(path));
    return points.find((point) => point?.isVisible)?.source;
  }

  #pointsOf(proc: Process): MountPoint[] {
    return [...(this.#tables.find(proc)?.points.values() ?? [])];
  }

  #refuse({ proc, points }: MountTable, request: MountRequest, path: string): void {
    checkRequest(request);
    if (this.#sources.isClosing)
      throw new SyscallError("CLOSED", "The kernel is shutting down and mounts no more.");
    if (proc && (proc.stopped || (proc.state !== "created" && proc.state !== "running"))) {
      throw new SyscallError("CLOSED", `Process ${proc.pid} is ending and mounts no more.`);
    }
    if (!points.has(path)) return;
    throw new SyscallError("INVALID", `${path} is mounted already. Unmount it first, or take another name.`);
  }

  #unmountOf(proc: Process, path: string): Promise<void> {
    return this.#parts.debug.call(proc, "Unmount", { path }, () =>
      this.#unmount(pointAt(this.#tables.find(proc), path)),
    );
  }

  async #unmount(point: MountPoint): Promise<void> {
    const closed = this.#leave(point);
    try {
      for (const proc of point.table.processes()) {
        const there = proc.fds.list().filter(({ path }) => `${path}/`.startsWith(`${point.path}/`));
        for (const { fd } of there) await this.#parts.files.close(proc, fd);
      }
    } finally {
      await closed();
    }
  }

  /**
   * Hides a mount point from all processes at once. The returned function closes its source, if no other mount point
   * uses it.
   */
  #leave(point: MountPoint): () => Promise<void> {
    const { path, table } = point;
    if (table.points.get(path) === point) table.points.delete(path);
    if (table.proc) this.#tables.forgetEmpty(table.proc);
    const close = this.#sources.leave(point);
    this.#visibility.hide(point);
    return async () => {
      try {
        await close();
      } finally {
        point.release?.();
      }
    };
  }

  #warn(thrown: unknown, { proc }: MountTable): void {
    const text = messageOf(thrown);
    this.#parts.log("warn", proc ? `PID ${proc.pid}` : "mounts", text);
  }
}

function unknownType(type: string, { mounts }: DeviceLease): SyscallError {
  const types = [...(mounts?.keys() ?? [])].sort();
  const message = `No plugin mounts the type ${JSON.stringify(type.slice(0, 64))}. There are: ${types.join(", ") || "none"}.`;
  return new SyscallError("NOT_FOUND", message);
}
