import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Services } from "../services.ts";
import { identityOf } from "./ping.ts";

export function daemonStatus(_: Payload<"daemon_status">, system: Services): Answers["daemon_status"] {
  const who = identityOf(system);
  const init = system.init.status();
  const { socket, log, connections, loopDelay } = system.host;
  return {
    ...who,
    uptime_ms: system.clock.now() - who.started_at_ms,
    socket,
    log,
    processes: system.kernel.processes.count,
    connections: connections(),
    rss_bytes: process.memoryUsage.rss(),
    strays: system.strays?.() ?? [],
    loop_delay_ms: loopDelay(),
    init: init.units,
    init_problems: init.problems,
  };
}
