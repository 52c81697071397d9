import { describe, expect, test } from "bun:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { getDefaultEnvironment, StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { until } from "../support/until.ts";
import { binary } from "./support/binary.ts";
import { writeKeys } from "./support/keys-file.ts";
import { Machine } from "./support/machine.ts";
import { bash, calls, says } from "./support/scenes.ts";

const TOKEN = "0123456789abcdef";

class TestClient extends Client implements AsyncDisposable {
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

async function overStdio(machine: Machine, ...flags: string[]): Promise<TestClient> {
  const client = new TestClient({ name: "test", version: "1" });
  const env = { ...getDefaultEnvironment(), ...machine.env };
  const args = ["mcp", "serve", ...flags];
  await client.connect(new StdioClientTransport({ command: binary(), args, env, cwd: machine.project }));
  return client;
}

async function call(client: Client, name: string, input: Record<string, unknown> = {}, options = {}) {
  const made = await client.callTool({ name, arguments: input }, CallToolResultSchema, options);
  const { content, structuredContent, isError } = CallToolResultSchema.parse(made);
  const [first] = content;
  const data: ReturnType<typeof JSON.parse> = structuredContent;
  return { text: first?.type === "text" ? first.text : "", data, isError: isError === true };
}

describe("rnix mcp serve", () => {
  test("spawns a run, reports its progress, and returns its answer, record and failure", async () => {
    await using machine = await Machine.playing({
      count: [calls(["Write", { path: "out.txt", content: "one" }]), says("There is one.")],
      fail: [{ fault: { kind: "status", status: 401 } }],
    });
    await using client = await overStdio(machine);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      "spawn",
      "wait",
      "ps",
      "log",
      "kill",
      "asks",
      "memory_recall",
      "memory_read",
      "cron_list",
      "cron_add",
      "cron_remove",
      "cron_run",
    ]);
    const progress: string[] = [];
    const onprogress = ({ message = "" }: { message?: string }) => void progress.push(message);
    const input = { intent: "count", allow: ["Write"] };
    const { text, data, isError } = await call(client, "spawn", input, { onprogress });
    expect([text, isError]).toEqual(["There is one.", false]);
    expect(data).toMatchObject({ exit_code: 0, steps: 2, files_changed: ["out.txt"] });
    expect(progress).toContain("step 1");
    expect(progress.join("\n")).toMatch(/Write/);

    const listed = await call(client, "ps", { all: true });
    expect(listed.data.processes).toMatchObject([{ uuid: data.uuid, status: "done", intent: "count" }]);
    expect((await call(client, "log", { run: data.uuid })).text).toContain("out.txt");
    expect((await call(client, "wait", { run: data.uuid })).text).toBe("There is one.");

    const failed = await call(client, "spawn", { intent: "fail" });
    expect(failed).toMatchObject({ isError: true, text: expect.stringMatching(/llm_error \(exit 1\)/) });
    expect(await call(client, "spawn", { intent: "" })).toMatchObject({
      isError: true,
      text: expect.stringContaining("INVALID"),
    });
  });

  test("ends the run of a call that is cancelled, and of a client that leaves; one without wait goes on", async () => {
    await using machine = await Machine.playing({ sleep: [bash("sleep 100")] });
    await using client = await overStdio(machine);
    const live = async () => (await machine.json(["ps", "--json"])).length;
    const sleep = { intent: "sleep", allow: ["Bash"] };
    const detached = await call(client, "spawn", { ...sleep, wait: false });
    const cancel = new AbortController();
    const cancelled = call(client, "spawn", sleep, { signal: cancel.signal }).catch(() => "cancelled");
    await until(async () => (await live()) === 2);
    cancel.abort();
    expect(await cancelled).toBe("cancelled");
    await until(async () => (await live()) === 1);
    // Cancelling a wait ends only the wait.
    const giveUp = new AbortController();
    const waiting = call(client, "wait", { run: detached.data.uuid }, { signal: giveUp.signal });
    giveUp.abort();
    await waiting.catch(() => undefined);
    void call(client, "spawn", sleep).catch(() => undefined);
    await until(async () => (await live()) === 2);
    await client.close();
    await until(async () => (await live()) === 1);
    await using other = await overStdio(machine);
    expect((await call(other, "kill", { run: detached.data.uuid })).data).toMatchObject({ affected: 1 });
    expect((await call(other, "wait", { run: detached.data.uuid })).isError).toBe(true);
  });

