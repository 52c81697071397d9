/** Claims this kernel's share of the machine. */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { type Clock, realClock, withTimeout } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { Logger } from "../../lib/logger.ts";
import { becomeSubreaper, Children, leaveSubreaper } from "../../os/children.ts";
import { OwnProgram, removeDeadPrograms } from "../../os/own-program.ts";
import { carryKernelMark } from "../../os/process-tag.ts";
import { groupMechanism, removeEmptyGroups } from "../../os/program-group.ts";
import type { KeepsUnit, LeftUnit } from "../../os/sweep.ts";
import { PidAllocator } from "../../store/pid-allocator.ts";
import { KernelLocks, kernelFolders } from "../daemon/kernel-locks.ts";
import type { BootOptions } from "./options.ts";

/** This kernel's share of the machine: its lock, its programs and its PIDs. */
export interface Machine {
  clock: Clock;
  kernelId: string;
  locks: KernelLocks;
  children: Children;
  pids: PidAllocator;
  /** Whether the kernel with this id is alive: its lock is held. */
  kernelAlive(kernelId: string): boolean;
  /**
   * Ends the programs of all kernels that are dead by now, but not those of units that their runs take over. `resumed`:
   * the runs that resume by themselves have been resumed. It never rejects: a failure is logged.
   */
  sweep(resumed?: boolean): Promise<void>;
  /** Says which units' programs are left to their runs. Called before the first sweep has read a ledger. */
  keepUnits(keeps: (left: LeftUnit, resumed: boolean) => Promise<boolean>): void;
  /** Waits for the sweeps that have begun, for at most `ms`. */
  swept(ms: number): Promise<void>;
  /** Called at the end: whether the lock file stays, so that a later kernel looks for runs to resume. */
  keepLockFileIf(handsOver: () => boolean): void;
  close(): Promise<void>;
}

/** Claims the machine: takes the kernel's lock, sweeps what dead kernels left, and opens programs and PIDs. */
export function claimMachine({ user, settings, logger, alone = false }: BootOptions): Machine {
  const clock = realClock;
  const { values } = settings;
  const folders = kernelFolders(user.dataDir);
  // The lock comes first: while it is held, no other kernel treats our programs and runs as a dead kernel's.
  const locks = new KernelLocks(folders.locks);
  const kernelId = Bun.randomUUIDv7();
  const lock = locks.take(kernelId);
  becomeSubreaper({ alone });
  if (alone) carryKernelMark(kernelId);
  let keeps = async (_left: LeftUnit, _resumed: boolean): Promise<boolean> => true;
  // A sweep has left ledgers of dead kernels, with programs of background units.
  let hasKept = false;
  const ownProgram = new OwnProgram(join(folders.programs, kernelId));
  const sweepNow = (resumed = false): Promise<void> => {
    const isKept = (id: string): boolean => locks.isAlive(id) || ownProgram.standsInFor(id);
    removePrograms(folders.programs, isKept, logger);
    return sweepLeftovers(folders, locks, values.grace, logger, async (left) => {
      const isTheirs = await keeps(left, resumed);
      hasKept ||= isTheirs;
      return isTheirs;
    });
  };
  let sweeping = sweepNow();
  let handsOver = (): boolean => false;
  const children = new Children({
    ledgerDir: folders.ledgers,
    kernelId,
    graceMs: values.grace,
    memoryBytes: values.shell_memory,
    diskBytes: values.shell_disk,
    ownProgram,
    onFault: (error) => logger.warn("programs", error.message),
  });
  const pids = new PidAllocator(join(user.dataDir, "pids"), { warn: (text) => logger.warn("pids", text) });
  return {
    clock,
    kernelId,
    locks,
    children,
    pids,
    kernelAlive: (id) => locks.isAlive(id),
    // One sweep at a time: the next one handles kernels that died since the last one began.
    sweep(resumed) {
      sweeping = sweeping.then(() => sweepNow(resumed));
      return sweeping;
    },
    async swept(ms) {
      await withTimeout(clock, ms, sweeping);
    },
    keepUnits(asked) {
      keeps = asked;
    },
    keepLockFileIf(asked) {
      handsOver = asked;
    },
    async close() {
      await children.close();
      await sweeping;
      if (hasKept) await sweepNow(true);
      leaveSubreaper();
      pids.release();
      lock.release({ remove: !handsOver() });
    },
  };
}

function removePrograms(folders: string, isKept: (kernelId: string) => boolean, logger: Logger): void {
  try {
    removeDeadPrograms(folders, isKept);
  } catch (error) {
    logger.warn("sweep", `links of dead kernels could not be removed: ${messageOf(error)}`);
  }
}

async function sweepLeftovers(
  { ledgers }: ReturnType<typeof kernelFolders>,
  locks: KernelLocks,
  graceMs: number,
  logger: Logger,
  keeps: KeepsUnit,
): Promise<void> {
  try {
    // Without a ledger nothing is left, and the code is not loaded.
    const hasLedgers = existsSync(ledgers) && readdirSync(ledgers).length > 0;
    const ended = hasLedgers
      ? await (await import("../../os/sweep.ts")).sweepChildren(ledgers, (id) => locks.isAlive(id), {
          graceMs,
          keeps,
        })
      : [];
    for (const { argv, pids } of ended) {
      logger.warn(
        "sweep",
        `ended what a dead rnix left running: ${argv.join(" ")} (PIDs ${pids.join(", ")})`,
      );
    }
    if (groupMechanism()) removeEmptyGroups();
  } catch (error) {
    const why = messageOf(error);
    logger.warn("sweep", `what a dead rnix left running could not be ended: ${why}`);
  }
}
