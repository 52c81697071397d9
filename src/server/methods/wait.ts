import type { ProcInfo } from "../../kernel/types.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Caller } from "../connection/caller.ts";
import type { Services } from "../services.ts";
import { findLiveRun } from "./find-run.ts";
import { receiptOf } from "./receipt.ts";
import { until } from "./stream-events.ts";

/** Waits for a run's end and answers its receipt; for a suspended one at once. TIMEOUT when it takes longer. */
export async function wait(
  payload: Payload<"wait">,
  system: Services,
  caller: Caller,
): Promise<Answers["wait"]> {
  const found = await findLiveRun(system, payload, "waited for");
  if (!found.live) return receiptOf(found.info);
  const giveUp = new AbortController();
  const timer =
    payload.timeout_ms === undefined
      ? undefined
      : system.clock.timer(payload.timeout_ms, () => giveUp.abort());
  try {
    const info = await ending(system, found.pid, AbortSignal.any([giveUp.signal, caller.gone]));
    if (info) return receiptOf(info);
  } finally {
    timer?.cancel();
  }
  throw new SyscallError(
    "TIMEOUT",
    `PID ${found.pid} has not ended within ${payload.timeout_ms} ms. It goes on: \`rnix wait ${found.pid}\` waits again.`,
  );
}

async function ending(system: Services, pid: number, giveUp: AbortSignal): Promise<ProcInfo | undefined> {
  for await (const event of until(system.kernel.attach(pid), giveUp)) {
    if (event.type === "complete") return event.info;
  }
  return undefined;
}
