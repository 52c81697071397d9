import type { FileSystem } from "../file-system.ts";
import type { Process } from "../process.ts";

/**
 * Asks the driver of a process's open model what it can do of what the run wants. An effort that it has no setting
 * for is left out of the requests, and told.
 */
export async function suitModel(files: FileSystem, proc: Process): Promise<void> {
  const { effort } = proc.spec.opts;
  proc.effort = undefined;
  if (effort === undefined) return;
  const facts = await files.facts(proc, proc.llmFd);
  if (facts.effort === true) proc.effort = effort;
  else proc.notices.push(`effort ${effort} is left out: ${proc.provider.device} has no such setting`);
}
