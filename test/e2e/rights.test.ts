import { describe, expect, test } from "bun:test";
import { until } from "../support/until.ts";
import { binary } from "./support/binary.ts";
import { Machine } from "./support/machine.ts";
import { toolNames, toolResults } from "./support/requests.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { receiptOf, recordOf } from "./support/verdict.ts";

const RNIX = `'${binary()}'`;
const HOLD = "touch held; until test -e go; do sleep 0.02; done";

describe("rnix deny", () => {
  test("ends the running command and tells the model why; the run continues without the tool", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "do it": [bash(`${HOLD} & sleep 600`), bash("touch again"), says("could not")],
    });
    const run = machine.start(["spawn", "do it", "--output", "json"]);
    await machine.held();
    const { code, stderr, stdout } = await machine.run(["deny", "1", "Bash"]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "" });
    expect(stderr).toMatch(/^process 1 may use: .*Read.*\ndenied: Bash\n$/);
    const receipt = receiptOf(await run.done);
    expect(receipt).toMatchObject({ exit_code: 0, result: "could not", tool_calls: 2 });
    const results = model.requests.flatMap(toolResults);
    expect(results[0]).toMatch(/PERMISSION.*Bash\(touch held.*It was withdrawn by the operator \(PID 0\)/);
    expect(results.at(-1)).toMatch(/PERMISSION.*The deny rule Bash forbids it/);
    expect(machine.has("again")).toBe(false);
    expect(model.requests.map(({ text }) => text).join()).toContain(
      "Bash was withdrawn by the operator (PID 0)",
    );
    // A provider's prompt cache: what the model is shown does not change.
    expect(model.requests.map(toolNames)).toEqual(model.requests.map(() => toolNames(model.first)));
    expect(recordOf(machine, receipt.uuid).permissions).toEqual({
      allow: [["*"]],
      deny: ["Bash"],
      ask: ["CronCreate"],
    });
    expect((await machine.run(["show", "1"])).stdout).toMatch(/deny +Bash\n/);
    await until(() => machine.strays().length === 0, "the programs' end");
  });

  test("applies to the run's children, and is undone by rnix allow", async () => {
    await using machine = await Machine.playing({
      "parent task": [bash(`${RNIX} spawn 'child chore' -q`), says("done")],
      "child chore": [bash(HOLD), calls(["Write", { path: "b", content: "free" }]), says("child done")],
    });
    const run = machine.start(["spawn", "parent task", "--output", "json"]);
    await machine.held();
    await machine.run(["deny", "1", "Edit", "Write"]);
    const child = await machine.run(["allow", "2", "Write"]);
    expect(child.code).toBe(1);
    expect(child.stderr).toMatch(/PID 1, above PID 2, does not hold Write .*rnix allow 1 'Write'\n$/);
    expect((await machine.run(["show", "2"])).stdout).toMatch(/deny +Edit, Write\n/);
    const { stderr } = await machine.run(["allow", "1", "Edit", "Write"]);
    expect(stderr).not.toContain("denied");
    machine.write("go", "");
    expect(receiptOf(await run.done)).toMatchObject({ exit_code: 0 });
    expect(machine.read("b")).toBe("free");
  });
});

describe("rnix allow", () => {
  test("offers a tool to a live run, which uses it; the trace names the rule", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "do it": [bash(HOLD), calls(["Write", { path: "new", content: "x" }]), says("written")],
    });
    const run = machine.start([
      "spawn",
      "do it",
      "--output",
      "json",
      "--allow",
      "Bash",
      "--allow",
      "Read(src/**)",
    ]);
    await machine.held();
    const answer = await machine.run(["allow", "1", "Write(new*)", "--json"]);
    expect(JSON.parse(answer.stdout)).toMatchObject({
      pid: 1,
      allowed_tools: ["Bash", "Read(src/**)", "Write(new*)"],
      denied_tools: [],
    });
    machine.write("go", "");
    const receipt = receiptOf(await run.done);
    expect(receipt).toMatchObject({ exit_code: 0, result: "written" });
    expect(machine.read("new")).toBe("x");
    expect(toolNames(model.first)).toEqual(["Bash", "Read"]);
    expect(toolNames(model.last)).toEqual(["Bash", "Read", "Write"]);
    const trace = (await machine.run(["strace", "1", "--json"])).stdout;
    expect(trace).toMatch(/"CapGrant","args":\{"pid":1,"rules":\["Write\(new\*\)"\],"by":0\}/);
    expect(trace).toMatch(/"tool":"Write","rule":"Write\(new\*\)"/);
  });

  test("names what it can't do, and for which run", async () => {
    await using machine = await Machine.playing({ "do it": [bash(HOLD), says("done")] });
    const run = machine.start(["spawn", "do it", "-q"]);
    await machine.held();
    const refused: [string[], number, RegExp][] = [
      [["allow", "1", "Bsh"], 64, /no tool "Bsh"\. Did you mean "Bash"\?/],
      [["deny", "1", "Bash("], 64, /expected a pattern like Bash\(git \*\)/],
      [["allow", "7", "Bash"], 64, /No process with PID 7/],
      [["allow", "1"], 64, /TOOL is missing/],
    ];
    for (const [args, code, message] of refused) {
      const answer = await machine.run(args);
      expect([args, answer.code]).toEqual([args, code]);
      expect(answer.stderr).toMatch(message);
    }
    machine.write("go", "");
    await run.done;
    const late = await machine.run(["deny", "1", "Bash"]);
    expect(late).toMatchObject({ code: 64, stderr: expect.stringContaining("PID 1 has ended (completed)") });
  });

  test("can't be used by a run to get more rights", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "do it": [bash(`${RNIX} allow 1 Write; ${RNIX} deny 1 Read; echo over`), says("done")],
    });
    const run = await machine.run(["spawn", "do it", "--output", "json", "--allow", "Bash"]);
    const receipt = receiptOf(run);
    expect(
      model.requests
        .flatMap(toolResults)
        .at(-1)
        ?.match(/refused inside a run/g),
    ).toHaveLength(2);
    expect(recordOf(machine, receipt.uuid).permissions).toEqual({
      allow: [["Bash"]],
      deny: [],
      ask: ["CronCreate"],
      fixed: true,
    });
  });
});
