/** The method require_person: does the request come from a person? */

import { z } from "zod";
import { method } from "./method.ts";
import { requireTyped, requireUser } from "./shared/refuse-inside.ts";

/**
 * Asked by a command that acts without the daemon, such as `rnix trust`: the daemon sees the real ancestors of its
 * client, also of one in a namespace.
 */
export const requirePerson = method({
  payload: () => z.object({}),
  handle(_payload, _services, caller): Record<string, never> {
    requireUser(caller, "trust a project");
    requireTyped(caller);
    return {};
  },
});
