import { method } from "./method.ts";
import { changeRights, RightsRequest } from "./shared/change-rights.ts";

/** CapRevoke by PID 0: denies a live run, and all runs below it, what it was allowed. */
export const deny = method({
  payload: RightsRequest,
  handle: (payload, services, caller) => changeRights(payload, services, caller, "revoke"),
});
