/** Makes this process the subreaper of its descendants. */

import { existsSync, readFileSync } from "node:fs";
import { libc } from "./libc.ts";
import { showKernelSign } from "./process-owner.ts";

const PR_SET_CHILD_SUBREAPER = 36;
const CHILDREN = `/proc/self/task/${process.pid}/children`;

/**
 * Makes this process the subreaper of its descendants (Linux, prctl(2)): all their orphans become its children, even
 * hidden ones. Called once before the first program of a kernel. Returns false where it is not supported.
 *
 * `alone`: this process exists only for its kernel, so every orphan belongs to a run, even without a mark. PID 1 of a
 * container also adopts other orphans, so there a mark is required.
 */
export function becomeSubreaper({ alone = false }: { alone?: boolean } = {}): boolean {
  kernels++;
  if (alone) {
    showKernelSign();
    ownsAll = process.pid !== 1;
  }
  // If orphans can't be listed, they could not be reaped: leave them to the system.
  if (!active && existsSync(CHILDREN)) active = libc()?.prctl(PR_SET_CHILD_SUBREAPER, 1) === 0;
  return active;
}

/** A kernel of this process has ended. After the last one, orphans are the system's again. */
export function leaveSubreaper(): void {
  if (--kernels > 0) return;
  if (active) libc()?.prctl(PR_SET_CHILD_SUBREAPER, 0);
  active = false;
  ownsAll = false;
}

export function isSubreaper(): boolean {
  return active;
}

/** Returns true when every orphan of this process belongs to a run. */
export function ownsEveryOrphan(): boolean {
  return active && ownsAll;
}

let active = false;
let ownsAll = false;
/** Kernels that live in this process. */
let kernels = 0;

/**
 * Returns the PIDs of this process's direct children: started programs and adopted orphans. All of them belong to the
 * main thread, which starts programs and adopts orphans.
 */
export function directChildren(): number[] {
  const list = readFileSync(CHILDREN, "latin1");
  return list.split(" ").flatMap((pid) => (Number(pid) > 0 ? [Number(pid)] : []));
}
