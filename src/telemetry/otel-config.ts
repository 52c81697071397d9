/** What is sent where, from the standard OTEL_* variables. */

type Env = Readonly<Record<string, string | undefined>>;

export type Signal = "traces" | "metrics";

/** Where one signal goes. */
export interface Target {
  url: string;
  headers: Record<string, string>;
  protocol: Protocol;
  gzip: boolean;
  timeoutMs: number;
}

export interface OtelConfig {
  /** Absent: the signal is not sent. */
  traces?: Target;
  metrics?: Target;
  /** What describes this program, such as `service.name`. */
  resource: Record<string, string>;
  /** Texts of messages and calls are sent, too. */
  content: boolean;
  /** Spans that wait at most, and that are sent at once. */
  queue: number;
  batch: number;
  /** How long spans wait for others, and how often metrics are sent. */
  delayMs: number;
  metricsMs: number;
}

const PROTOCOLS = ["http/protobuf", "http/json"] as const;
type Protocol = (typeof PROTOCOLS)[number];

const CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
const ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT";
/** Where a collector listens, as the specification says. */
const USUAL = "http://localhost:4318";

/** Reads the variables. null: telemetry is off. `wrong` gets each value that can't be used, with what happens instead. */
export function otelConfig(env: Env, wrong: (text: string) => void): OtelConfig | null {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === "true") return null;
  const [traces, metrics] = [targetOf("traces", env, wrong), targetOf("metrics", env, wrong)];
  if (!traces && !metrics) return null;
  const number = (name: string, usual: number): number => numberOf(env, name, usual, wrong);
  const queue = number("OTEL_BSP_MAX_QUEUE_SIZE", 2048);
  return {
    ...(traces && { traces }),
    ...(metrics && { metrics }),
    resource: {
      "service.name": "rnix",
      ...pairs(env.OTEL_RESOURCE_ATTRIBUTES),
      ...(env.OTEL_SERVICE_NAME && { "service.name": env.OTEL_SERVICE_NAME }),
    },
    content: /^(?:true|span_only|span_and_event)$/i.test(env[CONTENT] ?? ""),
    queue,
    batch: Math.min(queue, number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)),
    delayMs: number("OTEL_BSP_SCHEDULE_DELAY", 5000),
    metricsMs: number("OTEL_METRIC_EXPORT_INTERVAL", 60_000),
  };
}

function targetOf(signal: Signal, env: Env, wrong: (text: string) => void): Target | undefined {
  const upper = signal.toUpperCase();
  const of = (name: string): string | undefined =>
    env[`OTEL_EXPORTER_OTLP_${upper}_${name}`] || env[`OTEL_EXPORTER_OTLP_${name}`] || undefined;
  const exporter = env[`OTEL_${upper}_EXPORTER`] || undefined;
  const own = env[`OTEL_EXPORTER_OTLP_${upper}_ENDPOINT`] || undefined;
  const base = env[ENDPOINT] || (exporter === "otlp" ? USUAL : undefined);
  if ((own ?? base) === undefined || exporter === "none") return undefined;
  const url = own ?? `${base?.replace(/\/+$/, "")}/v1/${signal}`;
  const problem = (what: string): undefined => {
    wrong(`${what}: no ${signal} are sent.`);
    return undefined;
  };
  if (exporter !== undefined && exporter !== "otlp")
    return problem(`OTEL_${upper}_EXPORTER: expected otlp or none, got ${exporter}`);
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    return problem(`${ENDPOINT}: expected an http or https address, got ${url}`);
  const name = of("PROTOCOL") ?? PROTOCOLS[0];
  const protocol = PROTOCOLS.find((one) => one === name);
  if (protocol === undefined)
    return problem(`OTEL_EXPORTER_OTLP_PROTOCOL: expected ${PROTOCOLS.join(" or ")}, got ${name}`);
  return {
    url,
    protocol,
    headers: pairs(of("HEADERS")),
    gzip: of("COMPRESSION") === "gzip",
    timeoutMs: numberOf(env, "OTEL_EXPORTER_OTLP_TIMEOUT", 10_000, wrong),
  };
}

/** `a=1,b=2`, percent-encoded. A pair that can't be read is left out. */
function pairs(text = ""): Record<string, string> {
  const found = text.split(",").map((pair) => /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(pair));
  return Object.fromEntries(
    found.flatMap((match) => (match ? [[match[1] ?? "", decoded(match[2] ?? "")]] : [])),
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // It is not encoded.
  }
}

function numberOf(env: Env, name: string, usual: number, wrong: (text: string) => void): number {
  const text = env[name];
  if (text === undefined || text === "") return usual;
  const value = Number(text);
  if (Number.isInteger(value) && value > 0 && value < 2 ** 31) return value;
  wrong(`${name}: expected a whole number above 0, got ${text}: ${usual} counts.`);
  return usual;
}
