import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../e2e/support/machine.ts";
import { toolResults } from "../e2e/support/requests.ts";
import { calls, says } from "../e2e/support/scenes.ts";
import { verdict } from "../e2e/support/verdict.ts";

/** The program of an official server; test/clis/main.ts names the folder. */
function program(name: string): string {
  const folder = process.env.RNIX_TEST_MCP_SERVERS;
  if (folder === undefined) throw new Error("These tests are run by `npm run test:clis`.");
  return join(folder, `mcp-server-${name}`);
}

async function machineWith(name: string, ...args: string[]): Promise<Machine> {
  const machine = new Machine();
  // The servers are programs of Node.
  machine.env.PATH = process.env.PATH ?? "";
  const added = await machine.run(["mcp", "add", name, "--", program(name), ...args]);
  expect([added.code, added.stderr]).toEqual([0, expect.stringContaining(`${name} is in `)]);
  return machine;
}

/** Results of one answer's calls, in a run of the compiled binary. */
async function results(machine: Machine, ...wanted: Parameters<typeof calls>): Promise<string[]> {
  const model = await machine.play({ "use it": [calls(...wanted), says("done")] });
  const names = wanted.flatMap(([name]) => ["--allow", name]);
  // The daemon would keep the server for the next run.
  await verdict(machine, ["use it", "--no-daemon", ...names]);
  return toolResults(model.last).map(String);
}

describe("the server everything", () => {
  test("answers with text, pictures, links, progress and declined questions", async () => {
    await using machine = await machineWith("everything");
    const [sum, image, structured, links, long, asked] = await results(
      machine,
      ["mcp__everything__get-sum", { a: 2, b: 3 }],
      ["mcp__everything__get-tiny-image", {}],
      ["mcp__everything__get-structured-content", { location: "Chicago" }],
      ["mcp__everything__get-resource-links", { count: 2 }],
      ["mcp__everything__trigger-long-running-operation", { duration: 1, steps: 4 }],
      ["mcp__everything__trigger-elicitation-request", {}],
    );
    expect(sum).toBe("The sum of 2 and 3 is 5.");
    const file = /\[image, image\/png, \d+ bytes: (.+)\]/.exec(image ?? "")?.[1] ?? "";
    expect(readFileSync(file).subarray(1, 4).toString()).toBe("PNG");
    expect(JSON.parse(structured ?? "")).toMatchObject({ conditions: expect.any(String) });
    expect(links).toContain("[resource demo://resource/dynamic/");
    expect(long).toContain("Long running operation completed");
    expect(asked).toMatch(/User declined[\s\S]*The MCP server asked the user/);
    const log = await machine.run(["mcp", "logs", "everything"]);
    expect(log.stdout).toContain("The MCP server asked the user");
  });

  test("has resources and prompts that a person reads", async () => {
    await using machine = await machineWith("everything");
    const out = async (...args: string[]) => (await machine.run(args)).stdout;
    const base = "/mnt/mcp/everything";
    expect(JSON.parse(await out("cat", `${base}/resources`)).length).toBeGreaterThan(3);
    expect(await out("cat", `${base}/resources/demo://resource/dynamic/text/1`)).toContain("Resource 1");
    expect(await out("cat", `${base}/prompts/simple-prompt`)).toContain("simple prompt");
    expect(await out("call", `${base}/prompts/args-prompt`, '{"city": "Paris"}')).toBe(
      "What's weather in Paris?\n",
    );
    const missing = await machine.run(["cat", `${base}/prompts/args-prompt`]);
    expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining("city")]);
  });
});

test("the server filesystem reads and writes in its folder, and refuses others", async () => {
  await using machine = await machineWith("filesystem", ".");
  machine.write("a.txt", "content of a\n");
  const [read, written, refused] = await results(
    machine,
    ["mcp__filesystem__read_text_file", { path: "a.txt" }],
    ["mcp__filesystem__write_file", { path: "b.txt", content: "of b" }],
    ["mcp__filesystem__read_text_file", { path: "/etc/passwd" }],
  );
  expect([read, written]).toEqual(["content of a\n", "Successfully wrote to b.txt"]);
  expect(refused).toContain("Access denied");
  expect(machine.read("b.txt")).toBe("of b");
});

test("the server memory keeps what one run stores for the next", async () => {
  await using machine = await machineWith("memory");
  const entity = { name: "Ada", entityType: "person", observations: ["writes programs"] };
  await results(machine, ["mcp__memory__create_entities", { entities: [entity] }]);
  const [found] = await results(machine, ["mcp__memory__search_nodes", { query: "programs" }]);
  expect(JSON.parse(found ?? "")).toMatchObject({ entities: [{ name: "Ada" }] });
});
