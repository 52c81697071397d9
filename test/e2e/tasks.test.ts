import { describe, expect, test } from "bun:test";
import { until } from "../support/until.ts";
import { binary } from "./support/binary.ts";
import { Machine } from "./support/machine.ts";
import { firstUserMessage, toolResults } from "./support/requests.ts";
import { bash, calls, type Scene, says } from "./support/scenes.ts";
import { Receipt, receiptOf, recordOf, verdict } from "./support/verdict.ts";

const create = (subject: string, more: object = {}): [string, Record<string, unknown>] => [
  "TaskCreate",
  { subject, ...more },
];
const update = (id: number, status: string): [string, Record<string, unknown>] => [
  "TaskUpdate",
  { id, status },
];
const list: [string, Record<string, unknown>] = ["TaskList", {}];

interface Row {
  id: number;
  subject: string;
  status: string;
  owner: string | null;
  blocked_by: number[];
}

async function tasks(machine: Machine, ...of: string[]): Promise<Row[]> {
  const { stdout, stderr, code } = await machine.run(["tasks", ...of, "--json"]);
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}

describe.concurrent("the task list of a run", () => {
  test("is created, linked, updated, shown by rnix tasks of the ended run, and in its log", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "do it": [
        calls(
          create("write it"),
          create("test it", { blocked_by: [1] }),
          create("ship it", { blocked_by: [2] }),
        ),
        calls(update(1, "in_progress"), ["TaskUpdate", { id: 1, add_blocked_by: [3] }]),
        calls(update(1, "completed"), list),
        says("done"),
      ],
    });
    const { receipt } = await verdict(machine, ["do it"]);
    expect(receipt.exit_code).toBe(0);
    const heard = model.requests.flatMap(toolResults).join("\n");
    expect(heard).toContain("Created: [ ] 2 test it  (blocked by 1)");
    expect(heard).toContain("would be a cycle, 1 waits for 3 waits for 2 waits for 1");
    expect(heard).toContain(
      "3 tasks: 1 completed, 2 pending\n[x] 1 write it  (default)\n[ ] 2 test it\n[ ] 3 ship it  (blocked by 2)",
    );
    const { stdout, stderr } = await machine.run(["tasks"]);
    expect(stderr).toContain(receipt.uuid);
    expect(stdout.split("\n").map((line) => line.trimEnd())).toEqual([
      expect.stringMatching(/^ID +STATUS +OWNER +WAITS FOR +CHANGED +TASK$/),
      expect.stringMatching(/^1 +completed +default .* write it$/),
      expect.stringMatching(/^2 +pending .* test it$/),
      expect.stringMatching(/^3 +pending +\S* +2 .* ship it$/),
      "",
    ]);
    expect(await tasks(machine, receipt.uuid.slice(0, 13))).toMatchObject([
      { id: 1, status: "completed", owner: "default" },
      { id: 2, blocked_by: [1] },
      { id: 3, blocked_by: [2] },
    ]);
    const log = (await machine.run(["log", "1"])).stdout;
    expect(log).toContain("TaskCreate test it");
    expect(log).toContain("TaskUpdate 1 status=in_progress");
  });

  test("is shared with sub-agents that work at once, and none of their changes is lost", async () => {
    await using machine = new Machine();
    const agents = ["one", "two", "three", "four"];
    const own = (name: string): Scene[] => [
      calls(...Array.from({ length: 5 }, (_, i) => create(`${name} ${i}`))),
      says(`${name} done`),
    ];
    await machine.play({
      parent: [
        calls(create("first")),
        calls(...agents.map((intent): [string, Record<string, unknown>] => ["Agent", { intent }])),
        calls(list),
        says("done"),
      ],
      ...Object.fromEntries(agents.map((name) => [name, own(name)])),
    });
    const { receipt } = await verdict(machine, ["parent"]);
    const all = await tasks(machine, receipt.uuid);
    expect(new Set(all.map(({ id }) => id)).size).toBe(21);
    expect(all.map(({ subject }) => subject).sort()).toEqual(
      ["first", ...agents.flatMap((name) => [0, 1, 2, 3, 4].map((i) => `${name} ${i}`))].sort(),
    );
    // The list of a sub-agent is that of its tree.
    expect(await tasks(machine, "2")).toHaveLength(21);
    expect((await machine.run(["tasks", "77"])).code).toBe(64);
    // So is the copy that its fork gets.
    const fork = await machine.run(["resume", "2", "--fork", "and now?", "--output", "json"]);
    expect(await tasks(machine, receiptOf(fork).uuid)).toHaveLength(21);
  });

  test("is there after kill -9 and a resume; a fork has a copy of its own", async () => {
    await using machine = new Machine();
    const turns = [
      calls(create("a")),
      calls(create("b")),
      calls(["AskUser", { questions: [{ question: "Which?" }] }]),
      calls(update(1, "completed"), create("c")),
    ];
    await machine.model(({ assistantMessages: at }) => turns[at] ?? says("done"));
    const { stdout } = await machine.run(["spawn", "do it", "--on-ask", "park", "--output", "json"]);
    const { uuid } = Receipt.parse(JSON.parse(stdout));
    machine.killDaemon();
    expect((await tasks(machine, uuid)).map(({ subject }) => subject)).toEqual(["a", "b"]);
    const [ask] = await machine.json(["asks", "--json"]);
    const forked = await machine.run([
      "resume",
      uuid,
      "--fork",
      "--from-step",
      "2",
      "--on-ask",
      "deny",
      "--output",
      "json",
    ]);
    const fork = receiptOf(forked);
    expect((await tasks(machine, fork.uuid)).map(({ subject, status }) => [subject, status])).toEqual([
      ["a", "completed"],
      ["b", "pending"],
      ["c", "pending"],
    ]);
    expect((await tasks(machine, uuid)).map(({ status }) => status)).toEqual(["pending", "pending"]);
    await machine.ok(["answer", ask.request_id, "this one"]);
    await until(() => recordOf(machine, uuid).exit_reason === "completed", "the end");
    expect((await tasks(machine, uuid)).map(({ status }) => status)).toEqual([
      "completed",
      "pending",
      "pending",
    ]);
  });

  test("stays that of its tree for a sub-agent that is resumed alone", async () => {
    await using machine = new Machine();
    const childTurns = [calls(create("of child")), says("c"), calls(create("more")), says("done")];
    const parentTurns = [calls(create("of parent")), calls(["Agent", { intent: "child" }]), says("done")];
    await machine.model((request) => {
      const turns = firstUserMessage(request).startsWith("child") ? childTurns : parentTurns;
      return turns[request.assistantMessages] ?? says("done");
    });
    const { receipt } = await verdict(machine, ["do it"]);
    await machine.ok(["resume", "2", "go on"]);
    for (const of of [receipt.uuid, "2"])
      expect((await tasks(machine, of)).map(({ subject }) => subject)).toEqual([
        "of parent",
        "of child",
        "more",
      ]);
  });

  test("has each task once, whenever the daemon is killed while sub-agents create them", async () => {
    const agents = ["one", "two", "three"];
    await using machine = new Machine();
    await machine.model((request) => {
      const at = request.assistantMessages;
      const name = agents.find((one) => firstUserMessage(request).startsWith(one));
      if (name === undefined) {
        const children = agents.map((intent): [string, Record<string, unknown>] => ["Agent", { intent }]);
        return at === 0 ? calls(...children) : says("done");
      }
      return at < 3 ? calls(create(`${name} ${at}a`), create(`${name} ${at}b`)) : says("done");
    });
    const { stdout } = await machine.run(["spawn", "parent", "--detach"]);
    const uuid = stdout.trim().split(" ")[1] ?? "";
    await until(async () => (await tasks(machine, uuid)).length >= 1, "some tasks");
    machine.killDaemon();
    const before = await tasks(machine, uuid);
    const resumed = await machine.run(["resume", uuid, "--output", "json"]);
    // It may have ended just before.
    if (resumed.code !== 64) expect(receiptOf(resumed).exit_code).toBe(0);
    const after = await tasks(machine, uuid);
    expect(after.map(({ subject }) => subject).sort()).toEqual(
      agents.flatMap((name) => [0, 1, 2].flatMap((at) => [`${name} ${at}a`, `${name} ${at}b`])).sort(),
    );
    expect(after.slice(0, before.length).map(({ id, subject }) => [id, subject])).toEqual(
      before.map(({ id, subject }) => [id, subject]),
    );
  });

  test("is its own inside a run, whose programs read it and name no other run", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      other: [calls(create("secret plan")), says("done")],
      "do it": [calls(create("a")), bash(`'${binary()}' tasks --json; '${binary()}' tasks 1`), says("done")],
    });
    await verdict(machine, ["other"]);
    await verdict(machine, ["do it"]);
    const said = model.requests.flatMap(toolResults).at(-1) ?? "";
    expect(said).toContain('"subject": "a"');
    expect(said).toContain("Inside a run, a call is about this run");
    expect(said).not.toContain("secret plan");
  });

  test("is a list above the status that updates, and goes with the last task", async () => {
    await using machine = await Machine.playing({
      "do it": [
        calls(create("write it"), create("test it")),
        calls(update(1, "in_progress"), ["Bash", { command: "until [ -e go ]; do sleep 0.05; done" }]),
        calls(update(1, "completed"), update(2, "completed"), [
          "Bash",
          { command: "until [ -e on ]; do sleep 0.05; done" },
        ]),
        says("done"),
      ],
    });
    await using terminal = machine.terminal(["spawn", "do it"], {
      columns: 80,
      rows: 24,
      env: { CI: undefined },
    });
    await terminal.until(/› write it {2}default\n {2}○ test it\n/);
    await using second = machine.terminal(["attach", "1"], { columns: 80, rows: 24, env: { CI: undefined } });
    await second.until(/› write it {2}default\n {2}○ test it\n/);
    machine.write("go", "");
    await terminal.until((text) => text.includes("-e on") && !text.includes("○ test it"));
    machine.write("on", "");
    expect((await terminal.done).code).toBe(0);
  });
});
