import { SyscallError } from "../../plugin/index.ts";
import type { Caller } from "../dispatch.ts";
import type { Answers, Payload } from "../protocol.ts";
import type { System } from "../system.ts";

/** Removes ended runs beyond the limits of config.yaml, of every project. From inside a process it only looks. */
export async function gc(
  { dry_run: dryRun = false }: Payload<"gc">,
  { collector }: System,
  { unit, gone }: Caller,
): Promise<Answers["gc"]> {
  if (unit !== undefined && !dryRun) {
    throw new SyscallError(
      "PERMISSION",
      `Records can't be removed from inside a process (RNIX_UNIT=${unit}): they say what it did. Do it from a terminal of your own.`,
    );
  }
  return collector.collect({ dryRun, signal: gone });
}
