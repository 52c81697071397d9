/** Encodes OTLP's messages, which have the form of OTLP/JSON, as protobuf. */

/** A message in the form of OTLP/JSON: ids are hex digits, 64-bit numbers are texts. */
export type Message = { readonly [key: string]: Value | undefined };
type Value = string | number | boolean | Message | readonly Value[];

/** By field: its number in OpenTelemetry's definitions, and how it is written: a scalar below, or a message. */
type Fields = Readonly<Record<string, readonly [number: number, type: string]>>;

/** The messages and fields that are sent. */
const MESSAGES = tableOf(`
  TracesRequest resourceSpans:1:ResourceSpans
  ResourceSpans resource:1:Resource scopeSpans:2:ScopeSpans
  ScopeSpans scope:1:Scope spans:2:Span schemaUrl:3:string
  Span traceId:1:hex spanId:2:hex parentSpanId:4:hex name:5:string kind:6:varint startTimeUnixNano:7:fixed64 \
    endTimeUnixNano:8:fixed64 attributes:9:KeyValue status:15:Status flags:16:fixed32
  Status message:2:string code:3:varint
  MetricsRequest resourceMetrics:1:ResourceMetrics
  ResourceMetrics resource:1:Resource scopeMetrics:2:ScopeMetrics
  ScopeMetrics scope:1:Scope metrics:2:Metric schemaUrl:3:string
  Metric name:1:string description:2:string unit:3:string sum:7:Sum histogram:9:Histogram
  Sum dataPoints:1:Number aggregationTemporality:2:varint isMonotonic:3:varint
  Histogram dataPoints:1:Buckets aggregationTemporality:2:varint
  Number startTimeUnixNano:2:fixed64 timeUnixNano:3:fixed64 asDouble:4:double attributes:7:KeyValue
  Buckets startTimeUnixNano:2:fixed64 timeUnixNano:3:fixed64 count:4:fixed64 sum:5:double bucketCounts:6:fixed64 \
    explicitBounds:7:double attributes:9:KeyValue
  Resource attributes:1:KeyValue
  Scope name:1:string version:2:string
  KeyValue key:1:string value:2:AnyValue
  AnyValue stringValue:1:string boolValue:2:varint intValue:3:varint doubleValue:4:double arrayValue:5:ArrayValue
  ArrayValue values:1:AnyValue
`);

function tableOf(text: string): ReadonlyMap<string, Fields> {
  const lines = text.trim().split("\n");
  return new Map(
    lines.map((line) => {
      const [name = "", ...fields] = line.trim().split(/\s+/);
      const parts = fields.map((field) => field.split(":"));
      return [
        name,
        Object.fromEntries(parts.map(([key, number, type = ""]) => [key, [Number(number), type]])),
      ];
    }),
  );
}

/** `name`: of the message in the table above. Fields that the table does not have are left out. */
export function encode(name: string, message: Message): Buffer {
  const parts = Object.entries(MESSAGES.get(name) ?? {}).flatMap(([key, [number, type]]) => {
    const value = message[key];
    if (value === undefined) return [];
    return isList(value) ? value.flatMap((one) => field(number, type, one)) : field(number, type, value);
  });
  return Buffer.concat(parts);
}

function field(number: number, type: string, value: Value): Buffer[] {
  if (isList(value)) return [];
  if (typeof value === "object") return lengthed(number, encode(type, value));
  if (type === "string") return lengthed(number, Buffer.from(String(value)));
  if (type === "hex") return lengthed(number, Buffer.from(String(value), "hex"));
  const [wire, bytes] = numeric(type, value);
  return [varint((number << 3) | wire), bytes];
}

/** The types on the wire. */
const [VARINT, BITS_64, LENGTH, BITS_32] = [0, 1, 2, 5];

function lengthed(number: number, bytes: Buffer): Buffer[] {
  return [varint((number << 3) | LENGTH), varint(bytes.length), bytes];
}

function numeric(type: string, value: string | number | boolean): [wire: number, bytes: Buffer] {
  const bytes = Buffer.alloc(8);
  if (type === "varint") return [VARINT, varint(value)];
  if (type === "double") bytes.writeDoubleLE(Number(value));
  else bytes.writeBigUInt64LE(BigInt(value));
  return type === "fixed32" ? [BITS_32, bytes.subarray(0, 4)] : [BITS_64, bytes];
}

/** A negative number has ten bytes, as protobuf wants it. */
function varint(value: string | number | boolean): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}
