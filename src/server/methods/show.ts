/** The method show. */

import { Target } from "../../protocol/fields.ts";
import type { ProcDetail } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { findRun } from "./shared/find-run.ts";
import { listedProc } from "./shared/listed-proc.ts";
import { receiptOf } from "./shared/receipt.ts";

/** Returns all details of one process. */
export const show = method({
  payload: Target,
  async handle(payload, services): Promise<ProcDetail> {
    const found = await findRun(services, payload);
    const info = listedProc(services, found.info);
    const receipt = info.exit_code === null ? null : receiptOf(info);
    // An ended process is not live, even if its reap is still under way.
    if (!found.live || info.ended_at_ms !== null)
      return { ...info, live: false, fds: [], mounts: [], context: null, receipt };
    const { fds, mounts, context } = services.kernel.detail(found.pid);
    return { ...info, live: true, fds, mounts, context, receipt };
  },
});
