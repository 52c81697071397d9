/** The network connections of a run, from its recorded syscalls, by host. */

import { z } from "zod";
import type { HostConnections } from "../../protocol/record.ts";
import type { RunRecords } from "../../store/runs/run-records.ts";

const MAX_HOSTS = 100;
const Connect = z.object({
  host: z.string(),
  port: z.number(),
  sent: z.number().default(0),
  received: z.number().default(0),
});

/** At most 100 hosts, those with the most connections. */
export async function connectionsOf(
  records: Pick<RunRecords, "everyEvent">,
  uuid: string,
): Promise<HostConnections[]> {
  const hosts = new Map<string, HostConnections>();
  for await (const { syscall, args, error } of records.everyEvent(uuid)) {
    const found = syscall === "Connect" ? Connect.safeParse(args).data : undefined;
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
