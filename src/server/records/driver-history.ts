/** The history of runs, as drivers read it. */

import type { ProcInfo } from "../../kernel/types.ts";
import { type History as HistoryService, type RunInfo, SyscallError } from "../../plugin/index.ts";
import { foreignLines, requireOwn } from "../../store/runs/own-run.ts";
import { STEPS } from "../../store/runs/run-writer.ts";
import type { History } from "./history.ts";

/** Maximum page, whatever a driver requests. */
const MAX_PAGE = 1000;

/** The service `history` of drivers: the recorded runs of all the user's projects. */
export function driverHistory(history: History): HistoryService {
  return {
    async runs({ uuid, parent, limit }) {
      const most = Math.min(count("limit", limit), MAX_PAGE);
      if (parent !== undefined) {
        const children = await history.childrenOf(parent.toLowerCase(), most);
        return children.map(runInfo);
      }
      if (uuid === undefined || !/^[0-9a-f][0-9a-f-]{0,35}$/i.test(uuid)) {
        throw new SyscallError(
          "INVALID",
          `history.runs: expected the beginning of a UUID or a parent, got ${JSON.stringify(uuid)}.`,
        );
      }
      const found = (await history.find(uuid.toLowerCase())).toSorted().slice(0, most);
      const runs = await Promise.all(found.map((one) => history.byUuid(one)));
      return runs.flatMap((run) => (run === undefined ? [] : runInfo(run.info)));
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
  const { ended_at_ms, exit_code, exit_reason } = info;
  return {
    uuid,
    pid,
    parent_uuid,
    kind,
    agent,
    intent,
    provider,
    model,
    cwd,
    project,
    ended_at_ms,
    exit_code,
    exit_reason,
  };
}

function count(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new SyscallError("INVALID", `history: expected ${name} to be 0 or more, got ${value}.`);
}
