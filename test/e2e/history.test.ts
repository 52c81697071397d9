import { describe, expect, test } from "bun:test";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { Machine } from "./support/machine.ts";
import { bash, says } from "./support/scenes.ts";
import { recordOf } from "./support/verdict.ts";
import { RawClient } from "./support/wire.ts";

const BEGIN = { text: "I begin.", ...bash("echo begun") };
const MANY = bash("seq 8000");

/** A run that has done two steps, the second with a long result, and is in its third. */
class Story implements AsyncDisposable {
  readonly machine = new Machine();
  readonly #held = Promise.withResolvers<void>();
  uuid = "";
  pid = 0;

  async begin(): Promise<void> {
    const end = async () => {
      await this.#held.promise;
      return says("It is done.");
    };
    const model = await this.machine.play({ "tell it": [BEGIN, MANY, end] });
    const { stdout } = await this.machine.run(["spawn", "tell it", "--detach"]);
    const [pid = "", uuid = ""] = stdout.trim().split(" ");
    Object.assign(this, { pid: Number(pid), uuid });
    await model.arrived(3);
  }

  async end(): Promise<void> {
    this.#held.resolve();
    expect((await this.machine.run(["wait", this.uuid])).stdout).toBe("It is done.\n");
  }

  file(name: string): string {
    return join(this.machine.project, ".rnix/data/steps", this.uuid, name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#held.resolve();
    await this.machine[Symbol.asyncDispose]();
  }
}

/** How a run gets into the state that is tested. */
const STATES: Record<string, { come(story: Story): Promise<void>; is: string; steps: number }> = {
  live: { come: async () => undefined, is: "running", steps: 2 },
  ended: { come: (story) => story.end(), is: "dead", steps: 3 },
  suspended: {
    come: async ({ machine, uuid }) => {
      await machine.ok(["suspend", uuid]);
    },
    is: "suspended",
    steps: 2,
  },
  "ended, with another daemon": {
    come: async (story) => {
      await story.end();
      await story.machine.run(["daemon", "stop"]);
    },
    is: "dead",
    steps: 3,
  },
  crashed: {
    come: async ({ machine }) => {
      machine.killDaemon();
      await machine.until(["daemon", "status", "--json"], /"running":false/);
    },
    is: "suspended",
    steps: 2,
  },
};

const Steps = z.array(z.object({ step: z.number(), summary: z.string() }));

describe.each(Object.entries(STATES))("a run that is %s", (_name, { come, is, steps }) => {
  test("is listed, shown and traced like any other", async () => {
    await using story = new Story();
    await story.begin();
    await come(story);
    const { machine, uuid, pid } = story;
    const run = async (...args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await machine.run(args);
      expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: "" });
      return stdout;
    };

    expect(JSON.parse(await run("ps", "-a", "--json"))).toMatchObject([{ uuid, pid, state: is }]);
    expect(JSON.parse(await run("show", uuid, "--json"))).toMatchObject({ uuid, state: is });
    expect(await run("log", uuid)).toMatch(/I begin\.[\s\S]*begun[\s\S]*seq 8000/);
    const listed = Steps.parse(JSON.parse(await run("steps", String(pid), "--json")));
    expect(listed.map(({ step }) => step)).toEqual(Array.from({ length: steps }, (_, i) => i + 1));
    const detail = await run("steps", uuid, "2");
    expect(detail.includes("/results/")).toBeTrue();
    if (is !== "running") expect(await run("strace", uuid, "--json")).toContain('"Open"');

    const wire = await RawClient.connect(machine.socket);
    const page = await wire.ask("list_steps", { uuid, after: 1, limit: 1 });
    expect(page.payload).toMatchObject({ steps: [{ step: 2 }], parse_errors: 0, damaged: [] });
    expect((await wire.ask("get_step_detail", { pid, step: 2, cwd: machine.project })).payload).toMatchObject(
      {
        uuid,
        tool_calls: [{ name: "Bash", state: "done" }],
        kept_results: [],
      },
    );
    const first = await wire.ask("list_events", { uuid, limit: 3 });
    const Events = z.object({ events: z.array(z.object({ syscall: z.string() })), next: z.number() });
    const { events, next } = Events.parse(first.payload);
    expect(events).toHaveLength(3);
    const rest = Events.parse((await wire.ask("list_events", { uuid, after: next })).payload);
    expect(rest.events.length).toBeGreaterThan(5);
    expect(rest.events.map(({ syscall }) => syscall)).toContain("Open");
    wire.end();
  });
});

