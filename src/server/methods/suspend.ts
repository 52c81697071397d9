import { SyscallError } from "../../plugin/index.ts";
import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Caller } from "../connection/caller.ts";
import type { Services } from "../services.ts";
import { findLiveRun, refOf, requireAgent } from "./find-run.ts";
import { requireDescendant } from "./require-descendant.ts";

/**
 * Ends a process so that it can be resumed; answers when its record says so. One that is suspended already waits for
 * what is asked for from now on: without a word for a person, whatever it has waited for.
 */
export async function suspend(
  payload: Payload<"suspend">,
  system: Services,
  caller: Caller,
): Promise<Answers["suspend"]> {
  const unit = caller.unit();
  const found = await findLiveRun(system, payload, "suspended");
  requireDescendant(system, unit, found, "suspended");
  requireAgent(found, "suspended");
  const ref = refOf(found.info);
  const { wake = { on: "never" } as const } = payload;
  if (found.live) {
    // It may have been told to end in another way just before.
    const { reason } = await system.kernel.lifecycle.suspend(found.pid, { wake });
    if (reason !== "suspended") throw hasEnded(ref.pid, reason);
  } else if (found.info.ended_at_ms !== null && found.info.state === "suspended") {
    const { dataDir } = found.run.records;
    await system.kernel.lifecycle.leave(ref.uuid, dataDir, "asked for", wake);
    system.waker?.began(ref.uuid);
    system.waker?.suspended({ uuid: ref.uuid, wake });
  } else if (found.info.state !== "suspended") {
    throw hasEnded(ref.pid, found.info.exit_reason);
  }
  const run = await system.history.byUuid(ref.uuid);
  const { state, steps } = run?.info ?? found.info;
  return { ...ref, state, step: steps };
}

function hasEnded(pid: number, reason: string | null): SyscallError {
  return new SyscallError("INVALID", `PID ${pid} has ended (${reason}): there is nothing to suspend.`);
}
