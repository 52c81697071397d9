/** What the programs of a process may use. */

import { libc } from "../../os/libc.ts";
import { type LimitKind, type ProgramLimits, RLIMITS } from "../../os/program-group.ts";
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

/** What a program, its shell or Rnix prints when a limit of one process is reached. */
const SIGNS = {
  files: /Too many open files|\bEMFILE\b/,
  cpu: /CPU time limit exceeded|\bSIGXCPU\b|^\[exit code 152\]$/m,
  file_size: /File size limit exceeded|File too large|\bEFBIG\b|\bSIGXFSZ\b|^\[exit code 153\]$/m,
};
const MAX_CHARS = 64 * 1024;

/** `hits`: limits of all programs together. `output`: what they have printed. "" without a limit that was reached. */
export function hitsText(
  hits: readonly LimitKind[],
  output: string,
  limits: Pick<Limits, ProgramLimitName>,
): string {
  const { files, cpuSeconds, fileBytes } = programLimits(limits);
  // A lower limit of the user is not ours.
  const isOurs = (libc()?.limit(RLIMITS.files)?.soft ?? 0n) >= BigInt(files);
  const end = output.slice(-MAX_CHARS);
  const each = (["files", "cpu", "file_size"] as const).filter(
    (kind) => SIGNS[kind].test(end) && (kind !== "files" || isOurs),
  );
  const texts: Record<LimitKind, string> = {
    processes: `programs have reached the limit of ${limits.program_processes} processes (program_processes)`,
    memory: `programs were ended at the limit of ${limits.program_memory} % of the memory (program_memory)`,
    files: `a program has reached the limit of ${files} open files (program_files)`,
    cpu: `a program was ended at the limit of ${cpuSeconds} s of processor time (program_cpu)`,
    file_size: `a program has reached the limit of ${fileBytes} bytes for a file (program_file_size)`,
  };
  return [...hits, ...each].map((hit) => `\n[${texts[hit]}]`).join("");
}