  test("maps memory, jobs and questions", async () => {
    await using machine = await Machine.playing({ ask: [bash("echo asked"), says("done")] });
    writeKeys(machine);
    await machine.ok(["memory", "add", "The tests need a running Postgres"]);
    await using client = await overStdio(machine);
    expect((await call(client, "memory_read")).text).toContain("Postgres");
    expect((await call(client, "memory_recall", { query: "Postgres" })).text).toContain("Postgres");
    const job = {
      name: "nightly",
      intent: "ask",
      trigger: { cron: "0 3 * * *" },
      max_steps: 5,
      provider: "openai",
      model: "m",
    };
    expect(await call(client, "cron_add", job)).toMatchObject({ isError: false });
    expect((await call(client, "cron_list")).data.result).toMatchObject([
      { name: "nightly", trigger: { cron: "0 3 * * *" }, run: { max_steps: 5 } },
    ]);
    expect((await call(client, "cron_remove", { name: "nightly" })).isError).toBe(false);
    expect(await call(client, "cron_run", { name: "nightly" })).toMatchObject({
      isError: true,
      text: expect.stringMatching(/^NOT_FOUND/),
    });
    const parked = await call(client, "spawn", { intent: "ask", ask: ["Bash"], on_ask: "park" });
    expect(parked).toMatchObject({ isError: true, data: { exit_code: 75 } });
    const { asks } = (await call(client, "asks")).data;
    expect(asks).toMatchObject([{ uuid: parked.data.uuid, call: { tool: "Bash", subject: "echo asked" } }]);
    await expect(client.callTool({ name: "answer", arguments: {} })).rejects.toThrow("no tool answer");
    await using answering = await overStdio(machine, "--answers");
    const answer = { request_id: asks[0].request_id, answers: [{ choices: ["yes"] }] };
    expect(await call(answering, "answer", answer)).toMatchObject({ isError: false });
  });

  test("serves HTTP to clients with the token only, on loopback, and refuses other hosts and origins", async () => {
    await using machine = await Machine.playing({ sleep: [bash("sleep 100")] });
    const server = machine.start(["mcp", "serve", "--http", "0"], { env: { RNIX_MCP_TOKEN: TOKEN } });
    const address = await server.stdout.has(/^http\S+/m);
    const url = new URL(address);
    expect(url.hostname).toBe("127.0.0.1");
    const post = async (headers: Record<string, string>) =>
      (await fetch(url, { method: "POST", headers, body: "{}" })).status;
    const right = { authorization: `Bearer ${TOKEN}` };
    expect(await post({})).toBe(401);
    expect(await post({ authorization: `Bearer ${TOKEN}x` })).toBe(401);
    expect(await post({ ...right, host: "evil.example" })).toBe(403);
    expect(await post({ ...right, origin: "https://evil.example" })).toBe(403);
    expect(await post({ ...right, "mcp-session-id": "none" })).toBe(404);

    const client = new Client({ name: "test", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers: right } }));
    const progress: string[] = [];
    const onprogress = ({ message = "" }: { message?: string }) => void progress.push(message);
    const cancel = new AbortController();
    const options = { onprogress, signal: cancel.signal };
    const spawned = call(client, "spawn", { intent: "sleep", allow: ["Bash"] }, options).catch(() => "cut");
    await until(() => progress.some((message) => message.includes("sleep 100")));
    cancel.abort();
    expect(await spawned).toBe("cut");
    await until(async () => (await call(client, "ps")).data.processes.length === 0);
    server.signal("SIGTERM");
    expect((await server.done).code).toBe(0);
    await client.close();
  });

  test("prints a new token without one, refuses a short one, and is refused inside a run", async () => {
    await using machine = await Machine.playing({
      inside: [bash(`${binary()} mcp serve </dev/null; echo "exit $?"`), says("done")],
    });
    const short = await machine.run(["mcp", "serve", "--http", "0"], { env: { RNIX_MCP_TOKEN: "short" } });
    expect(short).toMatchObject({ code: 64, stderr: expect.stringContaining("at least 16") });
    const server = machine.start(["mcp", "serve", "--http", "0"]);
    await server.stdout.has(/^token [0-9a-f]{64}$/m);
    server.signal("SIGTERM");
    expect((await server.done).code).toBe(0);
    const { stdout } = await machine.ok(["spawn", "--allow", "Bash", "inside"]);
    expect(stdout).toContain("done");
    const log = await machine.ok(["log"]);
    expect(log.stdout).toContain("mcp serve is for a person");
    expect(log.stdout).toContain("exit 1");
  });
});
