import { describe, expect, test } from "bun:test";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { ANTHROPIC_KEY, Machine, OPENAI_KEY } from "./support/machine.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { receiptOf, recordOf, uuidOf } from "./support/verdict.ts";

const AGENT = "name: fixer\ndescription: Fixes\nmodels: { provider: openai, preferred: m }\n";

/** A project with its own agent, and a recorded run of it that edits a file; the model is stopped. */
async function recorded(machine: Machine, agent = AGENT): Promise<{ uuid: string; fresh: string }> {
  machine.agent("fixer", agent, "Fix what is broken.\n");
  machine.write("sum.txt", "1 + 1 = 3\n");
  const fresh = join(machine.elsewhere, "fresh");
  cpSync(machine.project, fresh, { recursive: true });
  for (const cwd of [machine.project, fresh]) await machine.run(["trust", "--follow", "--yes"], { cwd });
  const model = await machine.play({
    "fix the sum": [
      calls(["Read", { path: join(machine.project, "sum.txt") }]),
      calls(["Edit", { path: "sum.txt", old_string: "3", new_string: "2" }]),
      bash("cat sum.txt; date +%T"),
      says("The sum is right now."),
    ],
  });
  const first = await machine.run(["spawn", "fix the sum", "--agent", "fixer", "--output", "json"]);
  const { uuid } = receiptOf(first);
  expect({ code: first.code, sum: machine.read("sum.txt") }).toEqual({ code: 0, sum: "1 + 1 = 2\n" });
  await model.stop();
  return { uuid, fresh };
}

async function replayed(machine: Machine, args: string[]) {
  const { code, stdout, stderr } = await machine.run(["replay", "--json", ...args]);
  if (stdout === "") throw new Error(`rnix replay ended with ${code}: ${stderr}`);
  const { same, differences } = JSON.parse(stdout);
  return { code, same, differences, kinds: differences.map(({ kind }: { kind: string }) => kind), stderr };
}

describe("rnix replay of a recorded run", () => {
  test("exits 0 when today's agent does the same, with real tools and no model", async () => {
    await using machine = new Machine();
    const { uuid, fresh } = await recorded(machine);
    const { code, stdout } = await machine.run(["replay", uuid, "--cwd", fresh]);
    expect(stdout).toContain("4 steps, 3 tool calls, completed (exit 0)");
    expect(code).toBe(0);
    for (const _ of ["the run", "the run that the replay before played"]) {
      const last = await machine.run(["replay"]);
      expect(last).toMatchObject({ code: 1, stdout: expect.stringContaining(`differs from run ${uuid}`) });
      expect(last.stderr).toMatch(/^process \d+ /);
    }
    // The path that the model had written out is that of today's folder.
    expect(machine.read(join(fresh, "sum.txt"))).toBe("1 + 1 = 2\n");
    expect(machine.strays()).toEqual([]);
  });

  test("shows both results where a call's result differs, and ends there with 1", async () => {
    await using machine = new Machine();
    const { uuid } = await recorded(machine);
    machine.write("sum.txt", "1 + 1 = 7\n");
    const { code, stdout } = await machine.run(["replay", uuid.slice(0, 13)]);
    expect(code).toBe(1);
    expect(stdout).toContain("differs");
    expect(stdout).toMatch(/result, step 1: run .* diverges at turn 1: Read .* had another result/);
    expect(stdout).toMatch(/expected\n.*1 \+ 1 = 3\n.*actual\n.*1 \+ 1 = 7/);
    expect(machine.read("sum.txt")).toBe("1 + 1 = 7\n");
    // By how the calls went it is another point: the Edit finds nothing to replace.
    expect((await replayed(machine, [uuid, "--compare", "state"])).kinds).toEqual(["result"]);
  });

  test("names what today's agent definition changes", async () => {
    await using machine = new Machine();
    const { uuid, fresh } = await recorded(machine);
    machine.write(join(fresh, "agents/fixer/instructions.md"), "Fix what is broken, with care.\n");
    machine.write(
      join(fresh, "agents/fixer/agent.yaml"),
      `${AGENT}max_steps: 9\nallowed_tools: [Read, Edit, Bash]\n`,
    );
    const changed = await replayed(machine, [uuid, "--cwd", fresh]);
    expect(changed).toMatchObject({ code: 1, same: false });
    expect([...new Set(changed.kinds)].sort()).toEqual(["limits", "prompt", "rights", "tools"]);
    expect(changed.differences[0]).toMatchObject({
      kind: "prompt",
      recorded: "Fix what is broken.",
      replayed: "Fix what is broken, with care.",
    });
    machine.write(join(fresh, "sum.txt"), "1 + 1 = 3\n");
    const ignore = ["limits", "prompt", "rights", "tools"].flatMap((kind) => ["--ignore", kind]);
    expect(await replayed(machine, [uuid, "--cwd", fresh, ...ignore])).toMatchObject({ code: 0, same: true });

    machine.write(join(fresh, "sum.txt"), "1 + 1 = 3\n");
    machine.write(join(fresh, "agents/fixer/agent.yaml"), `${AGENT}allowed_tools: [Read, Bash]\n`);
    const refused = await replayed(machine, [uuid, "--cwd", fresh, ...ignore]);
    expect(refused).toMatchObject({ code: 1, kinds: ["result"] });
    expect(refused.differences[0].message).toMatch(
      /diverges at turn 2: Edit[\s\S]*actual\n {2}Error (PERMISSION|NOT_FOUND)/,
    );
  });

  test("works with --no-daemon, too", async () => {
    await using machine = new Machine();
    const { uuid, fresh } = await recorded(machine);
    const { code, stdout } = await machine.run(["replay", uuid, "--cwd", fresh, "--no-daemon", "-q"]);
    expect({ code, same: stdout.includes("the same") }).toEqual({ code: 0, same: true });
  });

  test("refuses a run that can't be replayed, and spends nothing", async () => {
    await using machine = new Machine();
    const { uuid } = await recorded(machine);
    const grid: [string[], RegExp][] = [
      [["0199ffff"], /No process with a UUID/],
      [["none.yaml"], /no script none\.yaml/],
      [[uuid, "--ignore", "everything"], /expected one of prompt/],
      [[uuid, "--compare", "loosely"], /usual, exact, state/],
      [[uuid, "--cwd", "/no/such/folder"], /no such file or folder/],
      [[uuid, "--export", "run.txt"], /ends in \.yaml/],
      [["s.yaml", "--export", "t.yaml"], /expects a recorded run, got a script/],
    ];
    for (const [args, says] of grid) {
      const { code, stderr } = await machine.run(["replay", ...args]);
      expect([args, code]).toEqual([args, 64]);
      expect(stderr).toMatch(says);
    }
  });
});

