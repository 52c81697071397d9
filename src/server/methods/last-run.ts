/** The method last_run. */

import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { method } from "./method.ts";

/**
 * Finds the run that a command means when it names none: the project's last one. `alive`: the last live one, if any
 * lives. Fails with NOT_FOUND in a project without runs, and with INVALID inside a run.
 */
export const lastRun = method({
  payload: () =>
    z.object({
      cwd: z.string(),
      alive: z.boolean().optional(),
      /** Searches all projects, and foreign runs as well: the data folder is a saved record. */
      record: z.boolean().optional(),
    }),
  async handle({ cwd, alive, record }, { catalog, history, kernel }, caller) {
    if (caller.unit() !== undefined) {
      throw new SyscallError("INVALID", "Inside a run, name the run that the command is for: see `rnix ps`.");
    }
    const project = (await catalog()).projectDir(cwd);
    const found = await (await history()).last({
      cwd,
      project: record ? undefined : project,
      alive,
      live: () => kernel.processes.listProcs(),
    });
    if (found) return { pid: found.pid, uuid: found.uuid, intent: found.intent };
    const message = `There is no run in ${project} yet. \`rnix ps -a --all-projects\` lists those of other projects.`;
    throw new SyscallError("NOT_FOUND", message);
  },
});
