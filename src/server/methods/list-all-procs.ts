import type { ProcInfo } from "../../kernel/types.ts";
import { Listing } from "../../protocol/fields.ts";
import { method } from "./method.ts";

/** Lists the processes of this kernel and the ended runs on disk. */
export const listAllProcs = method({
  payload: Listing,
  async handle(
    payload,
    services,
  ): Promise<{ processes: ProcInfo[]; total: number; unreadable: { path: string; message: string }[] }> {
    const { cwd, after, limit, all_projects } = payload;
    const project = cwd === undefined || all_projects ? undefined : services.catalog.projectDir(cwd);
    const live = () => services.kernel.processes.listProcs();
    const { runs, total, unreadable } = await services.history.list({ cwd, project, after, limit, live });
    return { processes: runs, total, unreadable };
  },
});
