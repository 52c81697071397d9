import { type Answers, type Payload, PROTOCOL } from "../protocol.ts";
import type { System } from "../system.ts";

/** Liveness, and who it is that lives: a client of another version can say so. */
export function ping(_: Payload<"ping">, { identity }: System): Answers["ping"] {
  const { version, build, startedAtMs } = identity;
  return { version, protocol: PROTOCOL, build, pid: process.pid, started_at_ms: startedAtMs };
}
