/** The metrics of OTLP, from the instruments. */

import { INSTRUMENTS, type Instruments, type Point } from "./instruments.ts";
import type { Message } from "./protobuf.ts";
import { attributesOf, nanos } from "./spans.ts";

/** Values count from the start of the server: the next request has what a lost one had. */
const CUMULATIVE = 2;

export function metricsOf(instruments: Instruments, startMs: number, nowMs: number): Message[] {
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
