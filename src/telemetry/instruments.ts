/** The instruments that count what runs do, and their values since the start of the server. */

export type Labels = Readonly<Record<string, string>>;

interface Instrument {
  unit: string;
  about: string;
  /** Of a histogram: the upper bounds of its buckets. Absent: a counter. */
  bounds?: readonly number[];
}

/** The names of counters are ours, those of histograms of OpenTelemetry's conventions for generative AI. */
export const INSTRUMENTS = {
  "rnix.runs.ended": { unit: "{run}", about: "Runs that have ended, by verdict." },
  "rnix.tokens": {
    unit: "{token}",
    about: "Tokens of model requests, by provider and type; cached ones are input, too.",
  },
  "rnix.cost.usd": { unit: "{USD}", about: "Cost of model requests with a known price, by provider." },
  "rnix.tool.calls": { unit: "{call}", about: "Tool calls that have ended, by their end." },
  "rnix.telemetry.spans": { unit: "{span}", about: "Spans that were sent to the collector, and dropped." },
  "gen_ai.client.token.usage": {
    unit: "{token}",
    about: "Number of input and output tokens used.",
    bounds: powers(1, 4),
  },
  "gen_ai.client.operation.duration": {
    unit: "s",
    about: "GenAI operation duration.",
    bounds: powers(0.01, 2),
  },
} as const satisfies Record<string, Instrument>;

export type InstrumentName = keyof typeof INSTRUMENTS;

/** One set of labels of an instrument. */
export interface Point {
  labels: Labels;
  /** The value of a counter. */
  sum: number;
  /** How many values were added. */
  count: number;
  /** Of a histogram: values up to each bound, and beyond the last. */
  buckets: number[];
}

/** Maximum sets of labels of one instrument. Further ones are counted together, as OpenTelemetry's SDKs do. */
const MAX_POINTS = 1000;
const OVERFLOW: Labels = { "otel.metric.overflow": "true" };

/** Counts in memory: it costs a run next to nothing, and nothing of it is on disk. */
export class Instruments {
  readonly #points = new Map<InstrumentName, Map<string, Point>>();
  /** Whether something was added since it was set to false. */
  changed = false;

  add(name: InstrumentName, value: number, labels: Labels = {}): void {
    const { bounds = [] }: Instrument = INSTRUMENTS[name];
    const point = this.#point(name, labels, bounds.length);
    point.sum += value;
    point.count++;
    const bucket = bounds.findIndex((bound) => value <= bound);
    const at = bucket < 0 ? bounds.length : bucket;
    point.buckets[at] = (point.buckets[at] ?? 0) + 1;
    this.changed = true;
  }

  points(name: InstrumentName): readonly Point[] {
    return [...(this.#points.get(name)?.values() ?? [])];
  }

  /** Instruments to which something was added. */
  all(): [InstrumentName, Point[]][] {
    return [...this.#points].map(([name, points]) => [name, [...points.values()]]);
  }

  #point(name: InstrumentName, labels: Labels, bounds: number): Point {
    const points = this.#points.get(name) ?? new Map<string, Point>();
    this.#points.set(name, points);
    const isFull = points.size >= MAX_POINTS && !points.has(JSON.stringify(labels));
    const taken = isFull ? OVERFLOW : labels;
    const key = JSON.stringify(taken);
    const buckets = (): number[] => new Array<number>(bounds + 1).fill(0);
    const point = points.get(key) ?? { labels: taken, sum: 0, count: 0, buckets: buckets() };
    points.set(key, point);
    return point;
  }
}

/** The bounds that the conventions name: 14 powers. */
function powers(first: number, base: number): readonly number[] {
  return Array.from({ length: 14 }, (_, i) => Number((first * base ** i).toFixed(2)));
}
