import { describe, expect, test } from "bun:test";
import { binary } from "./support/binary.ts";
import { Machine } from "./support/machine.ts";
import { firstUserMessage, toolNames, toolResults } from "./support/requests.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { recordOf, refusal, verdict } from "./support/verdict.ts";

const PRICED = `providers:
  openai:
    models:
      m: { max_output: 100, price: { input: 1000, output: 1000 } }
`;

test.each([[[]], [["--no-daemon"]]])("an agent gives a part of its task to a child agent %j", async (how) => {
  await using machine = new Machine();
  machine.write("notes/a.txt", "forty-two");
  const model = await machine.play({
    "do the whole": [calls(["Agent", { intent: "do a part", agent: "code-analyst" }]), says("whole")],
    "do a part": [calls(["Read", { path: "notes/a.txt" }]), says("it says forty-two")],
  });
  const { receipt, stderr } = await verdict(machine, ["do the whole", ...how]);
  expect(receipt).toMatchObject({
    exit_code: 0,
    result: "whole",
    children: [{ agent: "code-analyst", exit_code: 0, exit_reason: "completed", tokens_used: 30 }],
    tokens_used: 60,
    steps: 2,
  });
  const child = receipt.children[0];
  expect(recordOf(machine, child?.uuid ?? "")).toMatchObject({
    parent_uuid: receipt.uuid,
    provider: "openai",
  });
  expect(stderr).toContain(`Agent: process ${child?.pid} (code-analyst), step 2/`);
  const ofParent = model.requests.findLast((request) => firstUserMessage(request) === "do the whole");
  expect(ofParent === undefined ? [] : toolResults(ofParent)).toEqual([
    `it says forty-two\n\n[process ${child?.pid}, agent code-analyst: completed, 2 steps, 30 tokens]`,
  ]);
  const { stdout } = await machine.run(["steps", receipt.uuid, "--json"]);
  expect(JSON.parse(stdout)).toMatchObject([{ action: "spawn" }, { action: "complete" }]);
});

test("a child whose answer must fit a schema is asked again until it does, or the call fails", async () => {
  await using machine = new Machine();
  const schema = { type: "object", properties: { bugs: { type: "integer" } }, required: ["bugs"] };
  const model = await machine.play({
    whole: [
      calls(["Agent", { intent: "count them", schema }], ["Agent", { intent: "never", schema }]),
      says("whole"),
    ],
    "count them": [says("three"), says('{"bugs": 3}')],
    never: [says("no")],
  });
  await verdict(machine, ["whole"]).catch(() => undefined);
  const last = model.requests.findLast((request) => firstUserMessage(request) === "whole");
  const [fits, fails] = last === undefined ? [] : toolResults(last);
  expect(fits).toStartWith('{"bugs": 3}');
  expect(fails).toContain("does not fit the output schema");
});

test("a child has its parent's provider and model, folders and rights, whatever the environment says", async () => {
  await using machine = new Machine();
  const outside = machine.write(`${machine.elsewhere}/a.txt`, "outside");
  const model = await machine.play({
    whole: [
      calls(["Agent", { intent: "part one" }], ["Agent", { intent: "part two", model: "m3" }]),
      calls(["Agent", { intent: "part three", agent: "unknown" }]),
      says("whole"),
    ],
    "part one": [calls(["Read", { path: outside }], ["Write", { path: "b.txt", content: "x" }]), says("one")],
    "part two": [says("two")],
  });
  const { receipt } = await verdict(machine, [
    ..."whole --provider anthropic --model m2 --deny Write --add".split(" "),
    machine.elsewhere,
  ]);
  expect(receipt).toMatchObject({ exit_code: 0, provider: "anthropic", model: "m2" });
  const children = receipt.children.map(({ uuid }) => recordOf(machine, uuid));
  expect(children.map(({ provider, model }) => [provider, model])).toEqual([
    ["anthropic", "m2"],
    ["anthropic", "m3"],
  ]);
  const one = model.requests.findLast((request) => firstUserMessage(request) === "part one");
  if (!one) throw new Error("the first part was not asked for");
  expect(toolNames(one)).not.toContain("Write");
  expect(toolResults(one)).toEqual([
    expect.stringContaining("outside"),
    expect.stringMatching(/^Error (NOT_FOUND|PERMISSION)/),
  ]);
  expect(machine.has("b.txt")).toBe(false);
  const last = model.requests.at(-1);
  expect(last === undefined ? "" : toolResults(last).at(-1)).toStartWith(
    'Error NOT_FOUND: There is no agent "unknown"',
  );
});

