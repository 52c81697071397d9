/** The state of the daemon, for `rnix daemon status`. */

import { z } from "zod";
import type { DaemonStatus } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { identityOf } from "./shared/identity.ts";

export const daemonStatus = method({
  payload: () => z.object({}),
  handle(_, services): DaemonStatus {
    const who = identityOf(services);
    const init = services.init?.status();
    const { socket, log, connections, loopDelay } = services.host;
    return {
      ...who,
      uptime_ms: services.clock.now() - who.started_at_ms,
      socket,
      log,
      processes: services.kernel.processes.count,
      connections: connections(),
      rss_bytes: process.memoryUsage.rss(),
      strays: services.strays?.() ?? [],
      loop_delay_ms: loopDelay(),
      init: init?.units ?? [],
      init_problems: init?.problems ?? [],
    };
  },
});