test("damaged lines are left out, and named by file and line wherever the run is read", async () => {
  await using story = new Story();
  await story.begin();
  await story.end();
  const { machine, uuid } = story;
  for (const name of ["steps.jsonl", "events.jsonl"]) {
    const lines = readFileSync(story.file(name), "utf8").split("\n");
    lines[1] = `${lines[1]?.slice(0, 40)}`;
    writeFileSync(story.file(name), lines.join("\n"));
  }
  const left = (name: string): string => `${story.file(name)}: line 2 is damaged and left out\n`;
  for (const [command, name] of [
    ["steps", "steps.jsonl"],
    ["log", "steps.jsonl"],
    ["strace", "events.jsonl"],
  ] as const) {
    const { code, stderr, stdout } = await machine.run([command, uuid]);
    expect({ command, code, stderr }).toEqual({ command, code: 0, stderr: left(name) });
    expect(stdout).not.toBe("");
  }
  const wire = await RawClient.connect(machine.socket);
  expect((await wire.ask("list_events", { uuid })).payload).toMatchObject({
    parse_errors: 1,
    damaged: [{ file: story.file("events.jsonl"), count: 1, lines: [2], foreign: 0 }],
  });
  wire.end();
});

test("a run whose record is damaged is an error that names the file, and hides no other", async () => {
  await using story = new Story();
  await story.begin();
  await story.end();
  const { machine, uuid } = story;
  await machine.run(["spawn", "tell it"]);
  writeFileSync(story.file("proc-info.json"), "");
  const list = await machine.run(["ps", "-a", "--json"]);
  expect(JSON.parse(list.stdout)).toHaveLength(1);
  expect(list.stderr).toContain(`proc-info.json of run ${uuid} is damaged`);
  for (const command of ["show", "log", "steps", "strace"]) {
    const { code, stderr } = await machine.run([command, uuid]);
    expect({ command, failed: code !== 0 }).toEqual({ command, failed: true });
    expect(stderr).toContain(`proc-info.json of run ${uuid} is damaged`);
  }
});

test("a crashed run whose steps can't be read is listed with the error, hides no other, and recovers once they can be read", async () => {
  await using story = new Story();
  await story.begin();
  const { machine, uuid } = story;
  const other = await machine.run(["spawn", "tell it", "--detach"]);
  const [, second = ""] = other.stdout.trim().split(" ");
  machine.killDaemon();
  const steps = readFileSync(story.file("steps.jsonl"));
  appendFileSync(story.file("steps.jsonl"), '{"v":9}\n');
  const list = await machine.run(["ps", "-a", "--json"]);
  expect(list.code).toBe(0);
  expect(JSON.parse(list.stdout)).toMatchObject([
    { uuid, state: "suspended", error: { message: expect.stringContaining("schema version 9") } },
    { uuid: second, state: "suspended" },
  ]);
  expect((await machine.run(["show", uuid])).stdout).toContain("schema version 9");
  const refused = await machine.run(["resume", uuid]);
  expect([refused.code, refused.stderr]).toEqual([64, expect.stringContaining("schema version 9")]);
  await machine.ok(["kill", second]);

  // The next daemon recovers it once its file can be read again.
  await machine.run(["daemon", "stop"]);
  writeFileSync(story.file("steps.jsonl"), steps);
  await machine.ok(["daemon", "start"]);
  await machine.until(["show", uuid, "--json"], /"state":\s*"suspended"/);
  await machine.ok(["kill", uuid]);
  expect(recordOf(machine, uuid)).toMatchObject({ state: "dead", exit_reason: "terminated", steps: 2 });
});
