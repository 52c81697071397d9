import { SyscallError } from "../../plugin/index.ts";
import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Caller } from "../connection/caller.ts";
import type { Services } from "../services.ts";

/** Removes ended runs beyond the limits of config.yaml, of every project. From inside a run it only looks. */
export async function gc(
  { dry_run: dryRun = false }: Payload<"gc">,
  { collector }: Services,
  caller: Caller,
): Promise<Answers["gc"]> {
  const unit = dryRun ? undefined : caller.unit();
  if (unit !== undefined) {
    throw new SyscallError(
      "PERMISSION",
      `Records can't be removed from inside a run (${unit}): they say what it did. Do it from a terminal of your own.`,
    );
  }
  return collector.collect({ dryRun, signal: caller.gone });
}
