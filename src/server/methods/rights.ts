import { SyscallError } from "../../plugin/index.ts";
import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Caller } from "../connection/caller.ts";
import type { Services } from "../services.ts";
import { findLiveRun, refOf } from "./find-run.ts";

/** CapGrant by PID 0: what a live run may use from now on. */
export function allow(
  payload: Payload<"allow">,
  system: Services,
  caller: Caller,
): Promise<Answers["allow"]> {
  return change(payload, system, caller, "grant");
}

/** CapRevoke by PID 0: what a live run, and all below it, may use no more. */
export function deny(payload: Payload<"deny">, system: Services, caller: Caller): Promise<Answers["deny"]> {
  return change(payload, system, caller, "revoke");
}

async function change(
  payload: Payload<"allow">,
  system: Services,
  caller: Caller,
  how: "grant" | "revoke",
): Promise<Answers["allow"]> {
  const unit = caller.unit();
  if (unit !== undefined) {
    throw new SyscallError(
      "PERMISSION",
      `The rights of a run can't be changed from inside one (${unit}). Change them from a terminal of your own.`,
    );
  }
  const found = await findLiveRun(system, payload, "given or denied tools");
  const { pid, exit_reason, state } = found.info;
  if (!found.live) {
    const ended = state === "suspended" ? "is suspended" : `has ended (${exit_reason})`;
    throw new SyscallError(
      "NOT_FOUND",
      `PID ${pid} ${ended}: only the rights of a live run can be changed. \`rnix ps\` lists them.`,
    );
  }
  const { allowed, denied } = await system.kernel.capabilities[how](found.pid, payload.tools);
  return { ...refOf(found.info), allowed_tools: allowed, denied_tools: denied };
}
