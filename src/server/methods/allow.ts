/** The method allow. */

import { method } from "./method.ts";
import { changeRights, RightsRequest } from "./shared/change-rights.ts";

/** CapGrant by PID 0: allows a live run more tools. */
export const allow = method({
  payload: RightsRequest,
  handle: (payload, services, caller) => changeRights(payload, services, caller, "grant"),
});