describe("rnix replay --export", () => {
  for (const form of ["yaml", "json", "jsonl"]) {
    test(`writes a script as ${form} that replays the same, can be edited, and has no key`, async () => {
      await using machine = new Machine();
      const { uuid, fresh } = await recorded(machine);
      const file = `new/folder/fix.${form}`;
      const written = await machine.run(["replay", uuid, "--export", file]);
      expect({ code: written.code, out: written.stdout }).toEqual({ code: 0, out: "" });
      const text = machine.read(file);
      for (const key of [OPENAI_KEY, ANTHROPIC_KEY]) expect(text).not.toContain(key);
      const again = await machine.run(["replay", uuid, "--export", file]);
      expect([again.code, again.stderr]).toEqual([64, expect.stringContaining("exists already")]);

      expect(await replayed(machine, [file, "--cwd", fresh])).toMatchObject({ code: 0, same: true });
      expect(machine.read(join(fresh, "sum.txt"))).toBe("1 + 1 = 2\n");
      const diverged = await replayed(machine, [file, "--cwd", fresh]);
      expect(diverged).toMatchObject({ code: 1, kinds: ["outcome"] });
      expect(diverged.differences[0].message).toContain("diverges at turn 1");

      const edited = machine.write(file, text.replaceAll("The sum is right now.", "All is well."));
      machine.write(join(fresh, "sum.txt"), "1 + 1 = 3\n");
      const play = ["spawn", "fix it", "--provider", "replay", "--model", edited, "--cwd", fresh];
      const { code, stdout } = await machine.run(play);
      expect({ code, stdout }).toEqual({ code: 0, stdout: "All is well.\n" });
    });
  }
});

describe("rnix spawn --provider replay", () => {
  test("replays a recorded run by its UUID; a divergence is an error that is not retried", async () => {
    await using machine = new Machine();
    const { uuid, fresh } = await recorded(machine);
    const play = [
      "spawn",
      "fix the sum",
      "--agent",
      "fixer",
      "--provider",
      "replay",
      "--model",
      uuid,
      "--cwd",
      fresh,
    ];
    const first = await machine.run(play);
    expect({ code: first.code, out: first.stdout }).toEqual({ code: 0, out: "The sum is right now.\n" });
    const second = await machine.run([...play, "--output", "json"]);
    const receipt = receiptOf(second);
    expect(receipt).toMatchObject({ exit_code: 1, exit_reason: "llm_error", error: { code: "INVALID" } });
    expect(receipt.error?.message).toContain("diverges at turn 1");
    expect(receipt.steps).toBeLessThanOrEqual(2);
    expect(second.stderr).not.toContain("try ");
  });

  test("continues at its position after a suspend and a resume", async () => {
    await using machine = new Machine();
    machine.write(
      "hold.yaml",
      [
        "responses:",
        "  - tool_calls: [{ name: Bash, input: { command: echo one } }]",
        "  - one_of:",
        "      - { when: { last_result: two }, text: wrong }",
        "      - when: { last_result: one }",
        "        responses:",
        "          - tool_calls: [{ name: Bash, input: { command: 'test -e go || { touch held; sleep 600; }; echo three' } }]",
        "          - text: went on",
      ].join("\n"),
    );
    const spawned = machine.start([
      "spawn",
      "hold",
      "--provider",
      "replay",
      "--model",
      "hold.yaml",
      "--output",
      "json",
    ]);
    await machine.held();
    const uuid = await uuidOf(spawned);
    await machine.ok(["suspend", uuid]);
    await spawned.done;
    machine.write("go", "");
    const resumed = await machine.run(["resume", uuid]);
    expect({ code: resumed.code, out: resumed.stdout }).toEqual({ code: 0, out: "went on\n" });
    expect(recordOf(machine, uuid)).toMatchObject({ exit_code: 0 });
  });
});

