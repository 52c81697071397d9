/** What the programs of a process may use together, and what a model reads when they have. */

import type { ProgramLimits } from "../../os/program-group.ts";
import type { Limits } from "../types.ts";

export function programLimits({
  program_processes,
  program_memory,
}: Pick<Limits, "program_processes" | "program_memory">): ProgramLimits {
  return { processes: program_processes, memoryPercent: program_memory };
}

/** The note beside the result of a call; "" without one. */
export function hitsText(hits: readonly ("processes" | "memory")[], limits: Limits): string {
  const texts = {
    processes: `programs have reached the limit of ${limits.program_processes} processes (program_processes)`,
    memory: `programs were ended at the limit of ${limits.program_memory} % of the memory (program_memory)`,
  };
  return hits.map((hit) => `\n[${texts[hit]}]`).join("");
}
