/** Reads the record of a run whose kernel may be dead. */

import type { ProcInfo } from "../../store/runs/schema.ts";

interface Records {
  info(uuid: string): Promise<ProcInfo | null>;
}

/**
 * Reads the record of a run and whether a kernel holds the run. A kernel may end both between two reads, so the record
 * is read again once the kernel is known to be dead. Returns null if there is no such run.
 */
export async function orphanedRecord(
  records: Records,
  uuid: string,
  kernelAlive: (kernelId: string) => boolean,
): Promise<{ info: ProcInfo; held: boolean } | null> {
  let info = await records.info(uuid);
  for (let looked: string | undefined; info && info.ended_at_ms === null && looked !== info.kernel; ) {
    if (kernelAlive(info.kernel)) return { info, held: true };
    looked = info.kernel;
    info = await records.info(uuid);
  }
  return info && { info, held: false };
}
