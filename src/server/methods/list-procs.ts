import type { ProcInfo } from "../../kernel/types.ts";
import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Services } from "../services.ts";

/**
 * The processes this kernel holds, by PID, and with `waiting` those it goes on with by itself; of one project where
 * `cwd` is given.
 */
export async function listProcs(
  payload: Payload<"list_procs">,
  system: Services,
): Promise<Answers["list_procs"]> {
  const sleeping = payload.waiting ? await waiting(system) : [];
  // Asked when the disk has answered: until then one may have been gone on with.
  const live = system.kernel.processes.listProcs();
  const held = new Set(live.map(({ uuid }) => uuid));
  const processes = [...sleeping.filter(({ uuid }) => !held.has(uuid)), ...live].sort(
    (a, b) => a.pid - b.pid,
  );
  return { processes: page(await ofProject(processes, payload, system), payload) };
}

/** The same, and what has ended, from disk. */
export async function listAllProcs(
  payload: Payload<"list_all_procs">,
  system: Services,
): Promise<Answers["list_all_procs"]> {
  const { cwd, after, limit, all_projects } = payload;
  const project = cwd === undefined || all_projects ? undefined : system.catalog.projectDir(cwd);
  const live = () => system.kernel.processes.listProcs();
  const { runs, total, unreadable } = await system.history.list({ cwd, project, after, limit, live });
  return { processes: runs, total, unreadable };
}

async function waiting({ waker, history }: Services): Promise<ProcInfo[]> {
  const runs = await Promise.all((waker?.waiting ?? []).map((uuid) => history.byUuid(uuid)));
  return runs.flatMap((run) => (run?.info.state === "suspended" ? [run.info] : []));
}

type Request = Payload<"list_all_procs">;

async function ofProject(processes: ProcInfo[], request: Request, system: Services): Promise<ProcInfo[]> {
  if (request.cwd === undefined || request.all_projects) return processes;
  const dir = await system.catalog.projectDir(request.cwd);
  return processes.filter((info) => info.project === dir);
}

/** `after` is a PID: they only grow. */
function page(processes: ProcInfo[], { after = 0, limit }: Request): ProcInfo[] {
  return processes.filter((info) => info.pid > after).slice(0, limit);
}
