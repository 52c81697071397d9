/** Passes the kernel's events to the waker. */

import type { Kernel } from "../../kernel/kernel.ts";
import { isWoken } from "../../kernel/process/process-info.ts";
import type { KernelCallbacks } from "../../kernel/types.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Logger } from "../../lib/logger.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import type { History } from "../records/history.ts";
import type { AutoResume } from "./auto-resume.ts";
import { Waker } from "./waker.ts";

/** Notifies the waker of runs that begin, are suspended or end, and of messages. */
export function wakerListener(
  waker: Waker,
  { processes }: Pick<Kernel, "processes">,
): Pick<KernelCallbacks, "onSpawn" | "onComplete"> & { onMail(uuid: string): void } {
  return {
    onSpawn(pid) {
      waker.began(processes.identity(pid).uuid);
    },
    onComplete(pid, _result, { suspended }) {
      const { uuid, chat } = processes.identity(pid);
      if (!suspended) waker.ended(uuid);
      else if (isWoken(suspended.wake, chat))
        waker.suspended({ uuid, wake: suspended.wake, inMemory: processes.inherited(pid) });
    },
    onMail(uuid) {
      waker.mailed(uuid);
    },
  };
}

/**
 * The run to resume so that this one is resumed: it, or the topmost suspended run above it. A child resumes with its
 * parent, never before it. Damaged records may contain a cycle.
 */
export async function topSuspended(uuid: string, history: Pick<History, "byUuid">): Promise<string> {
  const passed = new Set([uuid]);
  for (let top = uuid; ; ) {
    const parent = (await history.byUuid(top))?.info.parent_uuid ?? null;
    const above = parent === null || passed.has(parent) ? undefined : await history.byUuid(parent);
    if (above?.info.state !== "suspended" || above.info.kind !== "agent") return top;
    top = above.info.uuid;
    passed.add(top);
  }
}

interface WakerParts {
  clock: Clock;
  history: Pick<History, "sleepers" | "byUuid">;
  kernel: Kernel;
  autoResume: Pick<AutoResume, "resume">;
  runs(dataDir: string): RunStore;
  logger: Logger;
}

/** The waker over the records of all projects. */
export function wakerOf({ clock, history, kernel, autoResume, runs, logger }: WakerParts): Waker {
  const dataDirOf = async (uuid: string): Promise<string | undefined> =>
    (await history.byUuid(uuid))?.records.dataDir;
  return new Waker({
    clock,
    logger,
    sleepers: () => history.sleepers(),
    info: async (uuid) => (await history.byUuid(uuid))?.info,
    isParked: (uuid) => kernel.units.isParked(uuid),
    async hasMail(uuid, wanted) {
      const dataDir = await dataDirOf(uuid);
      if (dataDir === undefined) return false;
      // Checked again and again: most inboxes are empty, and the rest needs all steps.
      if (!runs(dataDir).hasInbox(uuid)) return false;
      const { unread } = await runs(dataDir).inbox(uuid);
      return unread.some(({ kind }) => kind === wanted);
    },
    async resume(uuid, why, inMemory) {
      const top = await topSuspended(uuid, history);
      return autoResume.resume(top, why, top === uuid ? inMemory : undefined);
    },
    async leave(uuid, why) {
      const dataDir = await dataDirOf(uuid);
      if (dataDir !== undefined) await kernel.lifecycle.setWake(uuid, dataDir, why);
    },
  });
}
