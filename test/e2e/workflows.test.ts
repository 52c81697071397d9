import { describe, expect, test } from "bun:test";
import type { RecordedRequest } from "../support/model-server/server.ts";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import { firstUserMessage } from "./support/requests.ts";
import { listed } from "./support/runs.ts";

const META = 'export const meta = { name: "w", description: "a test" };\n';

/** Asks for each first message by what it begins with; every agent answers in capitals. */
const CAPITALS = (request: RecordedRequest) => ({ text: firstUserMessage(request).toUpperCase() });

/** How often each intent was asked for. */
function asked(requests: readonly RecordedRequest[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const request of requests) {
    const intent = firstUserMessage(request);
    counts[intent] = (counts[intent] ?? 0) + 1;
  }
  return counts;
}

/** 40 files by 8 agents of 5, and one summary of what they found. */
const REVIEW = `${META}
phase("review");
const groups = Array.from({ length: 8 }, (_, i) => args.files.slice(i * 5, i * 5 + 5));
const found = await pipeline(
  groups,
  (group, _item, i) => agent("review " + group.join(" "), { label: "group " + i }),
);
phase("summary");
return await agent("sum up " + found.join("; "), { label: "summary" });
`;
const FILES = Array.from({ length: 40 }, (_, i) => `f${i}`);
const REVIEW_ARGS = JSON.stringify({ files: FILES });

