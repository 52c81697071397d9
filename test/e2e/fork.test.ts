import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { ProcInfo } from "../../src/store/runs/schema.ts";
import type { TurnFunction } from "../support/model-server/server.ts";
import { filesBelow } from "./support/leftovers.ts";
import { Machine } from "./support/machine.ts";
import { systemPrompt } from "./support/requests.ts";
import { bash, says } from "./support/scenes.ts";
import { type Receipt, receiptOf, recordOf } from "./support/verdict.ts";

const note = (text: string) => bash(`echo ${text} >> notes`);

function folderOf(machine: Machine, uuid: string): string {
  return join(machine.project, ".rnix/data/steps", uuid);
}

function contentOf(machine: Machine, uuid: string): [string, string][] {
  return filesBelow(folderOf(machine, uuid)).map((path) => [path, machine.read(path)]);
}

/** A run of three steps, of which the first two leave a line. */
async function finished(machine: Machine): Promise<Receipt> {
  return receiptOf(await machine.run(["spawn", "note it", "--output", "json", "--deny", "Write"]));
}

/** The conversation that the model was shown last. */
function lastAsked(model: { requests: { body: { messages?: unknown } }[] }): unknown {
  return model.requests.at(-1)?.body.messages;
}

describe("rnix resume --fork", () => {
  /** What comes after the first run's three answers is a fork's. */
  const answers = (): TurnFunction => {
    const turns = [note("one"), note("two"), says("noted")];
    return () => turns.shift() ?? says("forked");
  };

  for (const how of [[], ["--no-daemon"]]) {
    test(`starts a new run after a step of an ended one, which stays unchanged ${how.join("")}`, async () => {
      await using machine = new Machine();
      const model = await machine.model(answers());
      const origin = await finished(machine);
      const before = contentOf(machine, origin.uuid);
      const forked = await machine.run([
        ...["resume", origin.uuid, "--fork", "--from-step", "1", "--output", "json"],
        ...how,
      ]);
      const receipt = receiptOf(forked);
      expect(receipt).toMatchObject({ exit_code: 0, result: "forked", steps: 2, tool_calls: 0 });
      expect(receipt.uuid).not.toBe(origin.uuid);
      expect(forked.stderr).toContain(`a fork of ${origin.uuid}, continued after its step 1`);
      expect(contentOf(machine, origin.uuid)).toEqual(before);
      expect(lastAsked(model)).toEqual(model.requests[1]?.body.messages);
      const record = recordOf(machine, receipt.uuid);
      expect(record).toMatchObject({ origin_uuid: origin.uuid, parent_uuid: null });
      expect(record.permissions).toEqual(recordOf(machine, origin.uuid).permissions);
      expect(machine.read("notes")).toBe("one\ntwo\n");
      expect(machine.strays()).toEqual([]);
    });
  }

  test("has a new prompt head: today's project document, and the original spawn's system prompt", async () => {
    await using machine = new Machine();
    const model = await machine.model(answers());
    machine.write("AGENTS.md", "Use tabs.");
    const spawned = await machine.run([
      "spawn",
      "note it",
      "--output",
      "json",
      "--system-prompt",
      "Be brief.",
    ]);
    const { uuid } = receiptOf(spawned);
    machine.write("AGENTS.md", "Use spaces.");
    for (const [how, expected] of [
      [["--fork"], "Use spaces."],
      [[], "Use tabs."],
    ] as const) {
      await machine.ok(["resume", uuid, "more", ...how]);
      const head = systemPrompt(model.last);
      expect(head).toContain(expected);
      expect(head).toContain("Be brief.");
    }
  });

  test("is shown by ps --tree and show, and still runs when its origin is removed", async () => {
    await using machine = new Machine();
    await machine.model(answers());
    const origin = await finished(machine);
    const detached = await machine.run(["resume", origin.uuid, "--fork", "and now?", "--detach"]);
    const [, pid = "", uuid = ""] = /^(\d+) (\S+)\n$/.exec(detached.stdout) ?? [];
    expect((await machine.run(["wait", pid])).stdout).toBe("forked\n");
    const tree = await machine.run(["ps", "-a", "--tree"]);
    expect(tree.stdout).toContain("FORK OF");
    expect((await machine.run(["show", uuid])).stdout).toMatch(new RegExp(`forked from +${origin.uuid}`));
    machine.remove(folderOf(machine, origin.uuid));
    const resumed = await machine.run(["resume", uuid, "once more"]);
    expect(resumed).toMatchObject({ code: 0, stdout: "forked\n" });
    const steps = await machine.run(["steps", uuid, "--json"]);
    expect(JSON.parse(steps.stdout)).toHaveLength(5);
  });

  test("of a live run copies its recorded steps, and does not disturb it", async () => {
    await using machine = new Machine();
    const hold = bash("touch held; while [ ! -e free ]; do sleep 0.05; done");
    await machine.play({ "hold it": [note("one"), hold, says("the first")] });
    const command = machine.start(["spawn", "hold it"]);
    await machine.held();
    const [live] = ProcInfo.array().parse(await machine.json(["ps", "--json"]));
    const inside = await machine.run([
      ...["resume", live?.uuid ?? "", "--fork", "--max-steps", "1", "--output", "json", "--no-daemon"],
    ]);
    const fork = receiptOf(inside);
    expect(recordOf(machine, fork.uuid)).toMatchObject({ origin_uuid: live?.uuid, steps: 2, max_steps: 1 });
    machine.write("free", "");
    expect(await command.done).toMatchObject({ code: 0 });
  });

  test("is refused for a missing step, and for a finished run without a message", async () => {
    await using machine = new Machine();
    await machine.model(answers());
    const { uuid } = await finished(machine);
    for (const [args, why] of [
      [["--fork", "--from-step", "4"], "there are steps 1 to 3"],
      [["--fork"], "has completed"],
      [["--from-step", "1"], "--from-step needs --fork"],
    ] as const) {
      const refused = await machine.run(["resume", uuid, ...args]);
      expect(refused.code).toBe(64);
      expect(refused.stderr).toContain(why);
    }
    expect(await machine.json(["ps", "-a", "--json"])).toHaveLength(1);
  });
});
