import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { processesOf } from "../../test/e2e/support/leftovers.ts";
import { ModelServer } from "../../test/support/model-server/server.ts";
import { type Figure, time } from "../figure.ts";
import { interleaved, type Timing, timed } from "../measure.ts";
import type { Place } from "../place.ts";

const SERVER = resolve(import.meta.dir, "../../test/support/mcp-server/main.ts");
const RUNS = 100;
const AT_ONCE = 10;

/** A tool call over a fresh stdio server and over a shared one, and a hundred runs that share one. */
export async function mcp(place: Place): Promise<Figure[]> {
  const user = place.user("mcp");
  const { env, cwd } = user.command([]);
  const server = { command: process.execPath, args: [SERVER] };
  const file = join(env.XDG_CONFIG_HOME ?? "", "rnix/mcp.yaml");
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify({ servers: { shared: server, own: { ...server, shared: false } } }));
  const call = (name: string) => () =>
    user.timedWithDaemon(user.rnix("call", `mcp__${name}__echo`, '{"text":"x"}'));
  const calls = await interleaved(place.rounds, {
    bare: () => bareCall({ ...server, env, cwd }),
    own: call("own"),
    shared: call("shared"),
  });
  const model = await ModelServer.start(({ assistantMessages, text }) => {
    const name = /mcp__(?:shared|own)__echo/.exec(text)?.[0] ?? "";
    return assistantMessages === 0 ? { tool_calls: [{ name, input: { text: "x" } }] } : { text: "done" };
  });
  try {
    const runs = (name: string) => async (): Promise<Omit<Timing, "stdout">> => {
      const start = performance.now();
      let cpuMs = 0;
      for (let done = 0; done < RUNS; done += AT_ONCE) {
        const command = user.spawn(model, "--mcp", name, "--allow", `mcp__${name}__echo`);
        const timings = await Promise.all(Array.from({ length: AT_ONCE }, () => timed(command)));
        cpuMs += timings.reduce((sum, one) => sum + one.cpuMs, 0);
      }
      return { wallMs: performance.now() - start, cpuMs };
    };
    const took = await interleaved(Math.max(1, Math.round(place.rounds / 5)), {
      shared: runs("shared"),
      own: runs("own"),
    });
    const left = processesOf(dirname(cwd)).filter(({ command }) => command.includes(SERVER)).length;
    if (left > 1) throw new Error(`${left} servers run for the shared one`);
    const floor = { name: "SDK client", value: calls.bare.wallMs };
    return [
      time("rnix call over a fresh stdio MCP server", calls.own.wallMs, { floor }),
      time("rnix call over a shared one", calls.shared.wallMs, { floor }),
      time(`${RUNS} runs, ${AT_ONCE} at once, that share one MCP server`, took.shared.wallMs, {
        floor: { name: "a server each", value: took.own.wallMs },
        goal: 1,
      }),
    ];
  } finally {
    await model.stop();
  }
}

/** The same by the SDK's client in this process: a server is started, asked for its tools, called once and ended. */
async function bareCall(
  server: ConstructorParameters<typeof StdioClientTransport>[0],
): Promise<Omit<Timing, "stdout">> {
  const start = performance.now();
  const client = new Client({ name: "bench", version: "1" });
  await client.connect(new StdioClientTransport({ ...server, stderr: "ignore" }));
  await client.listTools();
  await client.callTool({ name: "echo", arguments: { text: "x" } });
  const wallMs = performance.now() - start;
  await client.close();
  return { wallMs, cpuMs: 0 };
}