describe("rnix workflow run", () => {
  test.concurrent("phases, agents at the same time, one result", async () => {
    await using machine = new Machine();
    const model = await machine.model(CAPITALS);
    machine.write("review.js", REVIEW);
    const { stdout, stderr } = await machine.ok(["workflow", "run", "./review.js", "--args", REVIEW_ARGS]);
    expect(stdout).toStartWith("SUM UP REVIEW F0 F1");
    expect(stderr).toContain("phase review");
    expect(model.requests).toHaveLength(9);
    const [run] = (await listed(machine)).filter(({ parent_uuid }) => parent_uuid === null);
    expect(run).toMatchObject({ exit_reason: "completed", workflow: { name: "review.js" } });
    expect(run?.children).toHaveLength(8 + 1);
    const shown = await machine.ok(["workflow", "show", run?.uuid ?? ""]);
    expect(shown.stdout).toMatch(/9 of 9 agents ended; /);
    expect(shown.stdout).toMatch(/\nreview\n(?: {2}✓ group \d .*\n){8}\nsummary\n {2}✓ summary /);
  });

  test.concurrent("without the args that it reads, its error names --args", async () => {
    await using machine = new Machine();
    machine.write("review.js", REVIEW);
    machine.write("wrong.js", `${META}\nnull.x;`);
    await machine.model(CAPITALS);
    const failed = await machine.run(["workflow", "run", "./review.js"]);
    expect(failed).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("--args JSON is probably missing"),
    });
    const wrong = await machine.run(["workflow", "run", "./wrong.js"]);
    expect(wrong).toMatchObject({ code: 1, stderr: expect.not.stringContaining("--args") });
  });

  test.concurrent("a failed agent: null in parallel, its receipt from agent()", async () => {
    await using machine = new Machine();
    await machine.model((request) =>
      firstUserMessage(request) === "bad"
        ? { fault: { kind: "status", status: 400, message: "no" } }
        : CAPITALS(request),
    );
    machine.write(
      "w.js",
      `${META}const all = await parallel([() => agent("a"), () => agent("bad")]);
try { await agent("bad", { label: "again" }); } catch (e) { return { all, name: e.name, reason: e.receipt.exit_reason }; }`,
    );
    const receipt = await machine.json(["workflow", "run", "./w.js", "--output", "json"]);
    expect(receipt).toMatchObject({
      exit_code: 0,
      output: { all: ["A", null], name: "AgentError", reason: "llm_error" },
    });
  });

  test.concurrent("an uncaught failure ends it with 1 and the line; a resume asks the failed agent alone again", async () => {
    await using machine = new Machine();
    let broken = true;
    const model = await machine.model((request) =>
      broken && firstUserMessage(request) === "two"
        ? { fault: { kind: "status", status: 400, message: "no" } }
        : CAPITALS(request),
    );
    machine.write("w.js", `${META}const one = await agent("one");\nreturn one + (await agent("two"));`);
    const failed = await machine.run(["workflow", "run", "./w.js"]);
    expect(failed.code).toBe(1);
    expect(failed.stderr).toContain("w.js");
    broken = false;
    const [run] = (await listed(machine)).filter(({ parent_uuid }) => parent_uuid === null);
    const resumed = await machine.ok(["workflow", "resume", run?.uuid ?? ""]);
    expect(resumed.stdout).toBe("ONETWO\n");
    expect(asked(model.requests)).toEqual({ one: 1, two: 2 });
    const again = await machine.run(["workflow", "resume", run?.uuid ?? ""]);
    expect(again.code).toBe(64);
    expect(again.stderr).toContain("has completed");
  });

  test.concurrent("a document by its schema, and an option that there is not", async () => {
    await using machine = new Machine();
    await machine.model(() => ({ text: '{"bugs": 3}' }));
    const schema = '{ type: "object", properties: { bugs: { type: "integer" } }, required: ["bugs"] }';
    machine.write("w.js", `${META}return (await agent("count", { schema: ${schema} })).bugs + 1;`);
    expect((await machine.ok(["workflow", "run", "./w.js"])).stdout).toBe("4\n");
    machine.write("x.js", `${META}return await agent("count", { budget: 5 });`);
    const wrong = await machine.run(["workflow", "run", "./x.js"]);
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toContain('Unrecognized key: "budget"');
  });

  test.concurrent("one budget over all agents", async () => {
    await using machine = new Machine();
    const model = await machine.model(() => ({
      text: "x",
      usage: { input_tokens: 400, output_tokens: 100 },
    }));
    machine.write(
      "w.js",
      `${META}for (let i = 0; i < 50; i++) await agent("task " + i);\nreturn budget.spent();`,
    );
    const { code, stderr } = await machine.run(["workflow", "run", "./w.js", "--budget", "2000"]);
    expect(code).toBe(2);
    expect(stderr).toContain("budget");
    expect(model.requests.length).toBeLessThanOrEqual(5);
  });

  test.concurrent("a saved workflow of a project waits for trust; the user's does not", async () => {
    await using machine = new Machine();
    await machine.model(CAPITALS);
    machine.write(".rnix/workflows/mine.js", `${META}return await agent("hello");`);
    const withheld = await machine.run(["workflow", "run", "mine"]);
    expect(withheld.code).not.toBe(0);
    expect(withheld.stderr).toContain("waits for trust");
    expect((await machine.ok(["workflow", "list"])).stdout).toMatch(/mine +withheld +a test/);
    expect((await machine.ok(["workflow", "run", "mine", "--trust"])).stdout).toBe("HELLO\n");
    await machine.ok(["trust", "--yes"]);
    expect((await machine.ok(["workflow", "run", "mine"])).stdout).toBe("HELLO\n");
    machine.write(".rnix/workflows/mine.js", `${META}return await agent("other");`);
    expect((await machine.run(["workflow", "run", "mine"])).code).not.toBe(0);
  });

  test.concurrent("rights: an agent has no more than the run", async () => {
    await using machine = new Machine();
    await machine.model((request) =>
      request.assistantMessages === 0
        ? { tool_calls: [{ name: "Write", input: { path: "x", content: "y" } }] }
        : { text: "done" },
    );
    machine.write("w.js", `${META}return await agent("write", { allow: ["Read", "Write"] });`);
    await machine.run(["workflow", "run", "./w.js", "--allow", "Read"]);
    expect(machine.has("x")).toBe(false);
  });
});

