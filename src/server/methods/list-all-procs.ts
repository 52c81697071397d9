/** The method list_all_procs. */

import { Listing } from "../../protocol/fields.ts";
import { matchesFilter } from "../../store/runs/run-row.ts";
import { method } from "./method.ts";
import { listedProc } from "./shared/listed-proc.ts";
import { visibleTo } from "./shared/visible-runs.ts";

/** Lists the processes of this kernel and the ended runs on disk, filtered and by page. */
export const listAllProcs = method({
  payload: Listing,
  async handle(payload, services) {
    const { cwd, all_projects, ...query } = payload;
    const project =
      cwd === undefined || all_projects ? undefined : (await services.catalog()).projectDir(cwd);
    const live = () => services.kernel.processes.listProcs();
    const isVisible = visibleTo(services);
    if (isVisible) {
      const own = live().filter((info) => isVisible(info) && matchesFilter(info, query));
      return { processes: own.map((info) => listedProc(services, info)), total: own.length, unreadable: [] };
    }
    const history = await services.history();
    const { runs, total, unreadable } = await history.list({ ...query, cwd, project, live });
    return { processes: runs.map((info) => listedProc(services, info)), total, unreadable };
  },
});
