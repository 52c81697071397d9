/** Signals of requests: their numbers, and how one ends a suspended run. */

import { SIGINT, SIGKILL, SIGTERM, type Signal } from "../../../lib/signals.ts";
import { SyscallError } from "../../../plugin/index.ts";
import type { Services } from "../../services.ts";
import type { FoundRun } from "./find-run.ts";

/**
 * Ends a suspended run by TERM, INT or KILL in its record: its waker forgets it, and `wait` returns its end. Returns
 * how many runs have ended, with `tree` including children suspended with it; 0 for other runs and signals.
 */
export async function endSuspended(
  { kernel, waker }: Pick<Services, "kernel" | "waker">,
  found: FoundRun,
  signal: Signal,
  tree: boolean,
): Promise<number> {
  const ends = signal === SIGTERM || signal === SIGINT || signal === SIGKILL;
  if (!ends || found.live || found.info.state !== "suspended") return 0;
  const { info, run } = found;
  // A child that was resumed alone has a process of its own.
  const live = tree ? kernel.processes.infos().filter(({ parent_uuid }) => parent_uuid === info.uuid) : [];
  const signalled = live.reduce((sum, { pid }) => sum + kernel.signals.signalTree(pid, signal), 0);
  const ended = await kernel.lifecycle.endSuspended(info, run.records.dataDir, signal, { tree });
  if (ended > 0) {
    waker?.began(info.uuid);
    waker?.ended(info.uuid);
  }
  return ended + signalled;
}

/** Parses the number of a signal. Fails with INVALID for an unknown one. */
export function parseSignal(number: number): Signal {
  switch (number) {
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
      return number;
    default: {
      const message = `signal: expected 1 (TERM), 2 (KILL), 3 (INT), 4 (PAUSE) or 5 (RESUME); got ${number}.`;
      throw new SyscallError("INVALID", message);
    }
  }
}
