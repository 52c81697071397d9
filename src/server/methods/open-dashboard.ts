/** The method open_dashboard. */

import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import type { OpenedDashboard } from "../services.ts";
import { method } from "./method.ts";
import { requireTyped, requireUser } from "./shared/refuse-inside.ts";

/** An address for a browser of this user: it is good once. Refused inside a run, because the page acts as the user. */
export const openDashboard = method({
  payload: () =>
    z.object({
      port: z.int().min(0).max(65_535).optional(),
      metrics: z.enum(["token", "new-token"]).optional(),
    }),
  async handle({ port = 0, metrics }, services, caller): Promise<OpenedDashboard> {
    requireUser(caller, "open the dashboard");
    requireTyped(caller);
    const { dashboard } = services;
    if (!dashboard)
      throw new SyscallError("UNAVAILABLE", "Only the daemon serves the dashboard: leave --no-daemon out.");
    return dashboard({ port, metrics });
  },
});
