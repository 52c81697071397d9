/** The method require_files: may the run, whose program the caller is, have these files read and written? */

import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { method } from "./method.ts";

/** Absolute paths. */
const Files = () => z.array(z.string().startsWith("/").max(4096)).max(1000);

/**
 * Asked by every command inside a run before it opens a file that an argument names. Fails with PERMISSION when the run
 * has no right to one of them.
 */
export const requireFiles = method({
  payload: () => z.object({ files: Files(), written: Files() }),
  handle(payload, services, caller): { unit: string | null } {
    const unit = caller.unit();
    if (unit === undefined) return { unit: null };
    const { processes } = services.kernel;
    const pid = processes.infos().find(({ uuid }) => uuid === unit)?.pid;
    if (pid === undefined)
      throw new SyscallError("PERMISSION", `The run ${unit} is not alive here, so its rights are unknown.`);
    processes.requireEffects(pid, payload);
    return { unit };
  },
});
