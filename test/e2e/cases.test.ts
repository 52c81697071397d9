import { describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync } from "node:fs";
import { Machine } from "./support/machine.ts";

const SCRIPT = `intent: make the test pass
responses:
  - tool_calls: [{ name: Bash, input: { command: sh test.sh } }]
  - tool_calls: [{ name: Edit, input: { path: total.sh, old_string: "-", new_string: "+" } }]
  - tool_calls: [{ name: Bash, input: { command: sh test.sh && rm old.txt }, expect: PASS }]
  - text: It adds now.
`;

/** A case that passes; `script` is added to its script. */
function addCase(machine: Machine, name: string, script = "", files: Record<string, string> = {}): void {
  const all = {
    "script.yaml": SCRIPT + script,
    "files/total.sh": "echo $((1 - 2))\n",
    "files/test.sh": "[ $(sh total.sh) = 3 ] && echo PASS || echo FAIL\n",
    "files/old.txt": "old\n",
    "expected/total.sh": "echo $((1 + 2))\n",
    ...files,
  };
  for (const [path, text] of Object.entries(all)) machine.write(`cases/${name}/${path}`, text);
}

async function play(machine: Machine, ...args: string[]) {
  const { code, stdout, stderr } = await machine.run(["test", "cases", ...args]);
  return { code, stdout, stderr };
}

describe("rnix test", () => {
  test("passes a case that ends as recorded, and leaves no run, folder or daemon", async () => {
    await using machine = new Machine();
    addCase(machine, "fix");
    addCase(machine, "deep/er", "outcome: { tool_calls: [Bash done, Edit, Bash], absent: [old.txt] }\n");
    const { code, stdout } = await play(machine);
    expect(stdout.replace(/\d+(\.\d+)?m?s$/gm, "TIME")).toBe(
      "ok deep/er  4 steps, 3 tool calls, TIME\nok fix  4 steps, 3 tool calls, TIME\n2 passed, 0 failed\n",
    );
    expect(code).toBe(0);
    expect(machine.read("cases/fix/files/total.sh")).toBe("echo $((1 - 2))\n");
    expect(machine.daemonPid).toBeNull();
    expect(readdirSync(machine.temp)).toEqual([]);
    expect(await machine.json(["ps", "-a", "--all-projects", "--json"])).toEqual([]);
  });

  test.each([
    ["the verdict", "outcome: { exit_code: 2 }\n", {}, "how it ended"],
    ["the answer", "outcome: { result: { contains: subtracts } }\n", {}, "the result"],
    ["the calls", "outcome: { tool_calls: [Bash, Edit failed, Bash] }\n", {}, "+ Edit done"],
    ["a call too many", "outcome: { tool_calls: [Bash, Edit] }\n", {}, "the tool calls"],
    ["a file's content", "", { "expected/total.sh": "echo 3\n" }, "total.sh has another content"],
    ["a missing file", "", { "expected/new.txt": "new\n" }, "new.txt is not there"],
    ["a file that stays", "outcome: { absent: [test.sh] }\n", {}, "files that must not be there"],
    ["a call's result", "", { "files/test.sh": "echo BROKEN\n" }, "PASS"],
  ])("fails where %s differs, and names it", async (_what, script, files: Record<string, string>, named) => {
    await using machine = new Machine();
    addCase(machine, "fix", script, files);
    const { code, stdout } = await play(machine);
    expect(stdout).toContain(named);
    expect(stdout).toEndWith("0 passed, 1 failed\n");
    expect(code).toBe(1);
  });

  test("uses the project's own agents: with all their rights under --trust, without it with a note", async () => {
    await using machine = new Machine();
    machine.write(
      "agents/fixer/agent.yaml",
      "name: fixer\ndescription: Fixes\nallowed_tools: [Bash, Edit]\n",
    );
    machine.write("agents/fixer/instructions.md", "Fix.\n");
    addCase(machine, "fix", "agent: fixer\noutcome: { tool_calls: [Bash done, Edit done, Bash done] }\n");
    expect(await play(machine, "--trust")).toMatchObject({ code: 0 });
    const { code, stdout } = await play(machine);
    expect(stdout).toContain("note: not trusted, so left out: tools Bash, Edit of the agent fixer");
    expect(code).toBe(1);
  });

  test("writes a JUnit report and JSON, and goes on after a case that can't be played", async () => {
    await using machine = new Machine();
    addCase(machine, "a-broken", "nonsense: 1\n");
    addCase(machine, "b-differs", "outcome: { exit_code: 1 }\n");
    addCase(machine, "c-passes");
    const { code, stdout } = await play(machine, "--json", "--junit", "report.xml", "--jobs", "1");
    expect(code).toBe(1);
    const results: { name: string; passed: boolean }[] = JSON.parse(stdout);
    expect(results.map(({ name, passed }) => [name, passed])).toEqual([
      ["a-broken", false],
      ["b-differs", false],
      ["c-passes", true],
    ]);
    const report = machine.read("report.xml");
    expect(report).toContain('<testsuite name="rnix test" tests="3"');
    expect(report).toContain('<testcase name="c-passes"');
    expect(report).toContain("how it ended");
  });

  test("plays the cases of --filter alone, keeps their folders with --keep, and refuses an empty choice", async () => {
    await using machine = new Machine();
    addCase(machine, "one");
    addCase(machine, "two");
    const kept = await play(machine, "--filter", "tw", "--keep");
    expect(kept.stdout).toMatch(/two .*\n {2}\/.*rnix-case-.*\n1 passed, 0 failed\n$/);
    const folder = kept.stdout.split("\n")[1]?.trim() ?? "";
    expect(machine.read(`${folder}/total.sh`)).toBe("echo $((1 + 2))\n");
    machine.remove(folder);
    expect(await play(machine, "--filter", "three")).toMatchObject({ code: 64 });
    mkdirSync(`${machine.project}/none`);
    expect(await machine.run(["test", "none"])).toMatchObject({ code: 64 });
  });
});
