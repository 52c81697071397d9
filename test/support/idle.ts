import type { Process } from "../../src/kernel/process/process.ts";
import type { SpawnOpts } from "../../src/kernel/types.ts";
import type { KernelHarness } from "./kernel.ts";

/** A process that does nothing until it is asked to stop. */
export async function idle(h: KernelHarness, more: Partial<SpawnOpts> = {}): Promise<Process> {
  const built = Promise.withResolvers<Process>();
  await h.kernel.processes.spawnTask(
    "command",
    async (proc) => {
      built.resolve(proc);
      await new Promise<void>((resolve) => proc.signal.addEventListener("abort", () => resolve()));
      return { kind: "stopped", status: proc.stopped ?? { code: 1, reason: "failed" } };
    },
    "idle",
    null,
    { ...h.opts(more), provider: null },
  );
  return built.promise;
}
