/** The table of live processes. */

import { SyscallError } from "../../plugin/index.ts";
import type { Permissions } from "../permission/permissions.ts";
import type { PID } from "../types.ts";
import type { Process } from "./process.ts";

/** The live processes. One is added at spawn and removed as the last step of its reap. */
export class ProcessTable {
  readonly #byPid = new Map<PID, Process>();
  readonly #byUuid = new Map<string, Process>();

  add(proc: Process): void {
    this.#byPid.set(proc.pid, proc);
    this.#byUuid.set(proc.uuid, proc);
  }

  remove(proc: Process): void {
    this.#byPid.delete(proc.pid);
    this.#byUuid.delete(proc.uuid);
  }

  find(pid: PID): Process | undefined {
    return this.#byPid.get(pid);
  }

  get(pid: PID): Process {
    const proc = this.#byPid.get(pid);
    if (!proc) throw notLive(pid, { pid });
    return proc;
  }

  getByUuid(uuid: string): Process {
    const proc = this.#byUuid.get(uuid);
    if (!proc) throw notLive(uuid);
    return proc;
  }

  /** Finds a process by its complete UUID. */
  ofUuid(uuid: string): Process | undefined {
    return this.#byUuid.get(uuid);
  }

  /** By UUID or a prefix that only one live process has. */
  findByUuid(prefix: string): Process | undefined {
    const exact = this.#byUuid.get(prefix);
    if (exact) return exact;
    const matches = [...this.#byUuid.values()].filter((proc) => proc.uuid.startsWith(prefix));
    if (matches.length > 1) {
      const message = `${prefix} begins the UUID of ${matches.length} processes. Give more of it.`;
      throw new SyscallError("INVALID", message);
    }
    return matches[0];
  }

  all(): Process[] {
    return [...this.#byPid.values()];
  }

  parent({ family }: Process): Process | undefined {
    return this.#byPid.get(family.ppid);
  }

  /** The process and its live ancestors, nearest first. */
  ancestry(proc: Process): Process[] {
    const line = [proc];
    for (let one = this.parent(proc); one; one = this.parent(one)) line.push(one);
    return line;
  }

  /** Stops the clocks of the process and its ancestors until the returned function is called. */
  holdClocks(proc: Process): () => void {
    const releases = this.ancestry(proc).map(({ clock }) => clock.hold());
    return () => {
      for (const release of releases) release();
    };
  }

  /** The process and its descendants, parents first. */
  tree(root: Process): Process[] {
    const found = [root];
    for (const proc of found) {
      for (const child of proc.family.children) {
        const live = this.#byPid.get(child);
        if (live) found.push(live);
      }
    }
    return found;
  }

  /** The one way to change rights: also limits all descendants at once, as no process holds more than its parent. */
  setPermissions(root: Process, permissions: Permissions): void {
    root.permissions = permissions;
    for (const proc of this.tree(root)) {
      const parent = proc === root ? undefined : this.#byPid.get(proc.family.ppid);
      if (parent) proc.permissions = proc.permissions.within(parent.permissions);
    }
  }

  get size(): number {
    return this.#byPid.size;
  }
}

function notLive(name: PID | string, detail?: { pid: PID }): SyscallError {
  const message = `There is no live process ${name}. \`rnix ps -a\` lists the ended ones.`;
  return new SyscallError("NOT_FOUND", message, detail);
}
