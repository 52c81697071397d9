/** Shows mounts to processes: devices, rights, tools and a notification of changes. */

import { factsOf } from "../permission/facts.ts";
import type { Process } from "../process/process.ts";
import type { Core } from "../tiers/core.ts";
import type { MountRequest } from "../types.ts";
import type { MountPoint, MountTable } from "./mount-source.ts";
import { devicesAt, mountRules, removeDevices, toolPrefix } from "./mount-tables.ts";

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
