import { SyscallError } from "../../plugin/index.ts";
import type { FileSystem } from "../file-system.ts";
import type { Process } from "../process/process.ts";

/**
 * Asks the driver of a process's open model what it can do of what the run wants. An effort that it has no setting
 * for is left out of the requests, and told. INVALID where the run has images and the driver takes none.
 */
export async function fitToModel(files: FileSystem, proc: Process): Promise<void> {
  const { effort } = proc.spec.opts;
  proc.effort = undefined;
  if (effort === undefined && proc.images.length === 0) return;
  const { device } = proc.provider;
  const facts = await files.facts(proc, proc.llmFd);
  if (proc.images.length > 0 && facts.images !== true) {
    throw new SyscallError(
      "INVALID",
      `The run has images (--add), and ${device} takes none: leave them out, or choose another provider.`,
    );
  }
  if (effort === undefined) return;
  if (facts.effort === true) proc.effort = effort;
  else proc.notices.push(`effort ${effort} is left out: ${device} has no such setting`);
}
