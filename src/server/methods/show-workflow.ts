/** The method show_workflow. */

import { SyscallError } from "../../plugin/index.ts";
import { Target } from "../../protocol/fields.ts";
import type { ListedProc } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { findRun } from "./shared/find-run.ts";
import { listedProc } from "./shared/listed-proc.ts";

/** More than a workflow may start. */
const MAX_AGENTS = 2_000;

/** The run of a workflow and its agents, oldest first. Fails with INVALID for another run. */
export const showWorkflow = method({
  payload: Target,
  async handle(payload, services): Promise<{ run: ListedProc; agents: ListedProc[] }> {
    const { info } = await findRun(services, payload);
    if (info.workflow === null || info.workflow.label !== undefined || info.workflow.phase !== undefined) {
      throw new SyscallError("INVALID", `Run ${info.uuid} is no workflow: rnix show ${info.uuid} shows it.`);
    }
    const recorded = await (await services.history()).childrenOf(info.uuid, MAX_AGENTS);
    const live = services.kernel.processes.infos().filter(({ parent_uuid }) => parent_uuid === info.uuid);
    const agents = new Map([...recorded, ...live].map((one) => [one.uuid, one]));
    const inOrder = [...agents.values()].toSorted((a, b) => (a.uuid < b.uuid ? -1 : 1));
    return { run: listedProc(services, info), agents: inOrder.map((one) => listedProc(services, one)) };
  },
});
