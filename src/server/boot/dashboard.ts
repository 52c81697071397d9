/** Makes the dashboard, and the changes that it and `rnix top` watch, when they are first asked for. */

import { join } from "node:path";
import type { Clock } from "../../lib/clock.ts";
import type { ChangeFeed } from "../dashboard/change-feed.ts";
import type { Dashboard } from "../dashboard/dashboard.ts";
import type { DashboardRequest, OpenedDashboard, Services } from "../services.ts";
import type { BootOptions } from "./options.ts";

/** `close` ends its server, if it was ever opened. */
export function lazyDashboard(
  { user }: BootOptions,
  services: () => Services,
  clock: Clock,
): {
  open(request: DashboardRequest): Promise<OpenedDashboard>;
  feed: NonNullable<Services["procFeed"]>;
  close(): Promise<void>;
} {
  let made: Promise<Dashboard> | undefined;
  let feed: ChangeFeed | undefined;
  const openFeed = async (): Promise<ChangeFeed> => {
    const { ChangeFeed } = await import("../dashboard/change-feed.ts");
    feed ??= new ChangeFeed(services(), clock);
    return feed;
  };
  const make = async (): Promise<Dashboard> => {
    const { Dashboard } = await import("../dashboard/dashboard.ts");
    return new Dashboard(services, clock, {
      feed: await openFeed(),
      tokenFile: join(user.dataDir, "metrics-token"),
    });
  };
  return {
    open: async (request) => {
      made ??= make();
      return (await made).open(request);
    },
    feed: { open: openFeed, wake: () => feed?.wake() },
    close: async () => {
      feed?.close();
      await (await made)?.close();
    },
  };
}
