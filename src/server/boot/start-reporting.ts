/** Counts what runs do, and sends it to a collector where one is named. */

import type { Env } from "../../config/environment/paths.ts";
import { callKey } from "../../kernel/tools/open-calls.ts";
import type { KernelCallbacks } from "../../kernel/types.ts";
import { Instruments } from "../../telemetry/instruments.ts";
import { version } from "../../version.ts";
import { runCounts } from "../daemon/run-counts.ts";
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
