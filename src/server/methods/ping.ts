import { type Answers, type Payload, PROTOCOL } from "../../protocol/methods.ts";
import type { Services } from "../services.ts";

/** Liveness, and who it is that lives: a client of another version can say so. */
export async function ping({ started }: Payload<"ping">, system: Services): Promise<Answers["ping"]> {
  if (started) await system.init.started();
  return identityOf(system);
}

export function identityOf({ identity, init }: Services): Answers["ping"] {
  const { version, build, startedAtMs } = identity;
  const who = { version, protocol: PROTOCOL, build, pid: process.pid, started_at_ms: startedAtMs };
  return init.starting ? { ...who, starting: true } : who;
}
