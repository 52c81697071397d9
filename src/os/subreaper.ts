import { existsSync, readFileSync } from "node:fs";
import { showKernelSign } from "./kernel-sign.ts";
import { libc } from "./libc.ts";

const PR_SET_CHILD_SUBREAPER = 36;
const CHILDREN = `/proc/self/task/${process.pid}/children`;

/**
 * Makes this process the one that orphans below it fall to (Linux, prctl(2)): whatever a program leaves
 * behind comes back to us, whatever it did to hide. Called once by who runs a kernel, before the first
 * program. False where the system has no such thing.
 *
 * `alone`: this process exists for its kernel. Then every orphan is a run's, with a mark or without. The first process
 * of a container adopts those of others too, so that there a mark is needed.
 */
export function becomeSubreaper({ alone = false }: { alone?: boolean } = {}): boolean {
  if (alone) {
    showKernelSign();
    ownsAll = process.pid !== 1;
  }
  // Where the orphans could not be listed, nobody would reap them: then they go where they always went.
  if (!active && existsSync(CHILDREN)) active = libc()?.prctl(PR_SET_CHILD_SUBREAPER, 1) === 0;
  return active;
}

export function isSubreaper(): boolean {
  return active;
}

/** Whether every orphan that falls to this process was left by a run. */
export function ownsEveryOrphan(): boolean {
  return active && ownsAll;
}

let active = false;
let ownsAll = false;

/**
 * PIDs of the direct children of this process: the programs started, and orphans that fell to it. All of them
 * belong to the main thread, which starts the programs and which the system hands orphans to.
 */
export function directChildren(): number[] {
  const list = readFileSync(CHILDREN, "latin1");
  return list.split(" ").flatMap((pid) => (Number(pid) > 0 ? [Number(pid)] : []));
}
