/** The server's identity in its answers. */

import { type PingPayload, PROTOCOL } from "../../../protocol/methods.ts";
import type { Services } from "../../services.ts";

export function identityOf({ identity, init }: Services): PingPayload {
  const { version, build, startedAtMs } = identity;
  const who = { version, protocol: PROTOCOL, build, pid: process.pid, started_at_ms: startedAtMs };
  return init?.starting ? { ...who, starting: true } : who;
}
