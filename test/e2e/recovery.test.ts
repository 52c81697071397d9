import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { Turn } from "../support/model-server/script.ts";
import type { RecordedRequest } from "../support/model-server/server.ts";
import { until } from "../support/until.ts";
import { writeKeys } from "./support/keys-file.ts";
import { Machine } from "./support/machine.ts";
import { detach, listed } from "./support/runs.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { recordOf } from "./support/verdict.ts";

/** Writes a line that can be counted, and is at work until it is ended. */
const HOLD = bash("echo once >> lines; touch held; sleep 600");
const HANG: Turn = { fault: { kind: "hang" } };

async function start(machine: Machine): Promise<void> {
  const { code, stderr } = await machine.run(["daemon", "start"]);
  if (code !== 0) throw new Error(`rnix daemon start ended with ${code}: ${stderr}`);
}

function ended(machine: Machine, uuid: string): Promise<void> {
  return until(() => recordOf(machine, uuid).exit_reason === "completed", `the end of ${uuid}`);
}

function tools(request: RecordedRequest | undefined): string {
  return JSON.stringify(request?.body);
}

describe("after kill -9 of the daemon, the next start", () => {
  test("resumes runs of --resume-on-restart with the key of ~/.config/rnix/env, and makes no call twice", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "hold it": [HOLD, says("went on")] });
    writeKeys(machine);
    const { uuid } = await detach(machine, "hold it", "--resume-on-restart");
    await machine.held();
    await machine.endDaemon();
    await start(machine);
    await ended(machine, uuid);
    expect(recordOf(machine, uuid)).toMatchObject({ exit_code: 0, result: "went on", steps: 2 });
    expect(machine.read("lines")).toBe("once\n");
    expect(model.requests).toHaveLength(2);
    expect(tools(model.requests[1])).toContain("may or may not have happened");
    expect((await listed(machine)).map((info) => info.uuid)).toEqual([uuid]);
    expect(machine.strays()).toEqual([]);
  });

  test("resumes one that crashed in its model call by sending the same request again", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "ask it": [HANG, says("answered")] });
    writeKeys(machine);
    const { uuid } = await detach(machine, "ask it", "--resume-on-restart");
    await until(() => model.requests.length === 1);
    await machine.endDaemon();
    await start(machine);
    await ended(machine, uuid);
    expect(model.requests[1]?.body.messages).toEqual(model.requests[0]?.body.messages ?? []);
  });

  test("ends a run that was ending, without a model call", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "answer it": [says("the answer")] });
    writeKeys(machine);
    const check = "test -e again || { touch again; sleep 600; }";
    const { uuid } = await detach(machine, "answer it", "--resume-on-restart", "--check", check);
    await until(() => machine.has("again"));
    await machine.endDaemon();
    await start(machine);
    await ended(machine, uuid);
    expect(recordOf(machine, uuid)).toMatchObject({ result: "the answer", steps: 1 });
    expect(model.requests).toHaveLength(1);
  });

  test("leaves a run without a key suspended, with the reason and the command", async () => {
    await using machine = await Machine.playing({ "hold it": [HOLD, says("went on")] });
    const { uuid } = await detach(machine, "hold it", "--resume-on-restart");
    await machine.held();
    await machine.endDaemon();
    await start(machine);
    await until(() => recordOf(machine, uuid).error?.code === "UNAVAILABLE", "the reason");
    expect(recordOf(machine, uuid)).toMatchObject({
      state: "suspended",
      error: { message: expect.stringMatching(/OPENAI_API_KEY[\s\S]*rnix resume/) },
    });
    expect(await machine.run(["resume", uuid])).toMatchObject({ code: 0, stdout: "went on\n" });
  });

  test("resumes a parent and its child: the parent gets the child's answer once", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "do both": [calls(["Agent", { intent: "the part of it" }]), says("both done")],
      "the part": [HOLD, says("the part is done")],
    });
    writeKeys(machine);
    const { uuid } = await detach(machine, "do both", "--resume-on-restart");
    await machine.held();
    await machine.endDaemon();
    await start(machine);
    await ended(machine, uuid);
    const parent = recordOf(machine, uuid);
    const [child] = parent.children;
    expect(parent).toMatchObject({ exit_code: 0, result: "both done", children: [{ exit_code: 0 }] });
    expect(recordOf(machine, child?.uuid ?? "")).toMatchObject({
      result: "the part is done",
      ppid: parent.pid,
      parent_uuid: uuid,
    });
    expect(machine.read("lines")).toBe("once\n");
    const answers = tools(model.requests.at(-1)).split("the part is done").length - 1;
    expect(answers).toBe(1);
    expect(await listed(machine)).toHaveLength(2);
  });

  test("does not touch the run of a --no-daemon command", async () => {
    await using machine = await Machine.playing({ "hold it": [HOLD, says("went on")], wait: [HANG] });
    writeKeys(machine);
    const command = machine.start(["spawn", "wait", "--no-daemon", "-q"]);
    const { uuid } = await detach(machine, "hold it", "--resume-on-restart");
    await machine.held();
    await until(async () => (await listed(machine)).length === 2, "both runs in the list");
    await machine.endDaemon();
    await start(machine);
    await ended(machine, uuid);
    const other = (await listed(machine)).find((info) => info.uuid !== uuid);
    expect(other).toMatchObject({ state: "running", suspended: null });
    command.signal("SIGINT");
    expect(await command.done).toMatchObject({ code: 75 });
  });

  test("resumes the runs of an init.yaml's units instead of starting new ones", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "watch it": [HOLD, HANG] });
    writeKeys(machine);
    const child = { id: "watch", intent: "watch it", provider: "openai", model: "m" };
    const init = {
      supervisors: [{ name: "night", project: machine.project, strategy: "one_for_one", children: [child] }],
    };
    machine.write(join(machine.configDir, "init.yaml"), JSON.stringify(init));
    machine.write(
      join(machine.configDir, "providers.yaml"),
      JSON.stringify({ providers: { openai: { base_url: model.openaiUrl } } }),
    );
    await start(machine);
    await until(() => machine.has("held"), "the watch");
    const [before] = (await listed(machine)).filter(({ kind }) => kind === "agent");
    await machine.endDaemon();
    await start(machine);
    await until(() => model.requests.length === 2, "the watch goes on");
    const agents = (await listed(machine)).filter(({ kind }) => kind === "agent");
    expect(agents).toMatchObject([{ uuid: before?.uuid, state: "running", steps: 2 }]);
    expect(agents[0]?.ppid).toBeGreaterThan(0);
    expect(machine.read("lines")).toBe("once\n");
    machine.remove(join(machine.configDir, "init.yaml"));
  });
});

describe("the daemon's stop", () => {
  test("suspends its runs; the next start resumes only those of --resume-on-restart", async () => {
    await using machine = await Machine.playing({ "hold it": [HOLD, says("went on")], "hold that": [HANG] });
    writeKeys(machine);
    const { uuid: marked } = await detach(machine, "hold it", "--resume-on-restart");
    const { uuid: other } = await detach(machine, "hold that");
    await machine.held();
    await machine.ok(["daemon", "stop"]);
    expect(recordOf(machine, marked)).toMatchObject({ suspended: { cause: "stop" } });
    await start(machine);
    await ended(machine, marked);
    expect(recordOf(machine, other)).toMatchObject({ state: "suspended", suspended: { cause: "stop" } });
  });
});

test("--resume-on-restart is refused for a run without a daemon", async () => {
  await using machine = new Machine();
  const { code, stderr } = await machine.run(["spawn", "x", "--resume-on-restart", "--no-daemon"]);
  expect({ code, stderr }).toMatchObject({ code: 64, stderr: expect.stringContaining("exclude each other") });
});
