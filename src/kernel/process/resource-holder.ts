/** The interface of a part that holds resources for processes. */

import type { Process } from "./process.ts";

/** A part of the kernel that holds resources for processes and frees them when a process is reaped. */
export interface ResourceHolder {
  clear(proc: Process): Promise<void> | void;
  /** How many processes, or resources of processes, it still holds something for. */
  readonly size: number;
}
