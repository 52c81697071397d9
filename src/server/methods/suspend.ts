import { SyscallError } from "../../plugin/index.ts";
import { locateLive, refOf, requireAgent } from "../locate.ts";
import type { Answers, Payload } from "../protocol.ts";
import type { System } from "../system.ts";

/** Ends a process so that it can be resumed; answers when its record says so. */
export async function suspend(payload: Payload<"suspend">, system: System): Promise<Answers["suspend"]> {
  const found = await locateLive(system, payload, "suspended");
  requireAgent(found, "suspended");
  const ref = refOf(found.info);
  if (found.live) {
    await system.kernel.suspend(found.pid);
  } else if (found.info.state !== "suspended") {
    throw new SyscallError(
      "INVALID",
      `PID ${ref.pid} has ended (${found.info.exit_reason}): there is nothing to suspend.`,
    );
  }
  const run = await system.history.byUuid(ref.uuid);
  const { state, steps } = run?.info ?? found.info;
  return { ...ref, state, step: steps };
}
