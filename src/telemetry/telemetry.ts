/** Telemetry of runs: spans and metrics, sent by OTLP. Loaded only where it is on. */

import type { Timer } from "../lib/clock.ts";
import type { ProcInfo } from "../run/process-schema.ts";
import type { ToolCallRecord } from "../run/step-schema.ts";
import { type ExportPorts, Sender, SpanQueue } from "./exporter.ts";
import { INSTRUMENTS, type Instruments, type Point } from "./instruments.ts";
import type { OtelConfig } from "./otel-config.ts";
import type { Message } from "./protobuf.ts";
import {
  type AnswerFacts,
  attributesOf,
  chatLabels,
  chatSpan,
  factsOf,
  nanos,
  type RunFacts,
  runSpan,
  toolSpan,
} from "./spans.ts";

interface TelemetryPorts extends Omit<ExportPorts, "closing" | "stop"> {
  version: string;
  instruments: Instruments;
  /** A process of the table; one that has just ended is still there. */
  info(pid: number): ProcInfo;
  /** Names a call among all calls of all runs. */
  callKey(uuid: string, step: number, callId: string): string;
}

/** How long the end of the server waits for a collector. */
const CLOSE_MS = 3000;
const SCHEMA_URL = "https://opentelemetry.io/schemas/1.37.0";

/** Makes spans and metrics of what the kernel reports. Nothing of it waits for the collector but `close`. */
export class Telemetry {
  readonly #config: OtelConfig;
  readonly #ports: TelemetryPorts;
  readonly #spans: SpanQueue | undefined;
  readonly #metrics: Sender | undefined;
  readonly #closing = new AbortController();
  readonly #stop = new AbortController();
  readonly #startMs: number;
  /** Live runs whose spans are sent, by PID. */
  readonly #runs = new Map<number, RunFacts>();
  #timer: Timer | undefined;
  #sending: Promise<unknown> = Promise.resolve();

  constructor(config: OtelConfig, ports: TelemetryPorts) {
    this.#config = config;
    this.#ports = ports;
    this.#startMs = ports.clock.now();
    const { traces, metrics } = config;
    const sending = { ...ports, closing: this.#closing.signal, stop: this.#stop.signal };
    if (traces) {
      const sender = new Sender(traces, "TracesRequest", sending);
      this.#spans = new SpanQueue(config, {
        ...sending,
        send: (spans) => sender.send(this.#traceRequest(spans)),
        count: (outcome, spans) => ports.instruments.add("rnix.telemetry.spans", spans, { outcome }),
      });
    }
    if (metrics) {
      this.#metrics = new Sender(metrics, "MetricsRequest", sending);
      this.#sendLater();
    }
  }

  /** A run that its caller does not sample has no spans. */
  onSpawn(pid: number): void {
    const info = this.#ports.info(pid);
    const facts = factsOf(info);
    if (info.kind === "agent" && facts.trace.isSampled) this.#runs.set(pid, facts);
  }

  onAnswer(pid: number, answer: AnswerFacts): void {
    const { error, usage } = answer;
    const { clock, instruments } = this.#ports;
    const endMs = clock.now();
    const labels = chatLabels(answer);
    const seconds = Math.max(0, endMs - Date.parse(answer.ts)) / 1000;
    const failed = error && { "error.type": error.code };
    instruments.add("gen_ai.client.operation.duration", seconds, { ...labels, ...failed });
    const tokens = usage ? { input: usage.input_tokens, output: usage.output_tokens } : {};
    for (const [type, count] of Object.entries(tokens))
      instruments.add("gen_ai.client.token.usage", count, { ...labels, "gen_ai.token.type": type });
    this.#add(pid, (run) => chatSpan(run, answer, endMs, this.#config.content));
  }

  onCall(pid: number, step: number, call: ToolCallRecord): void {
    this.#add(pid, (run) =>
      toolSpan(run, this.#ports.callKey(run.uuid, step, call.id), call, this.#config.content),
    );
  }

  /** A suspended run has not ended: its span is sent when it has. */
  onComplete(pid: number, _result: string, { suspended }: { suspended?: object }): void {
    if (!suspended) this.#add(pid, (run) => runSpan(run, this.#ports.info(pid), this.#config.content));
    this.#runs.delete(pid);
  }

  /** Sends what waits, once and for a short time. */
  async close(): Promise<void> {
    this.#timer?.cancel();
    this.#closing.abort();
    const deadline = this.#ports.clock.timer(CLOSE_MS, () => this.#stop.abort());
    await this.#spans?.close();
    if (this.#metrics && this.#ports.instruments.changed) this.#send();
    await this.#sending;
    deadline.cancel();
  }

  #add(pid: number, make: (run: RunFacts) => Message): void {
    const run = this.#runs.get(pid);
    if (run) this.#spans?.add(make(run));
  }

  #sendLater(): void {
    this.#timer = this.#ports.clock.timer(this.#config.metricsMs, () => {
      if (this.#ports.instruments.changed) this.#send();
      this.#sendLater();
    });
  }

  #send(): void {
    this.#ports.instruments.changed = false;
    const metrics = metricsOf(this.#ports.instruments, this.#startMs, this.#ports.clock.now());
    const scopeMetrics = [{ scope: this.#scope, metrics, schemaUrl: SCHEMA_URL }];
    const request = { resourceMetrics: [{ resource: this.#resource, scopeMetrics }] };
    this.#sending = this.#sending.then(() => this.#metrics?.send(request));
  }

  #traceRequest(spans: Message[]): Message {
    const scopeSpans = [{ scope: this.#scope, spans, schemaUrl: SCHEMA_URL }];
    return { resourceSpans: [{ resource: this.#resource, scopeSpans }] };
  }

  get #scope(): Message {
    return { name: "rnix", version: this.#ports.version };
  }

  get #resource(): Message {
    return { attributes: attributesOf({ "service.version": this.#ports.version, ...this.#config.resource }) };
  }
}

/** Values count from the start of the server: the next request has what a lost one had. */
const CUMULATIVE = 2;

function metricsOf(instruments: Instruments, startMs: number, nowMs: number): Message[] {
  const times = { startTimeUnixNano: nanos(startMs), timeUnixNano: nanos(nowMs) };
  return instruments.all().map(([name, points]) => {
    const { about: description, unit, ...rest } = INSTRUMENTS[name];
    const dataPoints = points.map((point) => {
      const value = "bounds" in rest ? histogram(point, rest.bounds) : { asDouble: point.sum };
      return { ...times, attributes: attributesOf(point.labels), ...value };
    });
    const data = { dataPoints, aggregationTemporality: CUMULATIVE };
    const metric = "bounds" in rest ? { histogram: data } : { sum: { ...data, isMonotonic: true } };
    return { name, description, unit, ...metric };
  });
}

function histogram({ count, sum, buckets }: Point, explicitBounds: readonly number[]): Message {
  return { count: String(count), sum, bucketCounts: buckets.map(String), explicitBounds };
}
