import { expect, test } from "bun:test";
import { binary } from "../e2e/support/binary.ts";
import { Machine } from "../e2e/support/machine.ts";
import { says, scenes } from "../e2e/support/scenes.ts";
import type { TurnFunction } from "../support/model-server/server.ts";
import { ClaudeMachine, MODEL, toolsOf } from "./support.ts";

const SERVE = ["mcp", "serve"];

test("the MCP inspector lists the tools of rnix mcp serve, and spawns a run", async () => {
  const inspector = process.env.RNIX_TEST_MCP_INSPECTOR;
  if (inspector === undefined) throw new Error("These tests are run by `npm run test:clis`.");
  await using machine = await Machine.playing({ count: [says("There is one.")] });
  const inspect = async (...args: string[]) => {
    // Clients pass few variables on by themselves.
    const given = Object.entries(machine.env).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
    const command = [inspector, "--cli", ...given, binary(), ...SERVE, ...args];
    const env = { ...machine.env, PATH: process.env.PATH };
    const program = Bun.spawn(command, {
      env,
      cwd: machine.project,
      stdout: "pipe",
      stderr: "inherit",
      timeout: 60_000,
    });
    return JSON.parse(await new Response(program.stdout).text());
  };
  const { tools } = await inspect("--method", "tools/list");
  expect(tools.map(({ name }: { name: string }) => name)).toContain("spawn");
  const call = ["--method", "tools/call", "--tool-name", "spawn", "--tool-arg", "intent=count"];
  expect(await inspect(...call)).toMatchObject({
    content: [{ type: "text", text: "There is one." }],
    structuredContent: { exit_code: 0, exit_reason: "completed" },
  });
}, 120_000);

test("Claude Code spawns a run by rnix mcp serve, and reads its answer", async () => {
  await using machine = new ClaudeMachine();
  const runs = scenes({ "count the files": [says("There is one.")] });
  const spawn = { name: "mcp__rnix__spawn", input: { intent: "count the files" } };
  const model: TurnFunction = (request) => {
    if (!toolsOf(request).includes(spawn.name)) return runs(request);
    return request.text.includes("There is one.") ? says("Rnix has counted one.") : { tool_calls: [spawn] };
  };
  await machine.model(model);
  const servers = { mcpServers: { rnix: { command: binary(), args: SERVE, env: machine.env } } };
  const args = ["--strict-mcp-config", "--mcp-config", JSON.stringify(servers), "--allowedTools", spawn.name];
  const program = Bun.spawn(
    ["claude", "-p", "ask rnix how many files there are", "--model", MODEL, ...args],
    {
      env: machine.env,
      cwd: machine.project,
      stdio: ["ignore", "pipe", "inherit"],
      timeout: 90_000,
    },
  );
  expect((await new Response(program.stdout).text()).trim()).toBe("Rnix has counted one.");
  expect(await machine.json(["ps", "-a", "--json"])).toMatchObject([
    { intent: "count the files", status: "done" },
  ]);
}, 120_000);
