import type { Process } from "../../../src/kernel/process/process.ts";
import type { SpawnOpts } from "../../../src/kernel/types.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import type { KernelHarness } from "../../support/kernel.ts";

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
    h.opts(more),
  );
  return built.promise;
}

/** The code of the SyscallError it fails with. */
export async function codeOf(attempt: () => unknown): Promise<string | undefined> {
  try {
    await attempt();
    return undefined;
  } catch (error) {
    if (error instanceof SyscallError) return error.code;
    throw error;
  }
}
