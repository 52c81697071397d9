import { SIGINT, SIGKILL, SIGTERM, type Signal } from "../../../kernel/types.ts";
import type { Services } from "../../services.ts";
import type { FoundRun } from "./find-run.ts";

/**
 * A signal that ends, to a run that is suspended: it has ended then, on disk, and its waker lets go of it; whoever waits
 * for it has its end. Answers how many have ended, with `tree` those that were laid down with it among them; 0 for what
 * is not suspended, and for other signals.
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
  // A child that was gone on with alone has a process of its own.
  const live = tree ? kernel.processes.infos().filter(({ parent_uuid }) => parent_uuid === info.uuid) : [];
  const signalled = live.reduce((sum, { pid }) => sum + kernel.signals.signalTree(pid, signal), 0);
  const ended = await kernel.lifecycle.endSuspended(info, run.records.dataDir, signal, { tree });
  if (ended > 0) {
    waker?.began(info.uuid);
    waker?.ended(info.uuid);
  }
  return ended + signalled;
}
