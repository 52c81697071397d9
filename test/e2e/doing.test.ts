import { expect, test } from "bun:test";
import { z } from "zod";
import { Machine } from "./support/machine.ts";
import { bash, calls, says } from "./support/scenes.ts";

const INTENT = "build all of it, and then look whether the result is what was asked for";

/** Prints, then waits until the file is there. */
const UNTIL_GO = "echo begun; until [ -e go ]; do sleep 0.02; done; seq 1 100000; echo over";

const Event = z.looseObject({ type: z.string(), payload: z.looseObject({ event: z.string().optional() }) });
const Doing = z.looseObject({
  status: z.string(),
  state: z.string(),
  doing: z.looseObject({ text: z.string() }).nullable(),
});

test("ps, show and an attached client say what a run does; ps fits a narrow terminal, steps say what it did", async () => {
  await using machine = await Machine.playing({
    [INTENT]: [
      bash(UNTIL_GO),
      calls(["Write", { path: "src/a.ts", content: "1\n" }], ["Read", { path: "none.txt" }]),
      says("It is built."),
    ],
  });
  const spawned = machine.start(["spawn", INTENT, "--output", "jsonl"]);
  await spawned.stdout.has(/"tool_output".*begun/);

  const title = "Bash echo begun; until [ -e go ]; do sleep 0.02; done; seq 1 100000; echo over";
  const [info] = z.array(Doing).parse(await machine.json(["ps", "--json"]));
  expect(info).toMatchObject({
    status: "running",
    state: "running",
    doing: { kind: "tool", text: title, until_ms: null },
  });
  expect((await machine.run(["show", "1"])).stdout).toContain(`doing    ${title}, `);
  expect((await machine.run(["ps"])).stdout).toMatch(
    /DOING +INTENT\n1 +running .* Bash echo begun; until .*, \d+s +build all/,
  );
  for (const columns of [80, 60, 40]) {
    await using terminal = machine.terminal(["ps"], { columns, rows: 24 });
    expect((await terminal.done).code).toBe(0);
    const [head, row, ...more] = terminal.screen.transcript.trimEnd().split("\n");
    expect(head).toMatch(/^PID +STATE .*DOING/);
    expect(row).toMatch(/^1 +running .*Bash echo/);
    expect(more).toEqual([]);
  }

  const attached = machine.start(["attach", "1", "--json"]);
  await attached.stdout.has(/"activity"/);
  machine.write("go", "");
  const [{ stdout }, followed] = await Promise.all([attached.done, spawned.done]);
  const late = eventsOf(stdout);
  const state = late.slice(0, late.findIndex(({ payload }) => payload.event === "activity") + 1);
  expect(state.map(({ type, payload }) => payload.event ?? payload.kind ?? type)).toEqual([
    "spawn",
    ...(state.some(({ payload }) => payload.event === "notice") ? ["notice"] : []),
    "step",
    "tool",
    "tool_output",
    "activity",
  ]);
  expect(state.at(-2)).toMatchObject({ payload: { text: "begun\n", lines: 1 } });
  expect(state.at(-1)).toMatchObject({ payload: { activity: { kind: "tool", text: title } } });

  const events = eventsOf(followed.stdout);
  const outputs = events.filter(({ type }) => type === "tool_output");
  expect(outputs.length).toBeLessThan(100);
  expect(JSON.stringify(outputs).length).toBeLessThan(1024 * 1024);
  const doing = events.flatMap(({ payload }) => (payload.event === "activity" ? [payload.activity] : []));
  expect(doing.map((activity) => z.looseObject({ text: z.string() }).parse(activity).text)).toEqual(
    expect.arrayContaining([
      "starting",
      "waiting for m",
      title,
      "Write src/a.ts",
      "Read none.txt",
      "writing",
      "ending",
    ]),
  );
  expect(events.filter(({ payload }) => payload.event === "usage")).toHaveLength(3);

  const steps = await machine.run(["steps", "1"]);
  expect(steps.stdout).toMatch(/^STEP +ACTION +TOKENS +TIME .*DID\n/);
  expect(steps.stdout).toContain(`  ${title}\n`);
  expect(steps.stdout).toContain("  Write src/a.ts; Read none.txt (failed)\n");
  expect(steps.stdout).toContain("  It is built.\n");
  await using terminal = machine.terminal(["steps", "1"], { columns: 60, rows: 24 });
  await terminal.done;
  expect(terminal.screen.transcript).toMatch(/ 1 .*Bash echo begun; until .*…\n/);
});

