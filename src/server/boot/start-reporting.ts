/** Counts what runs do, and sends it to a collector where one is named. */

import type { Env } from "../../config/environment/paths.ts";
import type { ProcessIdentity } from "../../kernel/process/process-info.ts";
import { callKey } from "../../kernel/tools/open-calls.ts";
import type { KernelCallbacks, PID } from "../../kernel/types.ts";
import { Instruments } from "../../telemetry/instruments.ts";
import { version } from "../../version.ts";
import type { KernelPort } from "./kernel-port.ts";
import type { Machine } from "./machine.ts";
import type { BootOptions } from "./options.ts";

export interface Reporting {
  instruments: Instruments;
  callbacks: readonly Partial<KernelCallbacks>[];
  /** Runs are part of traces. */
  traces: boolean;
  close(): Promise<void>;
}

/** `variables`: those of OpenTelemetry. The code of telemetry is loaded where they switch it on. */
export async function startReporting(
  variables: Env,
  { logger }: BootOptions,
  { clock }: Machine,
  port: KernelPort,
): Promise<Reporting> {
  const instruments = new Instruments();
  const counts = runCounts(instruments, (pid) => port.kernel.processes.identity(pid));
  const off = { instruments, callbacks: [counts], traces: false, close: async () => undefined };
  if (Object.keys(variables).length === 0) return off;
  const warn = (text: string): void => logger.warn("telemetry", text);
  const { otelConfig } = await import("../../telemetry/otel-config.ts");
  const config = otelConfig(variables, warn);
  if (!config) return off;
  const { Telemetry } = await import("../../telemetry/telemetry.ts");
  const info = (pid: number) => port.kernel.processes.info(pid);
  const ports = { clock, random: Math.random, warn, version, instruments, info, callKey };
  const telemetry = new Telemetry(config, ports);
  const urls = [config.traces, config.metrics].flatMap((target) => (target ? [target.url] : []));
  logger.info("telemetry", `sent to ${urls.join(" and ")}`);
  const close = async (): Promise<void> => {
    // Timers of the clock keep no command alive: without another one the runtime spins while it waits.
    const awake = setInterval(() => undefined, 1000);
    await telemetry.close();
    clearInterval(awake);
  };
  return { instruments, callbacks: [counts, telemetry], traces: true, close };
}

type Counted = Required<Pick<KernelCallbacks, "onCall" | "onUsage" | "onComplete">>;

/** `identity`: of a process of the table; one that has just ended is still there. */
function runCounts(instruments: Instruments, identity: (pid: PID) => ProcessIdentity): Counted {
  return {
    onCall(_pid, _step, { state }) {
      instruments.add("rnix.tool.calls", 1, { state });
    },
    onUsage(_pid, { provider: { name: provider }, used, cost_usd }) {
      const { input_tokens: input, output_tokens: output, cached_tokens: cached } = used;
      for (const [type, tokens] of Object.entries({ input, output, cached }))
        instruments.add("rnix.tokens", tokens, { provider, type });
      if (cost_usd !== undefined) instruments.add("rnix.cost.usd", cost_usd, { provider });
    },
    onComplete(pid, _result, { reason: verdict, suspended }) {
      if (!suspended && identity(pid).kind === "agent") instruments.add("rnix.runs.ended", 1, { verdict });
    },
  };
}
