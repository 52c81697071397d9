/** The method allow. */

import { method } from "./method.ts";
import { AllowRequest, changeRights } from "./shared/change-rights.ts";

/** CapGrant by PID 0: allows a live run more tools, or folders beside its project. */
export const allow = method({
  payload: AllowRequest,
  handle: (payload, services, caller) => changeRights(payload, services, caller, "grant"),
});
