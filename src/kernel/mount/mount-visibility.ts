import { factsOf } from "../permission/facts.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { MountRequest } from "../types.ts";
import { mountRules, placed } from "./mount-point.ts";
import { type MountPoint, type MountTable, type MountTables, takeOut } from "./mount-tables.ts";

export interface MountVisibilityPorts {
  table: ProcessTable;
  /** Shows a live process the tools it may use by now. */
  appendTools(proc: Process): void;
  /** Into the process's inbox. */
  tell(proc: Process, text: string): Promise<void>;
}

/** What processes see of a mount: its devices, the rights to them, the tools, and a word on what has changed. */
export class MountVisibility {
  readonly #tables: MountTables;
  readonly #ports: MountVisibilityPorts;
  readonly #warn: (thrown: unknown, table: MountTable) => void;

  constructor(
    tables: MountTables,
    ports: MountVisibilityPorts,
    warn: (thrown: unknown, table: MountTable) => void,
  ) {
    this.#tables = tables;
    this.#ports = ports;
    this.#warn = warn;
  }

  /** Replaces the devices of a mount point by those of a source. */
  show(point: MountPoint): void {
    const { request, path, table, source } = point;
    const { entries, problems } = placed(request, path, source.source);
    for (const problem of problems) this.#warn(`${path}: ${problem}`, table);
    const registry = table.devices();
    takeOut(registry, path);
    for (const entry of entries) registry.register(entry);
    const before = point.tools;
    point.placed = true;
    point.tools = new Set(entries.flatMap(({ device }) => device.tools ?? []).map(({ name }) => name));
    if (table.proc) this.#give(table.proc, request, path);
    this.#seen(point, before);
  }

  /** Out of everyone's sight, at once. Nothing for one that was not in it. */
  hide(point: MountPoint): void {
    if (!point.placed) return;
    const { path, table } = point;
    point.placed = false;
    takeOut(table.devices(), path);
    if (table.proc) this.#ports.table.setPermissions(table.proc, table.proc.permissions.withoutMount(path));
    const before = point.tools;
    point.tools = new Set();
    this.#seen(point, before);
  }

  /** What comes with a mount of its own: the right to it. */
  #give(proc: Process, request: MountRequest, path: string): void {
    this.#ports.table.setPermissions(proc, proc.permissions.withMount(path, mountRules(request, path)));
  }

  /** Updates the rights of all processes that see the table, and notifies running ones of its tools. */
  #seen(point: MountPoint, before: ReadonlySet<string>): void {
    const fresh = [...point.tools].filter((name) => !before.has(name));
    const gone = [...before].filter((name) => !point.tools.has(name));
    for (const proc of this.#tables.whoSees(point.table)) {
      proc.permissions = proc.permissions.withFacts(factsOf(proc.spec.namespace));
      if (proc.state !== "running" || proc.stopped || point.table.ending) continue;
      this.#ports.appendTools(proc);
      const text = news(
        fresh.filter((name) => proc.permissions.showsTool(name)),
        gone.filter((name) => proc.tools.has(name)),
      );
      if (text !== "") void this.#ports.tell(proc, text).catch((thrown) => this.#warn(thrown, point.table));
    }
  }
}

/** For the model. */
function news(fresh: readonly string[], gone: readonly string[]): string {
  const parts: string[] = [];
  if (fresh.length > 0) parts.push(`You may now use these tools: ${fresh.join(", ")}.`);
  if (gone.length > 0) parts.push(`These tools are gone: ${gone.join(", ")}.`);
  return parts.join(" ");
}
