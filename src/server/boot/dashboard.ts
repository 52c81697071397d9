/** Makes the dashboard when it is first asked for. */

import type { Clock } from "../../lib/clock.ts";
import type { Dashboard } from "../dashboard/dashboard.ts";
import type { OpenedDashboard, Services } from "../services.ts";

/** `close` ends its server, if it was ever opened. */
export function lazyDashboard(
  services: () => Services,
  clock: Clock,
): { open(port: number): Promise<OpenedDashboard>; close(): Promise<void> } {
  let made: Promise<Dashboard> | undefined;
  const make = async (): Promise<Dashboard> => {
    const { Dashboard } = await import("../dashboard/dashboard.ts");
    return new Dashboard(services, clock);
  };
  return {
    open: async (port) => {
      made ??= make();
      return (await made).open(port);
    },
    close: async () => (await made)?.close(),
  };
}
