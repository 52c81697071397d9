import type { ProcInfo } from "../../../../src/kernel/types.ts";
import { FakeClock } from "../../fake-clock.ts";
import { KernelHarness, silent, toolDevice } from "../../kernel.ts";
import { deviceOf, type HttpDriver } from "./driver.ts";

/** How a run over a driver has ended. */
export interface RunOutcome {
  info: ProcInfo;
  /** Before each further attempt. */
  waitsMs: number[];
  /** What of the model's calls was made. */
  made: string[];
}

/** A call is retried this often, and the provider's own wait is waited for this long. */
export const RETRIES = 2;
export const PATIENCE_MS = 120_000;

/**
 * A run of the whole kernel whose model is the driver's, at this address, and whose clock is moved on whenever it
 * waits for another attempt.
 */
export async function runOver(
  driver: HttpDriver,
  url: string,
  during?: (clock: FakeClock) => Promise<void>,
): Promise<RunOutcome> {
  const clock = new FakeClock();
  const made: string[] = [];
  const bash = toolDevice("Bash", (input) => {
    made.push(String(input.command));
    return "done";
  });
  await using h = new KernelHarness({
    model: silent,
    clock,
    devices: { [driver.device]: deviceOf(driver), "/dev/bash": bash },
    needs: { [driver.device]: ["secret"] },
    limits: { model_retries: RETRIES, model_wait: PATIENCE_MS },
  });
  const pid = await h.spawn("fix it", { provider: { ...h.opts().provider, ...choice(driver, url) } });
  h.leases--; // Of the options that only lent their provider.
  const waitsMs: number[] = [];
  const follows = follow(h, pid, (delayMs) => {
    waitsMs.push(delayMs);
    void clock.advance(delayMs);
  });
  await during?.(clock);
  return { info: await follows, waitsMs, made };
}

function choice({ device, version, extra }: HttpDriver, url: string) {
  return {
    device,
    model: "scripted",
    config: { base_url: url + version, extra },
    secret: async () => "test-key",
  };
}

async function follow(h: KernelHarness, pid: number, onRetry: (delayMs: number) => void): Promise<ProcInfo> {
  let last: ProcInfo | undefined;
  for await (const event of h.kernel.attach(pid)) {
    if (event.event === "retry") onRetry(event.delay_ms);
    if (event.event === "complete") last = event.info;
  }
  if (last === undefined) throw new Error(`the run of PID ${pid} ended without complete`);
  return last;
}
