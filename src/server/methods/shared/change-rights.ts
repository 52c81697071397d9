/** Grants or revokes rights of a live run, for `allow` and `deny`. */

import { z } from "zod";
import { SyscallError } from "../../../plugin/index.ts";
import { type ProcRef, Target } from "../../../protocol/fields.ts";
import type { Caller } from "../../connection/caller.ts";
import type { Services } from "../../services.ts";
import { findLiveRun, refOf } from "./find-run.ts";
import { refuseInside } from "./refuse-inside.ts";

/** Rules as in `allow` and `deny` of a spawn. */
export const RightsRequest = () =>
  Target().extend({ tools: z.array(z.string().min(1).max(1_000)).min(1).max(100) });
type RightsRequest = z.infer<ReturnType<typeof RightsRequest>>;

/** What a run may use after the change: nothing of `denied_tools`, whatever is allowed. */
interface RightsAnswer extends ProcRef {
  allowed_tools: string[];
  denied_tools: string[];
}

/** Changes what a live run may use. Refused inside a run. */
export async function changeRights(
  request: RightsRequest,
  services: Services,
  caller: Caller,
  how: "grant" | "revoke",
): Promise<RightsAnswer> {
  refuseInside(
    caller,
    (unit) =>
      `The rights of a run can't be changed from inside one (${unit}). Change them from your own terminal.`,
  );
  const found = await findLiveRun(services, request, "given or denied tools");
  const { pid, exit_reason, state } = found.info;
  if (!found.live) {
    const ended = state === "suspended" ? "is suspended" : `has ended (${exit_reason})`;
    throw new SyscallError(
      "NOT_FOUND",
      `PID ${pid} ${ended}: only the rights of a live run can be changed. \`rnix ps\` lists them.`,
    );
  }
  const { allowed, denied } = await services.kernel.capabilities[how](found.pid, request.tools);
  return { ...refOf(found.info), allowed_tools: allowed, denied_tools: denied };
}
