import { expect, test } from "bun:test";
import { encode } from "../../src/telemetry/protobuf.ts";
import { attributesOf } from "../../src/telemetry/spans.ts";
import { decodeOtlp } from "../support/otlp/collector.ts";

const TRACE = "00ff7651916cd43dd8448eb211c8031c";

test("the official definitions decode what is encoded, at the edges of each type", () => {
  const long = "é".repeat(5000);
  const attributes = attributesOf({
    long,
    zero: 0,
    negative: -7,
    large: Number.MAX_SAFE_INTEGER,
    fraction: -0.25,
    no: false,
    list: ["a", "b"],
    absent: undefined,
  });
  const span = {
    traceId: TRACE,
    spanId: "0000000000000001",
    parentSpanId: "ffffffffffffffff",
    name: "n",
    kind: 3,
    flags: 1,
    startTimeUnixNano: "1795449700539000000",
    endTimeUnixNano: "18446744073709551615",
    attributes,
    status: { code: 2 },
  };
  const request = { resourceSpans: [{ resource: { attributes }, scopeSpans: [{ spans: [span, span] }] }] };
  expect(decodeOtlp("trace", encode("TracesRequest", request))).toEqual({
    resourceSpans: [{ resource: { attributes }, scopeSpans: [{ spans: [span, span] }] }],
  });
});

test("a histogram and a sum", () => {
  const times = { startTimeUnixNano: "1", timeUnixNano: "2" };
  const histogram = {
    dataPoints: [
      { ...times, count: "3", sum: 1.5, bucketCounts: ["1", "0", "2"], explicitBounds: [0.01, 0.02] },
    ],
    aggregationTemporality: 2,
  };
  const sum = { dataPoints: [{ ...times, asDouble: 0 }], aggregationTemporality: 2, isMonotonic: true };
  const metrics = [
    { name: "h", unit: "s", histogram },
    { name: "s", unit: "1", sum },
  ];
  const request = { resourceMetrics: [{ scopeMetrics: [{ metrics }] }] };
  expect(decodeOtlp("metrics", encode("MetricsRequest", request))).toEqual(request);
});
