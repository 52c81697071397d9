/** The history of runs, as drivers read it. */

import type { ProcInfo } from "../../kernel/types.ts";
import { type History as HistoryService, type RunInfo, SyscallError } from "../../plugin/index.ts";
import { foreignLines, requireOwn } from "../../store/runs/own-run.ts";
import { STEPS } from "../../store/runs/run-files.ts";
import type { History } from "./history.ts";
import { isSelected } from "./run-selection.ts";

/** Maximum page, whatever a driver requests. */
const MAX_PAGE = 1000;

/** The service `history` of drivers: the recorded runs of all the user's projects. */
export function driverHistory(history: History): HistoryService {
  return {
    async runs({ uuid, ...query }) {
      const limit = Math.min(count("limit", query.limit), MAX_PAGE);
      const { parent, project, agent, verdict, since_ms, until_ms } = query;
      const filter = { parent: parent?.toLowerCase(), project, agent, verdict, since_ms, until_ms };
      const after = query.after?.toLowerCase();
      if (uuid === undefined) return (await history.runs({ ...filter, after, limit })).map(runInfo);
      if (!/^[0-9a-f][0-9a-f-]{0,35}$/i.test(uuid)) {
        throw new SyscallError(
          "INVALID",
          `history.runs: expected the beginning of a UUID, got ${JSON.stringify(uuid)}.`,
        );
      }
      const named = (await history.find(uuid.toLowerCase())).toSorted();
      const found: RunInfo[] = [];
      for (const one of named.filter((name) => after === undefined || name > after)) {
        if (found.length >= limit) break;
        const run = await history.byUuid(one);
        const isChild = filter.parent === undefined || run?.info.parent_uuid === filter.parent;
        if (run && isChild && isSelected(run.info, filter)) found.push(runInfo(run.info));
      }
      return found;
    },
    async steps(uuid, after, max) {
      const run = await history.byUuid(uuid);
      if (run === undefined) throw new SyscallError("NOT_FOUND", `There is no run ${uuid}.`);
      // Foreign runs are excluded, because a driver executes what it replays.
      requireOwn(run.info);
      const wanted = Math.min(count("max", max), MAX_PAGE);
      const found: object[] = [];
      // A step is never before the line with its number.
      for (let line = count("after", after); found.length < wanted; ) {
        const page = await run.records.steps(uuid, { after: line, limit: wanted });
        if (page.foreign > 0) throw foreignLines(uuid, STEPS, page.foreign);
        found.push(...page.records.filter(({ step }) => step > after));
        if (page.next === line) break;
        line = page.next;
      }
      return found.slice(0, wanted);
    },
  };
}

function runInfo(info: ProcInfo): RunInfo {
  const { uuid, pid, parent_uuid, kind, agent, intent, provider, model, cwd, project } = info;
  const { created_at_ms, ended_at_ms, exit_code, exit_reason } = info;
  return {
    ...{ uuid, pid, parent_uuid, kind, agent, intent, provider, model, cwd, project },
    ...{ created_at_ms, ended_at_ms, exit_code, exit_reason },
  };
}

function count(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new SyscallError("INVALID", `history: expected ${name} to be 0 or more, got ${value}.`);
}
