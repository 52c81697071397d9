import { describe, expect, test } from "bun:test";
import { renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import { mcpJson, mcpServer } from "./support/mcp.ts";
import { systemPrompt, toolResults } from "./support/requests.ts";
import { bash, calls, type Scene, says } from "./support/scenes.ts";
import { receiptOf, recordOf } from "./support/verdict.ts";

const HOLD = bash("touch held; sleep 600");
const AGENT = `name: worker
description: Works
allowed_tools: [Bash, Read, Skill]
deferred_skills: [tidy]
max_steps: 7
`;

/** A run of the project's own agent, suspended in its first tool call. */
async function heldRun(machine: Machine, after: Scene[], args: string[] = []) {
  machine.agent("worker", AGENT, "You are the worker.");
  machine.write("skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies\n---\nTidy up.");
  await machine.ok(["trust", "--yes"]);
  const model = await machine.play({ work: [HOLD, ...after] });
  const run = machine.start(["spawn", "work", "--agent", "worker", "--output", "json", ...args], {
    env: { HAD: "then", BOTH: "then" },
  });
  await until(() => machine.has("held") || machine.has("sub/held"));
  return { run, model };
}

async function suspended(machine: Machine, run: { done: Promise<{ stdout: string }> }): Promise<string> {
  await machine.ok(["suspend", "1"]);
  return receiptOf(await run.done).uuid;
}

describe("a run that another daemon resumes from another folder", () => {
  test("has its project, folder, agent, skills, environment, rights, limits and checks", async () => {
    await using machine = new Machine({ git: true });
    const sub = join(machine.project, "sub");
    machine.write("sub/here", "");
    const look = calls(
      ["Bash", { command: 'pwd; echo "K=$K HAD=$HAD BOTH=$BOTH NEW=$NEW"' }],
      ["Skill", { skill: "tidy" }],
      ["Read", { path: "here" }],
      ["Write", { path: "x", content: "y" }],
    );
    const { run, model } = await heldRun(
      machine,
      [look, says("done")],
      [...["--cwd", sub, "--env", "K=v", "--check", "test -e here && touch ../checked", "--budget", "50000"]],
    );
    await machine.ok(["deny", "1", "Read"]);
    await machine.ok(["allow", "1", "Grep"]);
    const uuid = await suspended(machine, run);
    const before = recordOf(machine, uuid);
    await machine.run(["daemon", "stop"]);

    const resumed = await machine.run(["resume", uuid, "--output", "json"], {
      cwd: machine.elsewhere,
      env: { BOTH: "now", NEW: "now" },
    });
    expect(receiptOf(resumed)).toMatchObject({ exit_code: 0, agent: "worker" });
    expect(resumed.stderr).toContain("variables that it had and are not in this environment: HAD");
    expect(machine.has("checked")).toBe(true);
    const [, bash, skill, read, write] = toolResults(model.last);
    expect(bash).toBe(`${sub}\nK=v HAD= BOTH=now NEW=`);
    expect(skill).toContain("Tidy up.");
    expect(read).toContain("deny rule Read");
    expect(write).toContain("There is no tool");
    const after = recordOf(machine, uuid);
    for (const key of [
      "project",
      "cwd",
      "agent",
      "provider",
      "model",
      "max_steps",
      "context_budget",
    ] as const)
      expect([key, after[key]]).toEqual([key, before[key]]);
    expect(after.permissions).toEqual(before.permissions);
    expect(before.permissions).toMatchObject({ allow: [expect.arrayContaining(["Grep"])], deny: ["Read"] });
    expect(after.env).toEqual(before.env);
    expect(systemPrompt(model.last)).toBe(systemPrompt(model.first));
  });
});

test("a resumed run has its MCP server, or the model is notified of what is missing", async () => {
  await using machine = new Machine();
  machine.write(
    ".rnix/agents/keeper/agent.yaml",
    "name: keeper\ndescription: Keeps\nallowed_tools: []\nmcp: [notes]\n",
  );
  machine.write(".rnix/agents/keeper/instructions.md", "Keep the notes.\n");
  mcpJson(machine, { notes: mcpServer([], { TOKEN: "$" + "{NOTES_TOKEN}" }) });
  const echo = (text: string) => calls(["mcp__notes__echo", { text }]);
  const model = await machine.play({
    "keep it": [
      echo("milk"),
      says("kept"),
      echo("bread"),
      says("both"),
      echo("salt"),
      says("all"),
      says("alone"),
    ],
  });
  await machine.ok(["trust", "--yes"]);
  const env = { NOTES_TOKEN: "t0p" };
  const first = await machine.run(["spawn", "keep it", "--agent", "keeper", "--output", "json"], { env });
  const { uuid } = receiptOf(first);
  const unset = await machine.run(["resume", uuid, "and bread"]);
  expect(unset.code).toBe(64);
  expect(unset.stderr).toContain("the variable NOTES_TOKEN is not set");
  expect(await machine.run(["resume", uuid, "and bread"], { env })).toMatchObject({
    code: 0,
    stdout: "both\n",
  });
  const results = ['{"text":"milk"}', '{"text":"bread"}'];
  expect(toolResults(model.last)).toEqual(results);
  // Whatever the agent's file contains now.
  machine.write(
    ".rnix/agents/keeper/agent.yaml",
    "name: keeper\ndescription: Keeps\nallowed_tools: []\nmcp: []\n",
  );
  const still = await machine.run(["resume", uuid, "and salt", "--trust"], { env });
  expect(still).toMatchObject({ code: 0, stdout: "all\n" });
  expect(toolResults(model.last)).toEqual([...results, '{"text":"salt"}']);
  mcpJson(machine, {});
  const without = await machine.run(["resume", uuid, "alone", "--trust"], { env });
  expect(without).toMatchObject({ code: 0, stdout: "alone\n" });
  expect(without.stderr).toContain("MCP server notes, which the run had");
});

describe("rnix resume names what has changed:", () => {
  test("the agent is deleted: the run resumes as it was, and a fork is refused", async () => {
    await using machine = new Machine();
    const { run, model } = await heldRun(machine, [says("done")]);
    const uuid = await suspended(machine, run);
    machine.remove("agents");
    const forked = await machine.run(["resume", uuid, "--fork"]);
    expect(forked.code).toBe(64);
    expect(forked.stderr).toContain("The agent worker");
    const { code, stderr } = await machine.run(["resume", uuid]);
    expect(code).toBe(0);
    expect(stderr).toContain("the agent worker no longer exists");
    expect(systemPrompt(model.last)).toContain("You are the worker.");
  });

  test("the provider or the folder is missing: the resume is refused, the record unchanged; a moved project resumes", async () => {
    await using machine = new Machine({ git: true });
    const sub = join(machine.project, "sub");
    machine.write("sub/here", "");
    const { run } = await heldRun(machine, [says("done")], ["--cwd", sub]);
    const uuid = await suspended(machine, run);
    const before = recordOf(machine, uuid);
    const refused = async (why: string, env: Record<string, string | undefined> = {}, code = 64) => {
      const done = await machine.run(["resume", uuid], { cwd: machine.project, env });
      expect(done.stderr).toContain(why);
      expect(done.code).toBe(code);
    };
    await refused("OPENAI_API_KEY", { OPENAI_API_KEY: undefined }, 69);
    renameSync(sub, `${sub}-away`);
    await refused(`${sub}, no longer exists`);
    renameSync(`${sub}-away`, sub);
    expect(recordOf(machine, uuid)).toEqual(before);
    // The folder with all its records is somewhere else now.
    const moved = join(machine.root, "moved");
    await machine.run(["daemon", "stop"]);
    renameSync(machine.project, moved);
    const done = await machine.run(["resume", uuid], { cwd: moved });
    expect(done).toMatchObject({
      code: 0,
      stderr: expect.stringContaining(`recorded in ${machine.project}, resumed in ${moved}`),
    });
    renameSync(moved, machine.project);
  });

  test("a plugin has changed, and another is deleted with its tool", async () => {
    await using machine = new Machine();
    const plugin = (name: string, answer: string): string =>
      machine.write(
        join(machine.configDir, "plugins", `${name}.ts`),
        `import { definePlugin } from "rnix/plugin";
export default definePlugin({
  name: "${name}",
  devices: {
    "/dev/${name}": {
      tools: [{ name: "${name[0]?.toUpperCase()}${name.slice(1)}", description: "Asks", input: { type: "object" } }],
      factory: () => ({
        async write() {},
        async read() { return ""; },
        async close() {},
        async stat() { return { name: "${answer}", size: 0, isDevice: true, devicePath: "/dev/${name}" }; },
      }),
    },
  },
});
`,
      );
    plugin("jira", "one");
    plugin("other", "one");
    const model = await machine.play({ work: [HOLD, calls(["Other", {}]), says("done")] });
    const run = machine.start(["spawn", "work", "--output", "json"]);
    await machine.held();
    const uuid = await suspended(machine, run);
    plugin("jira", "two");
    rmSync(join(machine.configDir, "plugins", "other.ts"));
    const { code, stderr } = await machine.run(["resume", uuid]);
    expect(code).toBe(0);
    expect(stderr).toContain("plugins that have changed since it ran: jira");
    expect(stderr).toContain("plugins that it had and are not loaded now: other");
    expect(stderr).toContain("tools that are no longer available: Other");
    expect(toolResults(model.last).at(-1)).toContain("Error");
  });
});

test("two daemons that resume one run at once: one gets it, the other's error names the owner", async () => {
  await using machine = new Machine();
  const { run } = await heldRun(machine, [HOLD, says("done")]);
  const uuid = await suspended(machine, run);
  machine.remove("held");
  const second = { RNIX_SOCKET: join(machine.root, "run", "second.sock") };
  await machine.ok(["daemon", "start"], { env: second });
  try {
    const tries = [{}, second].map((env) => machine.start(["resume", uuid, "--detach"], { env }));
    const done = await Promise.all(tries.map((one) => one.done));
    expect(done.map(({ code }) => code).toSorted()).toEqual([0, 64]);
    const refusal = done.find(({ code }) => code === 64)?.stderr;
    expect(refusal).toMatch(
      /being resumed by another \(rnix in process \d+\)|is alive as PID \d+ of another rnix/,
    );
    const winner = done[0]?.code === 0 ? {} : second;
    await until(() => machine.has("held"), "its second call");
    await machine.ok(["suspend", uuid], { env: winner });
    await machine.ok(["resume", uuid], { env: winner === second ? {} : second });
  } finally {
    await machine.run(["daemon", "stop"], { env: second });
  }
});
