/** A collector of OpenTelemetry, which decodes with the official definitions of its protocol. */

import { join } from "node:path";
import protobuf from "protobufjs";
import { z } from "zod";

const Value = z.object({
  stringValue: z.string().optional(),
  intValue: z.coerce.string().optional(),
  doubleValue: z.number().optional(),
  boolValue: z.boolean().optional(),
  arrayValue: z.object({ values: z.array(z.object({ stringValue: z.string() })) }).optional(),
});
const Attributes = z.array(z.object({ key: z.string(), value: Value })).default([]);
const Span = z.object({
  traceId: z.string(),
  spanId: z.string(),
  parentSpanId: z.string().default(""),
  name: z.string(),
  kind: z.number(),
  flags: z.number(),
  startTimeUnixNano: z.string(),
  endTimeUnixNano: z.string(),
  attributes: Attributes,
  status: z.object({ code: z.number() }).optional(),
});
const Point = z.object({
  attributes: Attributes,
  asDouble: z.number().optional(),
  count: z.string().optional(),
  sum: z.number().optional(),
  bucketCounts: z.array(z.string()).optional(),
  explicitBounds: z.array(z.number()).optional(),
});
const Data = z.object({ dataPoints: z.array(Point), isMonotonic: z.boolean().optional() });
const Metric = z.object({
  name: z.string(),
  unit: z.string(),
  sum: Data.optional(),
  histogram: Data.optional(),
});
const Resource = z.object({ attributes: Attributes });
const Traces = z.object({
  resourceSpans: z.array(
    z.object({ resource: Resource, scopeSpans: z.array(z.object({ spans: z.array(Span) })) }),
  ),
});
const Metrics = z.object({
  resourceMetrics: z.array(
    z.object({ resource: Resource, scopeMetrics: z.array(z.object({ metrics: z.array(Metric) })) }),
  ),
});

export interface CollectedSpan extends Omit<z.infer<typeof Span>, "attributes"> {
  attributes: Record<string, unknown>;
}

/** Decodes a request of these bytes with the official definitions. */
export function decodeOtlp(signal: "trace" | "metrics", bytes: Uint8Array): unknown {
  const type = definitions(signal);
  const object = type.toObject(type.decode(bytes), { longs: String, bytes: String });
  return signal === "trace" ? withHexIds(object) : object;
}

function definitions(signal: "trace" | "metrics"): protobuf.Type {
  const root = new protobuf.Root();
  root.resolvePath = (_origin, target) => join(import.meta.dir, target);
  root.loadSync(`opentelemetry/proto/collector/${signal}/v1/${signal}_service.proto`);
  const name = signal === "trace" ? "ExportTraceServiceRequest" : "ExportMetricsServiceRequest";
  return root.lookupType(`opentelemetry.proto.collector.${signal}.v1.${name}`);
}

/** OTLP/JSON has ids in hex, not in base64 as protobuf's JSON has. */
function withHexIds(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withHexIds);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      /^(?:traceId|spanId|parentSpanId)$/.test(key)
        ? Buffer.from(String(inner), "base64").toString("hex")
        : withHexIds(inner),
    ]),
  );
}

export class Collector implements AsyncDisposable {
  readonly spans: CollectedSpan[] = [];
  /** The latest of each name. */
  readonly metrics = new Map<string, z.infer<typeof Metric>>();
  readonly requests: { path: string; headers: Headers }[] = [];
  resource: Record<string, unknown> = {};
  /** The status of the next requests. */
  status = 200;
  readonly #server: Bun.Server<undefined>;

  constructor() {
    this.#server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: async (request) => {
        const path = new URL(request.url).pathname;
        this.requests.push({ path, headers: request.headers });
        if (this.status !== 200) return new Response(null, { status: this.status });
        this.#take(path, request.headers, await request.bytes());
        return new Response();
      },
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  span(name: string): CollectedSpan {
    const found = this.spans.find((span) => span.name === name);
    if (!found) throw new Error(`no span ${name} in ${this.spans.map((span) => span.name).join(", ")}`);
    return found;
  }

  points(name: string) {
    const metric = this.metrics.get(name);
    const { dataPoints = [] } = metric?.sum ?? metric?.histogram ?? {};
    return dataPoints.map(({ attributes, ...point }) => ({ ...point, attributes: plain(attributes) }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop(true);
  }

  #take(path: string, headers: Headers, body: Uint8Array): void {
    const bytes = headers.get("content-encoding") === "gzip" ? Bun.gunzipSync(new Uint8Array(body)) : body;
    const isJson = headers.get("content-type") === "application/json";
    const signal = path === "/v1/traces" ? "trace" : "metrics";
    const request: unknown = isJson ? JSON.parse(Buffer.from(bytes).toString()) : decodeOtlp(signal, bytes);
    if (signal === "trace") {
      for (const { resource, scopeSpans } of Traces.parse(request).resourceSpans) {
        this.resource = plain(resource.attributes);
        for (const { attributes, ...span } of scopeSpans.flatMap(({ spans }) => spans))
          this.spans.push({ ...span, attributes: plain(attributes) });
      }
      return;
    }
    for (const { scopeMetrics } of Metrics.parse(request).resourceMetrics)
      for (const metric of scopeMetrics.flatMap(({ metrics }) => metrics))
        this.metrics.set(metric.name, metric);
  }
}

function plain(attributes: z.infer<typeof Attributes>): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => {
      const { stringValue, intValue, doubleValue, boolValue, arrayValue } = value;
      const list = arrayValue?.values.map((one) => one.stringValue);
      return [
        key,
        stringValue ?? (intValue === undefined ? (doubleValue ?? boolValue ?? list) : Number(intValue)),
      ];
    }),
  );
}
