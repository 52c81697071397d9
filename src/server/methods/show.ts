/** The method show. */

import { z } from "zod";
import type { DaemonSnapshot } from "../../plugin/index.ts";
import { Target } from "../../protocol/fields.ts";
import type { ProcDetail } from "../../protocol/methods.ts";
import type { HostConnections } from "../../protocol/record.ts";
import { recordedUnits } from "../../store/runs/recorded-units.ts";
import type { RunRecords } from "../../store/runs/run-records.ts";
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

const MAX_HOSTS = 100;
const Connect = z.object({
  host: z.string(),
  port: z.number(),
  sent: z.number().default(0),
  received: z.number().default(0),
});

/** At most 100 hosts, those with the most connections. */
async function connectionsOf(
  records: Pick<RunRecords, "everyEvent">,
  uuid: string,
): Promise<HostConnections[]> {
  const hosts = new Map<string, HostConnections>();
  for await (const { args, error } of records.everyEvent(uuid, undefined, "Connect")) {
    const found = Connect.safeParse(args).data;
    if (found === undefined) continue;
    const host = `${found.host}:${found.port}`;
    const sum = hosts.get(host) ?? { host, count: 0, failed: 0, sent: 0, received: 0 };
    sum.count++;
    sum.failed += error === undefined ? 0 : 1;
    sum.sent += found.sent;
    sum.received += found.received;
    hosts.set(host, sum);
  }
  return [...hosts.values()].sort((a, b) => b.count - a.count).slice(0, MAX_HOSTS);
}
