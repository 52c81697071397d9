import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Services } from "../services.ts";
import { findRun } from "./find-run.ts";
import { receiptOf } from "./receipt.ts";

/** Everything about one process. */
export async function show(payload: Payload<"show">, system: Services): Promise<Answers["show"]> {
  const found = await findRun(system, payload);
  const { info } = found;
  const receipt = info.exit_code === null ? null : receiptOf(info);
  // What has ended is not live, whether it is reaped or is just being.
  if (!found.live || info.ended_at_ms !== null)
    return { ...info, live: false, fds: [], mounts: [], context: null, receipt };
  const { fds, mounts, context } = system.kernel.detail(found.pid);
  return { ...info, live: true, fds, mounts, context, receipt };
}