test("ps shows the tree of agents, and kill ends it", async () => {
  await using machine = await Machine.playing({
    "do the whole": [calls(["Agent", { intent: "do a part" }])],
    "do a part": [calls(["Agent", { intent: "do the rest" }])],
    "do the rest": [{ fault: { kind: "hang" } }],
  });
  const run = machine.start(["spawn", "do the whole", "--output", "json"]);
  // As an intent, at the end of a line: DOING of the parent names the call before there is a child.
  const tree = await machine.until(["ps", "--tree"], /do the rest$/m);
  const indent = (intent: string): number =>
    tree
      .split("\n")
      .find((line) => line.endsWith(intent))
      ?.search(/\S/) ?? -1;
  expect([indent("do the whole"), indent("do a part"), indent("do the rest")].every((one) => one >= 0)).toBe(
    true,
  );
  const { stdout } = await machine.run(["ps", "--json"]);
  const procs: { pid: number; ppid: number; intent: string }[] =
    JSON.parse(stdout).processes ?? JSON.parse(stdout);
  const pidOf = (intent: string): number => procs.find((proc) => proc.intent === intent)?.pid ?? -1;
  expect(procs.find(({ intent }) => intent === "do the rest")?.ppid).toBe(pidOf("do a part"));
  const killed = await machine.run(["kill", String(pidOf("do the whole"))]);
  expect(killed.code).toBe(0);
  const { code, stdout: receipt } = await run.done;
  expect(code).toBe(143);
  expect(JSON.parse(receipt)).toMatchObject({ exit_reason: "terminated", children: [{ exit_code: 143 }] });
  await machine.until(["ps"], /^(?![\s\S]*do (the|a))/);
});

describe("agents that spawn without end stay within their limits", () => {
  const EIGHT = calls(
    ...Array.from({ length: 8 }, (_, i): [string, Record<string, unknown>] => [
      "Agent",
      { intent: `more ${i}` },
    ]),
  );

  test.each([
    ["steps", [], 1],
    ["budget", ["--budget", "40000"], 2],
  ])("every answer spawns eight: the %s end it", async (what, flags, code) => {
    await using machine = new Machine();
    machine.write(`${machine.configDir}/providers.yaml`, PRICED);
    const model = await machine.model(() => ({ ...EIGHT, usage: { input_tokens: 900, output_tokens: 100 } }));
    const { receipt } = await verdict(machine, ["more", ...flags]);
    expect(receipt.exit_code).toBe(code);
    expect(receipt.tokens_used).toBe(model.requests.length * 1000);
    if (what === "steps") expect(model.requests.length).toBeLessThanOrEqual(100);
    else expect(receipt.tokens_used).toBeLessThanOrEqual(40_000);
    expect(model.requests.length).toBeGreaterThan(20);
    const { stdout } = await machine.run(["ps", "--json", "-a"]);
    const procs: { state: string; exit_code: number | null }[] =
      JSON.parse(stdout).processes ?? JSON.parse(stdout);
    expect(procs.length).toBeGreaterThan(5);
    expect(procs.every(({ state, exit_code }) => state === "dead" && exit_code !== null)).toBe(true);
  });

  test("every answer spawns three children in the background of the shell: the limits on children and budget hold", async () => {
    await using machine = new Machine();
    machine.config({ live_children: 6 });
    machine.write(`${machine.configDir}/providers.yaml`, PRICED);
    const spawn = `${binary()} spawn --detach more`;
    const command = `${spawn}; ${spawn}; ${spawn}`;
    const model = await machine.model(() => ({
      ...bash(command),
      usage: { input_tokens: 900, output_tokens: 100 },
    }));
    const { receipt } = await verdict(machine, ["more", "--budget", "30000"]);
    expect(receipt).toMatchObject({ exit_code: 2, exit_reason: "budget_exceeded" });
    expect(receipt.tokens_used).toBeLessThanOrEqual(30_000);
    expect(receipt.tokens_used).toBe(model.requests.length * 1000);
    expect(receipt.children.length).toBeGreaterThan(0);
    const refused = model.requests
      .flatMap(toolResults)
      .filter((text) => text.includes("6 processes live below this run"));
    expect(refused.length).toBeGreaterThan(0);
    await machine.until(["ps"], /^(?![\s\S]*running)/);
  });
});

describe("a cost limit", () => {
  test("ends the run with 2 before the call that it does not cover", async () => {
    await using machine = new Machine();
    machine.write(`${machine.configDir}/providers.yaml`, PRICED);
    // 1000 USD per million: a request costs some dollars, and what it has used here 5.
    const model = await machine.model(() => ({
      ...calls(["Plan", { steps: ["again"] }]),
      usage: { input_tokens: 4_900, output_tokens: 100 },
    }));
    const { receipt, info } = await verdict(machine, ["plan", "--max-cost", "20"]);
    expect(receipt).toMatchObject({ exit_code: 2, exit_reason: "budget_exceeded" });
    expect(receipt.error?.message).toContain("--max-cost");
    expect(receipt.cost_usd).toBeCloseTo(model.requests.length * 5);
    expect(receipt.cost_usd ?? 99).toBeLessThanOrEqual(20);
    expect(info.max_cost).toBe(20);
  });

  test("of an agent counts like the flag's", async () => {
    await using machine = new Machine();
    machine.write(`${machine.configDir}/providers.yaml`, PRICED);
    machine.agent("thrifty", "name: thrifty\ndescription: d\nmax_cost: 0.01\n", "Be thrifty.\n");
    await machine.model(() => says("never"));
    const { receipt } = await verdict(machine, ["go", "--agent", "thrifty"]);
    expect(receipt).toMatchObject({ exit_code: 2, steps: 0, tokens_used: 0 });
  });

  test("is refused for a model without a price", async () => {
    await using machine = new Machine();
    await machine.model(() => says("never"));
    const { receipt } = await refusal(machine, ["go", "--max-cost", "1.50"]);
    expect(receipt).toMatchObject({ exit_code: 64 });
    expect(receipt.error?.message).toContain("providers.yaml");
  });
});
