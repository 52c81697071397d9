/** The process that uses the service `schedule`. */

import type { ProcInfo } from "../../store/runs/schema.ts";
import type { ProjectHandle } from "../types.ts";

/** The process that uses the service `schedule`. */
export interface ScheduleCaller {
  project: ProjectHandle;
  cwd: string;
  env: Readonly<Record<string, string>>;
  /** The run that calls; null for PID 0, which is the user. */
  run: ProcInfo | null;
  /** The job whose run, or an ancestor of it, this is. */
  jobId: string | null;
}
