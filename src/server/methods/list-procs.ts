/** The method list_procs. */

import { z } from "zod";
import type { ProcInfo } from "../../kernel/types.ts";
import { Listing } from "../../protocol/fields.ts";
import type { ListedProc } from "../../protocol/methods.ts";
import { matchesFilter } from "../../store/runs/run-row.ts";
import type { Services } from "../services.ts";
import { method } from "./method.ts";
import { listedProc } from "./shared/listed-proc.ts";
import { visibleTo } from "./shared/visible-runs.ts";

/**
 * Lists the processes of this kernel by PID. `waiting`: also suspended runs that it resumes by itself. `cwd`: only
 * those of one project.
 */
export const listProcs = method({
  payload: () => Listing().extend({ waiting: z.boolean().optional() }),
  async handle(payload, services): Promise<{ processes: ListedProc[] }> {
    const sleeping = payload.waiting ? await waiting(services) : [];
    // Checked after the disk was read, because a run may have been resumed meanwhile.
    const live = services.kernel.processes.listProcs();
    const held = new Set(live.map(({ uuid }) => uuid));
    const processes = [...sleeping.filter(({ uuid }) => !held.has(uuid)), ...live].sort(
      (a, b) => a.pid - b.pid,
    );
    const seen = processes.filter(visibleTo(services) ?? (() => true));
    const shown = page(await ofProject(seen, payload, services), payload);
    return { processes: shown.map((info) => listedProc(services, info)) };
  },
});

async function waiting({ waker, history: open }: Services): Promise<ProcInfo[]> {
  if (!waker) return [];
  const history = await open();
  const runs = await Promise.all(waker.waiting.map((uuid) => history.byUuid(uuid)));
  return runs.flatMap((run) => (run?.info.state === "suspended" ? [run.info] : []));
}

type Request = z.infer<ReturnType<typeof Listing>>;

async function ofProject(processes: ProcInfo[], request: Request, services: Services): Promise<ProcInfo[]> {
  if (request.cwd === undefined || request.all_projects) return processes;
  const dir = (await services.catalog()).projectDir(request.cwd);
  return processes.filter((info) => info.project === dir);
}

/** `after` is a PID: they only grow. */
function page(processes: ProcInfo[], { after = 0, limit, newest, ...filter }: Request): ProcInfo[] {
  const found = processes.filter((info) => info.pid > after && matchesFilter(info, filter));
  return newest ? found.slice(-(limit ?? found.length)) : found.slice(0, limit);
}
