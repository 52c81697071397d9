/** What the programs of a process may use. */

import type { ProgramLimits } from "../../os/program-group.ts";
import type { Limits } from "../types.ts";

export type ProgramLimitName =
  | "program_processes"
  | "program_memory"
  | "program_files"
  | "program_cpu"
  | "program_file_size";

export function programLimits(limits: Pick<Limits, ProgramLimitName>): ProgramLimits {
  return {
    processes: limits.program_processes,
    memoryPercent: limits.program_memory,
    files: limits.program_files,
    cpuSeconds: limits.program_cpu === null ? null : Math.ceil(limits.program_cpu / 1000),
    fileBytes: limits.program_file_size,
  };
}
