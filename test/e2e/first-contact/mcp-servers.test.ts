import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { until } from "../../support/until.ts";
import { Machine } from "../support/machine.ts";
import { MCP_COMMAND, mcpJson } from "../support/mcp.ts";
import { toolNames, toolResults } from "../support/requests.ts";
import { calls, says } from "../support/scenes.ts";
import { verdict } from "../support/verdict.ts";

/** The command line of a shell that runs a command, then becomes the server. */
function server(first: string, behaviour = ""): { command: string; args: string[] } {
  return { command: "sh", args: ["-c", `${first}; exec ${MCP_COMMAND} ${behaviour}`] };
}

function skill(machine: Machine, dir: string, name: string, more = ""): void {
  machine.write(
    `${dir}/${name}/SKILL.md`,
    `---\nname: ${name}\ndescription: For ${name}\n---\nDo ${name}.${more}\n`,
  );
}

const started = (machine: Machine): boolean => machine.has("started");

describe("what a project brings", () => {
  for (const way of [[], ["--no-daemon"]]) {
    test(`is offered by the stock agent once it is trusted, and named in one note before ${way.join()}`, async () => {
      await using machine = new Machine();
      const model = await machine.play({
        "try it": [
          calls(["mcp__notes__echo", { text: "milk" }], ["Skill", { skill: "baking" }]),
          says("done"),
        ],
      });
      mcpJson(machine, { notes: server("touch started"), web: server("touch started") });
      skill(machine, ".claude/skills", "baking");
      skill(machine, "skills", "frying");
      machine.write("skills/frying/scripts/fry.sh", "true\n");
      skill(machine, join(machine.configDir, "skills"), "cooking");

      const before = await verdict(machine, ["try it", ...way]);
      expect(before.receipt.exit_code).toBe(0);
      const notes = before.stderr.split("\n").filter((line) => line.startsWith("note: "));
      expect(notes).toHaveLength(1);
      expect(notes[0]).toContain("not trusted, so left out: ");
      expect(notes[0]).toContain("the skill frying with its scripts");
      expect(notes[0]).toContain(`the MCP servers notes, web of ${join(machine.project, ".mcp.json")}`);
      expect(started(machine)).toBe(false);
      expect(toolNames(model.first).join()).not.toContain("mcp__");
      expect(toolResults(model.requests[1] ?? expect.unreachable())[1]).toContain("Do baking.");

      await machine.run(["trust", "--yes"]);
      const after = await verdict(machine, ["try it", ...way]);
      expect(after.stderr).not.toContain("not trusted");
      const first = model.requests[2] ?? expect.unreachable();
      expect(toolNames(first)).toEqual(expect.arrayContaining(["ToolSearch", "Bash"]));
      expect(first.text).toMatch(/mcp__notes__\* mcp__web__\*|"mcp__notes__echo"/);
      for (const name of ["baking", "frying", "cooking", "testing"])
        expect(first.text).toContain(`- ${name}: `);
      expect(toolResults(model.requests[3] ?? expect.unreachable())).toEqual([
        '{"text":"milk"}',
        expect.stringContaining("Do baking."),
      ]);
      expect(machine.strays()).toEqual([]);
    });
  }

  test("is narrowed by --allow and --deny: a server that the run may not use is not started", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "say so": [says("so")] });
    mcpJson(machine, { notes: server("touch started") });
    await machine.run(["trust", "--yes"]);
    for (const flags of [
      ["--deny", "mcp__notes__*"],
      ["--deny", "mcp__*"],
      ["--allow", "Read"],
    ]) {
      const { receipt } = await verdict(machine, ["say so", ...flags]);
      expect(receipt.exit_code).toBe(0);
      expect(started(machine)).toBe(false);
      expect(toolNames(model.last).join()).not.toContain("mcp__");
    }
    const named = await verdict(machine, ["say so", "--allow", "Read", "--allow", "mcp__notes__echo"]);
    expect(named.receipt.exit_code).toBe(0);
    expect(toolNames(model.last)).toEqual(["Read", "mcp__notes__echo"]);
  });

  test("is added by --mcp and --skill to an agent that does not name it", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "say so": [says("so")] });
    mcpJson(machine, { notes: server("true") });
    skill(machine, ".claude/skills", "baking");
    const args = ["say so", "--agent", "code-analyst"];
    const waits = await machine.run(["spawn", ...args, "--mcp", "notes"]);
    expect([waits.code, waits.stderr]).toEqual([64, expect.stringContaining("is not trusted")]);
    expect(model.requests).toEqual([]);
    await machine.run(["trust", "--yes"]);
    const { receipt } = await verdict(machine, [...args, "--mcp", "notes", "--skill", "baking"]);
    expect(receipt.exit_code).toBe(0);
    const request = model.last;
    expect(toolNames(request)).toEqual(expect.arrayContaining(["Read", "mcp__notes__echo"]));
    expect(request.text).toContain("# Skill: baking");
    for (const [flag, name, near] of [
      ["--mcp", "note", 'Did you mean "notes"?'],
      ["--skill", "bakin", 'Did you mean "baking"?'],
    ]) {
      const wrong = await machine.run(["spawn", ...args, `${flag}`, `${name}`]);
      expect([wrong.code, wrong.stderr]).toEqual([64, expect.stringContaining(`${near}`)]);
      expect(wrong.stderr).toContain(`${flag}: `);
    }
  });

  test("is started again for a resumed run, with the same tools", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "say so": [says("so"), calls(["mcp__notes__echo", { text: "again" }]), says("again")],
    });
    mcpJson(machine, { notes: server("true") });
    await machine.run(["trust", "--yes"]);
    const { receipt } = await verdict(machine, ["say so"]);
    mcpJson(machine, { notes: server("true"), late: server("touch started") });
    await machine.run(["trust", "--yes"]);
    const resumed = await machine.run(["resume", receipt.uuid, "and now?"]);
    expect(resumed.code).toBe(0);
    const [first, second, third] = model.requests;
    expect(toolNames(second ?? expect.unreachable())).toEqual(toolNames(first ?? expect.unreachable()));
    expect(toolResults(third ?? expect.unreachable()).at(-1)).toBe('{"text":"again"}');
    expect(started(machine)).toBe(false);
  });

  test("is listed by rnix tools --agent, which starts the servers for that", async () => {
    await using machine = new Machine();
    mcpJson(machine, { notes: server("true"), broken: server("echo no token >&2", "exit") });
    const before = await machine.run(["tools", "--agent", "default"]);
    expect(before.stdout).not.toContain("mcp__");
    expect(before.stderr).toContain("the MCP servers notes, broken of");
    await machine.run(["trust", "--yes"]);
    const { stdout, stderr } = await machine.run(["tools", "--agent", "default"]);
    expect(stdout).toMatch(/mcp__notes__echo +yes +start +\/mnt\/mcp\/notes\/tools\/echo +mcp/);
    expect(stderr).toContain("mcp broken: MCP server broken ended with exit code 1");
    const analyst = await machine.run(["tools", "--agent", "code-analyst"]);
    expect(analyst.stdout).not.toContain("mcp__");
    expect(machine.strays()).toEqual([]);
  });
});

