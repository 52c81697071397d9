import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { type CollectedSpan, Collector } from "../support/otlp/collector.ts";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import { mcpServer } from "./support/mcp.ts";
import { toolResults } from "./support/requests.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { receiptOf } from "./support/verdict.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const CALLER = "b7ad6b7169203331";

/** A machine whose daemon reports to this collector at once. */
function reporting(collector: Pick<Collector, "url">, env: Record<string, string> = {}): Machine {
  const machine = new Machine();
  Object.assign(machine.env, {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_BSP_SCHEDULE_DELAY: "50",
    OTEL_METRIC_EXPORT_INTERVAL: "100",
    ...env,
  });
  return machine;
}

function parentOf(collector: Collector, span: CollectedSpan): string | undefined {
  return collector.spans.find(({ spanId }) => spanId === span.parentSpanId)?.name;
}

describe("telemetry", () => {
  test("a run, its child, its requests and its calls are one trace of the caller's, without content", async () => {
    await using collector = new Collector();
    await using machine = reporting(collector);
    const model = await machine.play({
      parent: [
        calls(["Bash", { command: "echo $TRACEPARENT" }], ["NoTool", {}]),
        calls(["Agent", { intent: "child: look" }]),
        says("all is secret"),
      ],
      child: [says("seen")],
    });
    const receipt = receiptOf(
      await machine.run(["spawn", "parent", "--output", "json"], {
        env: { TRACEPARENT: `00-${TRACE}-${CALLER}-01` },
      }),
    );
    await until(() => collector.spans.filter(({ name }) => name.startsWith("invoke_agent")).length === 2);
    const { spans } = collector;
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]));
    expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(spans.length);
    const runs = spans.filter(({ name }) => name === "invoke_agent default");
    const run = runs.find(({ attributes }) => attributes["gen_ai.conversation.id"] === receipt.uuid);
    expect(run).toMatchObject({
      parentSpanId: CALLER,
      kind: 1,
      flags: 1,
      attributes: {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.name": "default",
        "rnix.verdict": "completed",
        "rnix.exit_code": 0,
        "rnix.steps": 3,
      },
    });
    expect(run?.attributes["gen_ai.usage.output_tokens"]).toBeGreaterThan(0);
    const bashSpan = collector.span("execute_tool Bash");
    expect(bashSpan).toMatchObject({
      kind: 1,
      parentSpanId: run?.spanId,
      attributes: { "gen_ai.tool.name": "Bash", "gen_ai.operation.name": "execute_tool" },
    });
    // The program has the span of its call, so what it calls is below it.
    const [printed] = toolResults(model.requests[1] ?? expect.unreachable());
    expect(printed).toContain(`00-${TRACE}-${bashSpan.spanId}-01`);
    expect(collector.span("execute_tool NoTool")).toMatchObject({
      status: { code: 2 },
      attributes: { "error.type": "NOT_FOUND" },
    });
    const below = runs.find((span) => span !== run);
    expect(parentOf(collector, below ?? expect.unreachable())).toBe("execute_tool Agent");
    const chats = spans.filter(({ name }) => name.startsWith("chat "));
    expect(chats).toHaveLength(4);
    expect(chats[0]).toMatchObject({
      kind: 3,
      attributes: { "gen_ai.response.finish_reasons": ["tool_call"], "rnix.step": 1 },
    });
    // A gateway's own span is below the request's.
    const sent = model.requests.map(({ headers }) => headers.get("traceparent"));
    expect(sent.toSorted()).toEqual(chats.map(({ spanId }) => `00-${TRACE}-${spanId}-01`).toSorted());
    for (const { startTimeUnixNano, endTimeUnixNano } of spans)
      expect(BigInt(endTimeUnixNano) >= BigInt(startTimeUnixNano)).toBe(true);
    expect(JSON.stringify(spans)).not.toMatch(/secret|echo|child: look/);
    expect(collector.resource).toMatchObject({ "service.name": "rnix" });

    await until(() => collector.points("rnix.runs.ended").some(({ asDouble }) => asDouble === 2));
    const duration = collector.points("gen_ai.client.operation.duration");
    expect(duration[0]).toMatchObject({ count: "4", attributes: { "gen_ai.operation.name": "chat" } });
    expect(duration[0]?.bucketCounts).toHaveLength(15);
    const tokens = collector.points("gen_ai.client.token.usage");
    expect(tokens.map(({ attributes }) => attributes["gen_ai.token.type"]).toSorted()).toEqual([
      "input",
      "output",
    ]);
    expect(collector.metrics.get("rnix.tool.calls")?.sum?.isMonotonic).toBe(true);
  }, 30_000);

  test("a run that is resumed after kill -9 keeps its trace, and its span covers both", async () => {
    await using collector = new Collector();
    await using machine = reporting(collector);
    await machine.play({ "do it": [bash("echo first"), bash("touch there; sleep 600"), says("done")] });
    const run = machine.start(["spawn", "do it", "--detach"]);
    await until(() => machine.has("there"));
    await until(() => collector.spans.length === 3);
    machine.killDaemon();
    await run.done;
    const uuid = /"uuid": ?"([^"]+)"/.exec((await machine.run(["ps", "-a", "--json"])).stdout)?.[1] ?? "";
    // The trace of the command that resumes it is another one.
    await machine.ok(["resume", uuid], { env: { TRACEPARENT: `00-${TRACE}-${CALLER}-01` } });
    await until(() => collector.spans.some(({ name }) => name === "invoke_agent default"));
    const { spans } = collector;
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([uuid.replaceAll("-", "")]));
    const whole = collector.span("invoke_agent default");
    expect(whole.parentSpanId).toBe("");
    expect(spans.filter((span) => span !== whole && span.parentSpanId !== whole.spanId)).toEqual([]);
    expect(spans.map(({ name, attributes }) => [name.split(" ")[0], attributes["rnix.call.state"]])).toEqual([
      ["chat", undefined],
      ["execute_tool", "done"],
      ["chat", undefined],
      ["execute_tool", "unknown"],
      ["chat", undefined],
      ["invoke_agent", undefined],
    ]);
    expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(spans.length);
    for (const { startTimeUnixNano, endTimeUnixNano } of spans) {
      expect(BigInt(startTimeUnixNano) >= BigInt(whole.startTimeUnixNano)).toBe(true);
      expect(BigInt(endTimeUnixNano) <= BigInt(whole.endTimeUnixNano)).toBe(true);
    }
  }, 30_000);

  test("without a daemon all is sent before the command ends; content, headers and JSON when asked for", async () => {
    await using collector = new Collector();
    await using machine = reporting(collector, {
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_EXPORTER_OTLP_COMPRESSION: "gzip",
      OTEL_EXPORTER_OTLP_HEADERS: "x-key=a%20b",
      OTEL_SERVICE_NAME: "nightly",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=ci",
      OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true",
      OTEL_BSP_SCHEDULE_DELAY: "60000",
    });
    await machine.play({ hello: [bash("echo out"), says("the answer")], bad: [] });
    await machine.ok(["spawn", "hello", "--no-daemon"]);
    expect(collector.requests[0]?.headers.get("x-key")).toBe("a b");
    expect(collector.resource).toMatchObject({
      "service.name": "nightly",
      "deployment.environment.name": "ci",
    });
    const { attributes } = collector.span("execute_tool Bash");
    expect(attributes["gen_ai.tool.call.arguments"]).toBe('{"command":"echo out"}');
    expect(attributes["gen_ai.tool.call.result"]).toContain("out");
    const whole = collector.span("invoke_agent default").attributes;
    expect(whole["gen_ai.output.messages"]).toBe(
      '[{"role":"assistant","parts":[{"type":"text","content":"the answer"}]}]',
    );
    const chats = collector.spans.filter(({ name }) => name.startsWith("chat "));
    expect(chats[0]?.attributes["gen_ai.input.messages"]).toMatch(/"role":"user".*hello/);
    expect(chats[0]?.attributes["gen_ai.output.messages"]).toContain('"type":"tool_call"');
    expect(collector.points("rnix.telemetry.spans")).toMatchObject([{ attributes: { outcome: "sent" } }]);

    collector.spans.length = 0;
    expect((await machine.run(["spawn", "bad", "--no-daemon"])).code).toBe(1);
    expect(collector.spans.map(({ name }) => name.split(" ")[0])).toEqual(["chat", "invoke_agent"]);
    expect(collector.spans[0]).toMatchObject({ status: { code: 2 } });
    expect(collector.span("invoke_agent default").attributes["error.type"]).toBe("llm_error");
  }, 30_000);

  test("a collector that is down or refuses delays no run; spans are counted as dropped, and one line is logged", async () => {
    await using collector = new Collector();
    await using machine = reporting(collector, { OTEL_BSP_MAX_QUEUE_SIZE: "2" });
    collector.status = 400;
    await machine.play({ one: [bash("true"), says("done")] });
    await machine.ok(["spawn", "one"]);
    await until(() => new Set(collector.requests.map(({ path }) => path)).size === 2);
    collector.status = 503;
    await machine.ok(["spawn", "one"]);
    const before503 = collector.requests.length;
    await until(() => collector.requests.length > before503);
    const { stderr, stdout } = await machine.ok(["dashboard", "--metrics-token"]);
    const scraped = await fetch(stderr.trim(), { headers: { authorization: `Bearer ${stdout.trim()}` } });
    expect(await scraped.text()).toMatch(/^rnix_telemetry_spans_total\{outcome="dropped"\} [1-9]/m);
    // Attempts are under way: the daemon does not wait for them.
    const before = performance.now();
    await machine.ok(["daemon", "stop"]);
    expect(performance.now() - before).toBeLessThan(8000);
    const log = machine.read(join(machine.dataDir, "daemon.log"));
    expect(log.match(/warn telemetry: .*it answered 400/g)).toHaveLength(2);
  }, 30_000);

  test("an MCP server gets the span of its call; a caller that is not sampled is not reported", async () => {
    await using collector = new Collector();
    await using machine = reporting(collector);
    // The first call of a new file gets no answer.
    const keys = machine.write("keys", "\n");
    const servers = { notes: mcpServer([], { KEYS: keys }) };
    machine.write(join(machine.configDir, "mcp.yaml"), JSON.stringify({ servers }));
    await machine.play({ go: [calls(["mcp__notes__keyed", {}]), says("done")] });
    const args = ["spawn", "go", "--mcp", "notes", "--allow", "mcp__notes__keyed"];
    await machine.ok(args, { env: { TRACEPARENT: `00-${TRACE}-${CALLER}-00` } });
    await machine.ok(args);
    await until(() => collector.spans.some(({ name }) => name === "invoke_agent default"));
    expect(collector.spans.filter(({ traceId }) => traceId === TRACE)).toEqual([]);
    const { traceId, spanId } = collector.span("execute_tool mcp__notes__keyed");
    const [, unsampled, sampled] = machine.read("keys").split("\n");
    expect(unsampled).toMatch(new RegExp(` 00-${TRACE}-\\w{16}-00$`));
    expect(sampled).toEndWith(` 00-${traceId}-${spanId}-01`);
  }, 30_000);

  test("is off without a variable or a setting; a project can't switch it on, and the user's setting does", async () => {
    await using collector = new Collector();
    await using machine = new Machine();
    const model = await machine.play({ one: [bash("echo [$TRACEPARENT]"), says("done")] });
    await machine.ok(["spawn", "one"]);
    expect(toolResults(model.last)[0]).toContain("[]");
    expect(model.last.headers.get("traceparent")).toBeNull();
    const late = { env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } };
    expect((await machine.ok(["spawn", "one"], late)).stderr).toContain(
      "`rnix daemon restart` takes it over",
    );
    const setting = { endpoint: collector.url };
    machine.write(".rnix/config.yaml", JSON.stringify({ telemetry: setting }));
    const refused = await machine.run(["spawn", "one", "--trust"]);
    expect([refused.code, refused.stderr]).toEqual([64, expect.stringContaining("you decide where")]);
    machine.write(".rnix/config.yaml", "{}");
    machine.config({ telemetry: setting });
    await machine.ok(["daemon", "restart"]);
    await machine.ok(["spawn", "one"]);
    await machine.ok(["daemon", "stop"]);
    expect(collector.spans.map(({ name }) => name.split(" ")[0]).toSorted()).toEqual([
      "chat",
      "chat",
      "execute_tool",
      "invoke_agent",
    ]);
    machine.env.OTEL_SDK_DISABLED = "true";
    collector.spans.length = 0;
    await machine.ok(["spawn", "one"]);
    await machine.ok(["daemon", "stop"]);
    expect(collector.spans).toEqual([]);
  }, 30_000);
});
