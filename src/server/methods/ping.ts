import { type Answers, type Payload, PROTOCOL } from "../../protocol/methods.ts";
import type { System } from "../services.ts";

/** Liveness, and who it is that lives: a client of another version can say so. */
export async function ping({ started }: Payload<"ping">, system: System): Promise<Answers["ping"]> {
  if (started) await system.init.started();
  return identityOf(system);
}

export function identityOf({ identity, init }: System): Answers["ping"] {
  const { version, build, startedAtMs } = identity;
  const who = { version, protocol: PROTOCOL, build, pid: process.pid, started_at_ms: startedAtMs };
  return init.starting ? { ...who, starting: true } : who;
}