describe.concurrent("an MCP server that is slow to start", () => {
  test("is named on the screen; the first model call waits for it where it is required", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "say so": [says("so")] });
    mcpJson(machine, { notes: server("sleep 2") });
    await machine.run(["trust", "--yes"]);
    const { receipt, stderr } = await verdict(machine, ["say so", "--mcp", "notes"]);
    expect(receipt.exit_code).toBe(0);
    expect(stderr).toContain("starting notes …");
    expect(stderr).toMatch(/notes ready after \d+s/);
    expect(toolNames(model.first)).toContain("mcp__notes__echo");
  });

  for (const way of [[], ["--no-daemon"]]) {
    test(`that is not required delays no run; its tools come when the model wants them ${way.join()}`, async () => {
      await using machine = new Machine();
      const model = await machine.play({
        "say so": [says("so")],
        "try it": [
          calls(["ToolSearch", { query: "mcp__notes__echo" }]),
          calls(["mcp__notes__echo", { text: "milk" }]),
          says("done"),
        ],
      });
      mcpJson(machine, { notes: server("while [ ! -e go ]; do sleep 0.1; done") });
      await machine.run(["trust", "--yes"]);
      const { stdout, stderr } = await machine.run(["spawn", "say so", ...way]);
      expect(stdout).toContain("so");
      expect(stderr).not.toContain("notes");
      const running = machine.start(["spawn", "try it", ...way]);
      await until(() => model.requests.length === 2);
      expect(model.last.text).toContain("mcp__notes__*");
      machine.write("go", "");
      expect((await running.done).code).toBe(0);
      expect(toolResults(model.last)).toEqual([
        "Loaded: mcp__notes__echo. You can call them now.",
        '{"text":"milk"}',
      ]);
      expect(toolNames(model.last)).toContain("mcp__notes__echo");
      // The daemon has kept it for the next run.
      await machine.run(["spawn", "say so", ...way]);
      expect(toolNames(model.last).includes("mcp__notes__echo")).toBe(way.length === 0);
    });
  }

  test("and does not start ends with exit 69 where it is required, with its last output and both settings", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "say so": [says("so")],
      "look for it": [calls(["ToolSearch", { query: "mcp__*" }]), says("none")],
    });
    mcpJson(machine, {
      // Only of this one: on a busy machine the others may need longer to end.
      stuck: {
        command: "sh",
        args: ["-c", "echo downloading the world >&2; exec sleep 600"],
        mount_timeout: "2s",
      },
      broken: server("echo no token >&2", "exit"),
      none: { command: "no-such-program-here" },
      silent: { command: "true" },
    });
    await machine.run(["trust", "--yes"]);
    for (const [name, words] of [
      [
        "stuck",
        /did not answer within 2 s. Raise its mount_timeout, or mcp_mount_timeout for all.*It said: downloading the world/s,
      ],
      ["broken", /no token: set TEST_TOKEN(?:\. It runs in the sandbox|\s*$)/],
      ["none", /no-such-program-here/],
      ["silent", /MCP server silent ended with exit code 0/],
    ] as const) {
      // The daemon would go on starting them after the run.
      const others = ["stuck", "broken", "none", "silent"]
        .filter((other) => other !== name)
        .flatMap((other) => ["--deny", `mcp__${other}__*`]);
      const { receipt } = await verdict(machine, ["say so", "--mcp", name, ...others]);
      expect(receipt).toMatchObject({ exit_code: 69, exit_reason: "unavailable", steps: 0, tokens_used: 0 });
      expect(receipt.error?.message).toMatch(words);
    }
    expect(model.requests).toEqual([]);
    const offered = await verdict(machine, ["look for it"]);
    expect(offered.receipt.exit_code).toBe(0);
    for (const words of ["downloading the world", "no token", "no-such-program-here"]) {
      expect(offered.stderr).toContain(words);
      expect(toolResults(model.last).join()).toContain(words);
    }
    expect(machine.strays()).toEqual([]);
  });
});

test("a broken .mcp.json is reported as a JSON error, and the stock agent runs without it", async () => {
  await using machine = await Machine.playing({ "say so": [says("so")] });
  machine.write(".mcp.json", '{\n  "mcpServers": {\n    "a": {"command": "c"}\n    "b": {}\n  }\n}\n');
  const { receipt, stderr } = await verdict(machine, ["say so"]);
  expect(receipt.exit_code).toBe(0);
  expect(stderr).toContain(
    `${join(machine.project, ".mcp.json")}:4:5: expected JSON: expected "," or "}", found`,
  );
  const named = await machine.run(["spawn", "say so", "--mcp", "a"]);
  expect([named.code, named.stderr]).toEqual([64, expect.stringContaining(".mcp.json:4:5: expected JSON")]);
});
