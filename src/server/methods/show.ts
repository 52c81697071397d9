/** The method show. */

import type { DaemonSnapshot } from "../../plugin/index.ts";
import { Target } from "../../protocol/fields.ts";
import type { ProcDetail } from "../../protocol/methods.ts";
import { recordedUnits } from "../../store/runs/recorded-units.ts";
import { connectionsOf } from "../records/connections.ts";
import type { Run } from "../records/recorded-run.ts";
import { method } from "./method.ts";
import { findRun, flushEvents } from "./shared/find-run.ts";
import { listedProc } from "./shared/listed-proc.ts";
import { receiptOf } from "./shared/receipt.ts";

/** Returns all details of one process. */
export const show = method({
  payload: Target,
  async handle(payload, services): Promise<ProcDetail> {
    const found = await findRun(services, payload);
    const info = listedProc(services, found.info);
    const receipt = info.exit_code === null ? null : receiptOf(info);
    const recorded = found.live ? await (await services.history()).byUuid(info.uuid) : found.run;
    if (found.live) flushEvents(services, found.pid);
    const connections = recorded ? await connectionsOf(recorded.records, info.uuid) : [];
    // An ended process is not live, even if its reap is still under way.
    if (!found.live || info.ended_at_ms !== null) {
      const all_units = found.live
        ? services.kernel.units.list(info.uuid, { terminal: true })
        : await unitsOf(found.run);
      return { ...info, live: false, fds: [], mounts: [], all_units, connections, context: null, receipt };
    }
    const { fds, mounts, context } = services.kernel.detail(found.pid);
    const all_units = services.kernel.units.list(info.uuid, { terminal: true });
    return { ...info, live: true, fds, mounts, all_units, connections, context, receipt };
  },
});

/** Returns the background units of a run, from its record. */
async function unitsOf({ records, info }: Run): Promise<DaemonSnapshot[]> {
  const { records: lines } = await records.units(info.uuid);
  return recordedUnits(lines).map(({ snapshot }) => snapshot);
}