describe("a recorded run with follow-ups", () => {
  /** Two answers, each after a call, and a follow-up between them. */
  async function recorded(machine: Machine): Promise<string> {
    const write = (content: string) => bash(`echo ${content}`);
    const model = await machine.play({ go: [write("one"), says("one"), write("two"), says("two")] });
    const first = await machine.run(["spawn", "go", "--output", "json"]);
    const { uuid } = receiptOf(first);
    expect((await machine.run(["resume", uuid, "and two"])).stdout).toBe("two\n");
    await model.stop();
    return uuid;
  }

  test("is replayed up to the answer before the first one, which is no difference", async () => {
    await using machine = new Machine();
    const uuid = await recorded(machine);
    const { code, stdout } = await machine.run(["replay", uuid]);
    expect(stdout).toContain("the same as run");
    expect(stdout).toContain("the last 2 steps are not played: they answer messages");
    expect(code).toBe(0);
    const json = await machine.run(["replay", uuid, "--json", "-q"]);
    expect(JSON.parse(json.stdout)).toMatchObject({ same: true, unplayed_steps: 2, differences: [] });
  });

  test("is exported up to that answer, and the script passes", async () => {
    await using machine = new Machine();
    const uuid = await recorded(machine);
    const exported = await machine.run(["replay", uuid, "--export", "s.yaml"]);
    expect(exported.stderr).toContain("the last 2 steps are not played");
    expect(exported.stderr).toContain("s.yaml: 2 answers");
    expect(machine.read("s.yaml")).not.toContain("two");
    expect(await machine.run(["replay", "s.yaml", "-q"])).toMatchObject({ code: 0 });
  });

  test("differs when a replayed step differs", async () => {
    await using machine = new Machine();
    const uuid = await recorded(machine);
    machine.write(
      join(machine.configDir, "agents/default/agent.yaml"),
      "name: default\ndescription: Mine\nmax_steps: 5\n",
    );
    machine.write(join(machine.configDir, "agents/default/instructions.md"), "Other.\n");
    const other = await machine.run(["replay", uuid]);
    expect(other.code).toBe(1);
    expect(other.stdout).toContain("limits: max_steps");
    expect(other.stdout).toContain("not played");
  });
});

test("a run that continued after a failed check has text as the rejected answer's action, and is replayed whole", async () => {
  await using machine = new Machine();
  const model = await machine.play({
    go: [says("claimed"), bash("touch ok"), says("done")],
  });
  const first = await machine.run(["spawn", "go", "--check", "test -e ok", "--output", "json"]);
  const { uuid } = receiptOf(first);
  const steps = await machine.json(["steps", uuid, "--json"]);
  expect(steps).toMatchObject([{ action: "text" }, { action: "tool_call" }, { action: "complete" }]);
  const one = await machine.json(["steps", uuid, "1", "--json"]);
  expect(one).toMatchObject({ step: 1, action: "text" });
  await model.stop();
  machine.remove("ok");
  const { code, stdout } = await machine.run(["replay", uuid]);
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.not.stringContaining("not played") });
});

describe("a recorded run with children", () => {
  test("is replayed with them, whatever provider their agents name; the export has them as sub-scripts", async () => {
    await using machine = new Machine();
    machine.write(
      "agents/helper/agent.yaml",
      "name: helper\ndescription: Helps\nmodels: { provider: openai, preferred: other }\n",
    );
    machine.write("agents/helper/instructions.md", "Help.\n");
    const model = await machine.play({
      "ask two": [
        calls(["Agent", { agent: "helper", intent: "look left" }]),
        calls(["Agent", { agent: "helper", intent: "look right" }]),
        says("both have looked"),
      ],
      "look left": [bash("echo left"), says("nothing on the left")],
      "look right": [says("nothing on the right")],
    });
    const first = await machine.run(["spawn", "ask two", "--output", "json"]);
    const { uuid, exit_code } = receiptOf(first);
    expect({ exit_code, error: first.stderr.includes("error") }).toEqual({ exit_code: 0, error: false });
    await model.stop();
    const asked = model.requests.length;

    expect(await replayed(machine, [uuid])).toMatchObject({ differences: [], code: 0 });
    await machine.ok(["replay", uuid, "--export", "two.yaml"]);
    expect(machine.read("two.yaml")).toContain("intent: look left");
    expect(await replayed(machine, ["two.yaml"])).toMatchObject({ differences: [], code: 0 });
    expect(model.requests.length).toBe(asked);

    machine.write("two.yaml", machine.read("two.yaml").replace("intent: look left\n", "intent: look up\n"));
    const changed = await replayed(machine, ["two.yaml"]);
    expect(changed.code).toBe(1);
  });
});
