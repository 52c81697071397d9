import { expect, test } from "bun:test";
import { otelConfig } from "../../src/telemetry/otel-config.ts";

function read(env: Record<string, string>) {
  const wrong: string[] = [];
  return { config: otelConfig(env, (text) => wrong.push(text)), wrong };
}

const AT = { OTEL_EXPORTER_OTLP_ENDPOINT: "https://c.example/base/" };

test("the endpoint is a base, that of a signal is an address", () => {
  const { config } = read({ ...AT, OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://m.example/x" });
  expect([config?.traces?.url, config?.metrics?.url]).toEqual([
    "https://c.example/base/v1/traces",
    "http://m.example/x",
  ]);
  expect(config?.traces?.protocol).toBe("http/protobuf");
  expect(read({ OTEL_TRACES_EXPORTER: "otlp" }).config).toMatchObject({
    traces: { url: "http://localhost:4318/v1/traces" },
  });
});

test("it is off without an address, where it is disabled, and for a signal without an exporter", () => {
  expect(read({}).config).toBeNull();
  expect(read({ OTEL_SERVICE_NAME: "x" }).config).toBeNull();
  expect(read({ ...AT, OTEL_SDK_DISABLED: "TRUE" }).config).toBeNull();
  const { config } = read({ ...AT, OTEL_METRICS_EXPORTER: "none" });
  expect([config?.traces !== undefined, config?.metrics]).toEqual([true, undefined]);
});

test("what can't be used is named, and what happens instead", () => {
  expect(read({ ...AT, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" })).toEqual({
    config: null,
    wrong: ["traces", "metrics"].map(
      (signal) =>
        `OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf or http/json, got grpc: no ${signal} are sent.`,
    ),
  });
  expect(read({ OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" }).wrong[0]).toContain("got collector:4318");
  const { config, wrong } = read({ ...AT, OTEL_BSP_SCHEDULE_DELAY: "soon" });
  expect(config?.delayMs).toBe(5000);
  expect(wrong).toEqual(["OTEL_BSP_SCHEDULE_DELAY: expected a whole number above 0, got soon: 5000 counts."]);
});

test("pairs are percent-encoded; a signal's own headers win; content needs one of the known words", () => {
  const { config } = read({
    ...AT,
    OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20k, x=1=2,broken,y=50%",
    OTEL_EXPORTER_OTLP_METRICS_HEADERS: "z=1",
    OTEL_RESOURCE_ATTRIBUTES: "service.name=a,team=b",
    OTEL_SERVICE_NAME: "c",
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "NO_CONTENT",
  });
  expect(config?.traces?.headers).toEqual({ authorization: "Bearer k", x: "1=2", y: "50%" });
  expect(config?.metrics?.headers).toEqual({ z: "1" });
  expect(config?.resource).toEqual({ "service.name": "c", team: "b" });
  expect(config?.content).toBe(false);
  const on = read({ ...AT, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "SPAN_ONLY" });
  expect(on.config?.content).toBe(true);
});