test("ps -a says done, failed and suspended; --json keeps the kernel's state", async () => {
  await using machine = new Machine();
  const model = await machine.play({
    "end well": [says("done")],
    "end badly": [says("done, I think")],
    "wait for long": [async () => new Promise<never>(() => undefined)],
  });
  await machine.run(["spawn", "end well"]);
  await machine.run(["spawn", "end badly", "--check", "false", "--check-attempts", "1"]);
  await machine.run(["spawn", "wait for long", "--detach"]);
  await model.arrived(3);
  const paused = async () => (await machine.run(["ps"])).stdout;
  expect(await paused()).toMatch(/\n3 +running .* waiting for m, \d+s +wait for long\n/);
  await machine.run(["pause", "3"]);
  expect(await paused()).toMatch(/\n3 +paused .* paused, \d+s +wait for long\n/);
  await machine.run(["continue", "3"]);
  await machine.run(["suspend", "3"]);
  const { stdout } = await machine.run(["ps", "-a"]);
  expect(stdout).toMatch(/\n1 +done .* completed +end well\n/);
  expect(stdout).toMatch(/\n2 +failed .* check_failed \(exit 1\) +end badly\n/);
  expect(stdout).toMatch(/\n3 +suspended .* waits for rnix resume +wait for long\n/);
  const infos = z.array(Doing).parse(await machine.json(["ps", "-a", "--json"]));
  expect(infos.map(({ status, state, doing }) => [status, state, doing])).toEqual([
    ["done", "dead", null],
    ["failed", "dead", null],
    ["suspended", "suspended", null],
  ]);
});

test("an attached client sees what children side by side do, and their children", async () => {
  await using machine = new Machine();
  const go = Promise.withResolvers<void>();
  await machine.play({
    "build all": [
      calls(["Agent", { intent: "build left" }], ["Agent", { intent: "build right" }]),
      says("built"),
    ],
    "build left": [calls(["Agent", { intent: "look deep" }]), says("left")],
    "build right": [bash("until [ -e go ]; do sleep 0.02; done"), says("right")],
    "look deep": [
      async () => {
        await go.promise;
        return says("deep");
      },
    ],
  });
  const spawned = machine.start(["spawn", "build all", "--output", "jsonl"]);
  await spawned.stdout.has(/"child":\{[^\n]*"text":"Bash until/);
  await spawned.stdout.has(/"intent":"look deep"[^\n]*"text":"waiting for m"/);
  const tree = (await machine.run(["ps", "--tree"])).stdout;
  expect(tree).toMatch(/\n1 +running .* 2 calls: Agent ×2, \d+s +build all\n/);
  expect(tree).toMatch(/\n\|- \d+ +running .* Agent look deep, \d+s +build left\n/);
  expect(tree).toMatch(/\n\| {2}`- \d+ +running .* waiting for m, \d+s +look deep\n/);
  expect(tree).toMatch(
    /\n`- \d+ +running .* Bash until \[ -e go \]; do sleep 0.02; done, \d+s +build right\n/,
  );
  const attached = machine.start(["attach", "1", "--json"]);
  await attached.stdout.has(/"intent":"look deep"/);
  machine.write("go", "");
  go.resolve();
  const [{ stdout }, late] = await Promise.all([spawned.done, attached.done]);
  const Child = z.looseObject({ intent: z.string(), state: z.string(), call_id: z.string().nullable() });
  for (const text of [stdout, late.stdout]) {
    const children = eventsOf(text).flatMap(({ payload }) =>
      payload.event === "child" ? [Child.parse(payload.child)] : [],
    );
    const done = children.filter(({ state }) => state === "done");
    expect(done.map(({ intent }) => intent).toSorted()).toEqual(["build left", "build right", "look deep"]);
    expect(new Set(done.map(({ call_id }) => call_id)).size).toBe(3);
    expect(done.every(({ doing }) => doing === null)).toBe(true);
  }
});

function eventsOf(text: string): z.infer<typeof Event>[] {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => Event.parse(JSON.parse(line)));
}