describe("the tool Workflow", () => {
  test.concurrent("runs a script as a unit; its value is the agent's next message", async () => {
    await using machine = new Machine();
    const script = `${META}return (await parallel(args.map((x) => () => agent("work " + x)))).join(" ");`;
    const model = await machine.model((request) => {
      if (!firstUserMessage(request).startsWith("lead")) return CAPITALS(request);
      if (request.assistantMessages === 0)
        return { tool_calls: [{ name: "Workflow", input: { script, args: ["a", "b"] } }] };
      const body = JSON.stringify(request.body);
      return { text: body.includes("WORK A WORK B") ? "both are done" : "waiting" };
    });
    const { stdout } = await machine.ok(["spawn", "lead them"]);
    expect(stdout).toBe("both are done\n");
    expect(
      model.requests.map((request) => firstUserMessage(request)).filter((one) => /^work/.test(one)),
    ).toHaveLength(2);
    const [run] = (await listed(machine)).filter(({ parent_uuid }) => parent_uuid === null);
    const shown = await machine.ok(["show", run?.uuid ?? ""]);
    expect(shown.stdout).toMatch(/w\w{8} +local_workflow completed: workflow w/);
  });
});

describe("a script has nothing but its agents", () => {
  test.concurrent.each([
    ["a clock", "return Date.now();", "no Date"],
    ["random numbers", "return Math.random();", "no random numbers"],
    ["modules", 'return (await import("node:fs")).readFileSync("/etc/passwd");', "could not load module"],
    ["the host's process", 'return Function("return process")().pid;', "no process"],
    ["an end of its own", "await new Promise(() => {});", "waits for something that never comes"],
    ["endless memory", "let a = [1]; for (;;) a = a.concat(a);", "out of memory"],
    [
      "calls without end",
      'for (;;) { try { await agent("x", { bad: 1 }); } catch {} }',
      "called agent more than 10000 times",
    ],
    [
      "the memory of the daemon",
      'const s = "x".repeat(1e6); return await parallel(Array.from({ length: 200 }, () => () => agent(s, { bad: 1 })));',
      "sent more than",
    ],
    ["a beginning without meta", "", "begins with export const meta"],
  ])("%s", async (what, body, message) => {
    await using machine = new Machine();
    await machine.model(CAPITALS);
    machine.write("w.js", what === "a beginning without meta" ? "return 1;" : META + body);
    const { code, stderr } = await machine.run(["workflow", "run", "./w.js"]);
    expect(code).not.toBe(0);
    expect(stderr).toContain(message);
  });
});

test.concurrent("a notice names agents that the script did not await", async () => {
  await using machine = new Machine();
  await machine.model(CAPITALS);
  machine.write("w.js", `${META}for (let i = 0; i < 40; i++) agent("task " + i);\nreturn "early";`);
  const { stdout, stderr } = await machine.ok(["workflow", "run", "./w.js"]);
  expect(stdout).toBe("early\n");
  expect(stderr).toContain("40 agents that the script did not await");
});

describe("kill -9 of the daemon", () => {
  test("in the middle: a resume runs no agent twice", async () => {
    await using machine = new Machine();
    const held = Promise.withResolvers<void>();
    const model = await machine.model(async (request) => {
      if (/^review f(?:15|20|25|30|35) /.test(firstUserMessage(request))) await held.promise;
      return CAPITALS(request);
    });
    machine.write("review.js", REVIEW);
    const args = ["workflow", "run", "./review.js", "--args", REVIEW_ARGS, "--detach"];
    const [, , uuid = ""] = /^(\d+) (\S+)\n$/.exec((await machine.ok(args)).stdout) ?? [];
    await until(() => model.requests.length === 8, "eight requests");
    await machine.until(["workflow", "show", uuid], /3 of 8 agents ended/);
    machine.killDaemon();
    held.resolve();
    const resumed = await machine.ok(["workflow", "resume", uuid]);
    expect(resumed.stdout).toStartWith("SUM UP REVIEW F0");
    const counts = asked(model.requests);
    for (const [intent, times] of Object.entries(counts)) {
      // Five requests were cut off by the kill; no agent that had answered is asked again.
      expect(times).toBeLessThanOrEqual(/^review f(?:15|20|25|30|35) /.test(intent) ? 2 : 1);
    }
    const runs = await listed(machine);
    expect(runs).toHaveLength(1 + 8 + 1);
  });
});
