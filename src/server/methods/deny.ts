/** The method deny. */

import { method } from "./method.ts";
import { changeRights, RightsRequest } from "./shared/change-rights.ts";

/** CapRevoke by PID 0: revokes tools of a live run and all its descendants. */
export const deny = method({
  payload: RightsRequest,
  handle: (payload, services, caller) => changeRights(payload, services, caller, "revoke"),
});
