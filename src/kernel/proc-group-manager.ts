/** The syscalls of process groups. */

import type { Lazy } from "../lib/caches.ts";
import type { Signal } from "../lib/signals.ts";
import { SyscallError } from "../plugin/index.ts";
import type { Process } from "./process/process.ts";
import type { ResourceHolder } from "./process/resource-holder.ts";
import { assertSignal, type SignalManager } from "./signal-manager.ts";
import type { Core } from "./tiers/core.ts";
import type { PID } from "./types.ts";

/** The name of a process group: 1 to 64 of letters, digits and `._:-`. */
type PGID = string;

type ProcGroupParts = Core & { signals: Lazy<SignalManager> };

const NAME = /^[A-Za-z0-9._:-]{1,64}$/;
/** Maximum groups of one process. */
const GROUPS_PER_PROCESS = 64;

/**
 * JoinGroup, LeaveGroup, GetProcGroup, SignalGroup. A group exists while it has members. Members leave
 * at their reap, and a resumed run is in its groups again. `by` is the calling process, absent for PID 0.
 */
export class ProcGroupManager implements ResourceHolder {
  readonly #parts: ProcGroupParts;
  readonly #members = new Map<PGID, Set<Process>>();

  constructor(parts: ProcGroupParts) {
    this.#parts = parts;
  }

  /** No effect for a member. Fails with NOT_FOUND for an ended process, with EXHAUSTED beyond 64 groups. */
  joinGroup(pid: PID, groupId: PGID, by?: Process): void {
    this.#parts.debug.callNow(by, pid, "JoinGroup", { pid, group: groupId }, () => {
      if (!NAME.test(groupId)) {
        const message = `Expected a group's name of 1 to 64 letters, digits and ._:- characters, got ${shown(groupId)}.`;
        throw new SyscallError("INVALID", message);
      }
      const proc = this.#parts.table.get(pid);
      if (proc.state === "zombie") {
        throw new SyscallError("NOT_FOUND", `Process ${pid} has ended and joins no group.`, { pid });
      }
      if (proc.groups.has(groupId)) return;
      if (proc.groups.size >= GROUPS_PER_PROCESS) {
        const message = `Process ${pid} is in ${proc.groups.size} groups and may be in no more at once. Let it leave one first.`;
        throw new SyscallError("EXHAUSTED", message, { pid });
      }
      this.#join(proc, groupId);
      void this.#parts.saveInfo(proc);
    });
  }

  /** Adds the process of a resumed run to its former groups. */
  restore(proc: Process, groups: readonly PGID[]): void {
    for (const groupId of groups.slice(0, GROUPS_PER_PROCESS)) this.#join(proc, groupId);
  }

  /** Fails with NOT_FOUND for a process outside the group. The last member to leave ends the group. */
  leaveGroup(pid: PID, groupId: PGID, by?: Process): void {
    this.#parts.debug.callNow(by, pid, "LeaveGroup", { pid, group: groupId }, () => {
      const proc = this.#parts.table.get(pid);
      if (!proc.groups.has(groupId)) {
        throw new SyscallError("NOT_FOUND", `Process ${pid} is not in the group ${shown(groupId)}.`, { pid });
      }
      this.#leave(proc, groupId);
      if (!proc.exit) void this.#parts.saveInfo(proc);
    });
  }

  /** The members in the order in which they joined. Fails with NOT_FOUND for a group without members. */
  getProcGroup(groupId: PGID, by?: Process): PID[] {
    const list = (): PID[] => this.#membersOf(groupId).map((proc) => proc.pid);
    const args = { group: groupId };
    return this.#parts.debug.callNow(by, undefined, "GetProcGroup", args, list, ({ length }) => length);
  }

  /** Sends a signal to all members; returns how many it reached. Fails with NOT_FOUND for a group without members. */
  signalGroup(groupId: PGID, signal: Signal, by?: Process): number {
    return this.#parts.debug.callNow(by, undefined, "SignalGroup", { group: groupId, signal }, () => {
      assertSignal(signal);
      return this.#parts.signals().signalAll(this.#membersOf(groupId), signal, by);
    });
  }

  /** Step 6 of the reap. */
  clear(proc: Process): void {
    for (const groupId of proc.groups) this.#leave(proc, groupId);
  }

  /** Memberships. */
  get size(): number {
    return this.#members.values().reduce((sum, { size }) => sum + size, 0);
  }

  #join(proc: Process, groupId: PGID): void {
    proc.groups = new Set([...proc.groups, groupId]);
    this.#members.getOrInsertComputed(groupId, () => new Set()).add(proc);
  }

  #leave(proc: Process, groupId: PGID): void {
    proc.groups = new Set([...proc.groups].filter((one) => one !== groupId));
    const members = this.#members.get(groupId);
    members?.delete(proc);
    if (members?.size === 0) this.#members.delete(groupId);
  }

  #membersOf(groupId: PGID): Process[] {
    const members = this.#members.get(groupId);
    if (members) return [...members];
    const message = `There is no process group ${shown(groupId)}: it is there while a process is in it.`;
    throw new SyscallError("NOT_FOUND", message);
  }
}

function shown(groupId: PGID): string {
  return JSON.stringify(groupId.slice(0, 80));
}
