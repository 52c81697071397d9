/** Makes the dashboard when it is first asked for. */

import { join } from "node:path";
import type { Clock } from "../../lib/clock.ts";
import type { Dashboard } from "../dashboard/dashboard.ts";
import type { DashboardRequest, OpenedDashboard, Services } from "../services.ts";
import type { BootOptions } from "./options.ts";

/** `close` ends its server, if it was ever opened. */
export function lazyDashboard(
  { user }: BootOptions,
  services: () => Services,
  clock: Clock,
): { open(request: DashboardRequest): Promise<OpenedDashboard>; close(): Promise<void> } {
  let made: Promise<Dashboard> | undefined;
  const make = async (): Promise<Dashboard> => {
    const { Dashboard } = await import("../dashboard/dashboard.ts");
    return new Dashboard(services, clock, join(user.dataDir, "metrics-token"));
  };
  return {
    open: async (request) => {
      made ??= make();
      return (await made).open(request);
    },
    close: async () => (await made)?.close(),
  };
}
