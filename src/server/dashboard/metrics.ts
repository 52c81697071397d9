/** The figures of the daemon, in the text format of Prometheus. */

import { RUN_STATUSES } from "../../protocol/run-status.ts";
import { INSTRUMENTS, type InstrumentName, type Instruments } from "../../telemetry/instruments.ts";
import { ownCaller } from "../connection/connection.ts";
import { listProcs } from "../methods/list-procs.ts";
import { openAsks } from "../methods/shared/open-asks.ts";
import type { Services } from "../services.ts";

type Sample = readonly [labels: Readonly<Record<string, string>>, value: number];

export const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export async function metricsText(services: Services, gone: AbortSignal): Promise<string> {
  const { kernel, identity, host, instruments } = services;
  const [{ processes }, asks] = await Promise.all([
    listProcs.handle({ all_projects: true, waiting: true }, services, ownCaller(gone)),
    openAsks(services),
  ]);
  const live = processes.filter(({ ended_at_ms }) => ended_at_ms === null);
  const queues = [...Map.groupBy(kernel.modelQueues(), ({ provider }) => provider)];
  const ofQueues = (count: "running" | "waiting" | "requests" | "refused"): Sample[] =>
    queues.map(([provider, keys]) => [{ provider }, sum(keys.map((one) => one[count]))]);
  const { user, system } = process.cpuUsage();
  const delay = host.loopDelay();
  return [
    gauge("rnix_build_info", "Always 1, with the version of the daemon.", [
      [{ version: identity.version, build: identity.build }, 1],
    ]),
    gauge("rnix_processes", "Processes that the daemon holds, by how they stand.", byStatus(processes)),
    gauge("rnix_questions_open", "Questions that wait for an answer of the user.", asks.length),
    gauge("rnix_units", "Background units of processes that have not ended.", [
      [{}, sum(live.map(({ units }) => units?.length ?? 0))],
    ]),
    gauge("rnix_model_requests_running", "Requests to models under way.", ofQueues("running")),
    gauge("rnix_model_requests_waiting", "Requests to models that wait for a slot.", ofQueues("waiting")),
    metric("counter", "rnix_model_requests_total", "Requests made to models.", ofQueues("requests")),
    metric("counter", "rnix_model_refused_total", "Requests that were rate limited.", ofQueues("refused")),
    ...(instruments ? counters(instruments) : []),
    gauge("rnix_connections", "Clients that are connected to the daemon.", host.connections()),
    gauge("rnix_timer_delay_seconds", "How late timers fired in the last minute.", [
      [{ stat: "p50" }, delay.p50 / 1000],
      [{ stat: "max" }, delay.max / 1000],
    ]),
    gauge("process_start_time_seconds", "When the daemon started.", identity.startedAtMs / 1000),
    gauge("process_resident_memory_bytes", "Memory of the daemon.", process.memoryUsage.rss()),
    metric("counter", "process_cpu_seconds_total", "CPU time of the daemon.", (user + system) / 1e6),
  ].join("");
}

/** The instruments whose labels name no project, agent or model. */
const COUNTERS: readonly (readonly [name: string, of: InstrumentName])[] = [
  ["rnix_runs_ended_total", "rnix.runs.ended"],
  ["rnix_tokens_total", "rnix.tokens"],
  ["rnix_cost_usd_total", "rnix.cost.usd"],
  ["rnix_tool_calls_total", "rnix.tool.calls"],
  ["rnix_telemetry_spans_total", "rnix.telemetry.spans"],
];

function counters(instruments: Instruments): string[] {
  return COUNTERS.map(([name, of]) => {
    const samples = instruments.points(of).map(({ labels, sum }): Sample => [labels, sum]);
    return metric("counter", name, INSTRUMENTS[of].about, samples);
  });
}

/** Each status has a sample, so that a status without processes is 0 and not absent. */
function byStatus(processes: readonly { status: string }[]): Sample[] {
  return RUN_STATUSES.map((status) => [{ status }, processes.filter((one) => one.status === status).length]);
}

function gauge(name: string, help: string, samples: readonly Sample[] | number): string {
  return metric("gauge", name, help, samples);
}

function metric(type: string, name: string, help: string, samples: readonly Sample[] | number): string {
  const rows: readonly Sample[] = typeof samples === "number" ? [[{}, samples]] : samples;
  const lines = rows.map(([labels, value]) => `${name}${labelsText(labels)} ${value}\n`);
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}

function labelsText(labels: Readonly<Record<string, string>>): string {
  const all = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return all.length === 0 ? "" : `{${all.join(",")}}`;
}

function escaped(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
