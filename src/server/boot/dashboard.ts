/** Makes the dashboard, and the changes that it and `rnix top` watch, when they are first asked for. */

import { join } from "node:path";
import { userEnv } from "../../config/environment/environment.ts";
import type { Clock } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { ChangeFeed } from "../dashboard/change-feed.ts";
import type { Dashboard } from "../dashboard/dashboard.ts";
import type { DashboardRequest, OpenedDashboard, Services } from "../services.ts";
import type { BootOptions } from "./options.ts";

/** `close` ends its server, if it was ever opened. */
export function lazyDashboard(
  { user, settings, logger }: BootOptions,
  services: () => Services,
  clock: Clock,
): {
  open(request: DashboardRequest): Promise<OpenedDashboard>;
  /** Opens it if the settings have its port. A failure is logged. */
  start(): Promise<void>;
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
    return new Dashboard({
      services,
      clock,
      feed: await openFeed(),
      tokenFile: join(user.dataDir, "metrics-token"),
      settings: settings.own.dashboard ?? {},
      userEnv: () => userEnv(user.configDir),
    });
  };
  const open = async (request: DashboardRequest): Promise<OpenedDashboard> => {
    made ??= make();
    return (await made).open(request);
  };
  return {
    open,
    async start() {
      if (settings.own.dashboard?.port === undefined) return;
      await open({ port: 0 }).catch((thrown) => logger.warn("dashboard", messageOf(thrown)));
    },
    feed: { open: openFeed, wake: () => feed?.wake() },
    close: async () => {
      feed?.close();
      await (await made)?.close();
    },
  };
}
