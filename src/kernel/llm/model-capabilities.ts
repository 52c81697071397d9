/** Fits the settings of a run to what its model supports. */

import { SyscallError } from "../../plugin/index.ts";
import type { FileSystem } from "../file-system.ts";
import type { Process } from "../process/process.ts";

/**
 * Fits a run's settings to what the driver of its open model supports. An unsupported effort is left out of the
 * requests, with a notice. Fails with INVALID if the run has images and the driver accepts none.
 */
export async function fitToModel(files: FileSystem, proc: Process): Promise<void> {
  const { effort } = proc.spec.opts;
  proc.model.effort = undefined;
  if (effort === undefined && proc.conversation.images.length === 0) return;
  const { device } = proc.model.provider;
  const facts = await files.facts(proc, proc.model.fd);
  if (proc.conversation.images.length > 0 && facts.images !== true) {
    throw new SyscallError(
      "INVALID",
      `The run has images (--add), but ${device} accepts none. Leave them out, or choose another provider.`,
    );
  }
  if (effort === undefined) return;
  if (facts.effort === true) proc.model.effort = effort;
  else proc.notices.push(`effort ${effort} is left out: ${device} has no such setting`);
}
