import { expect, test } from "bun:test";
import type { ProcInfo } from "../../src/store/runs/schema.ts";
import type { Turn } from "../support/model-server/script.ts";
import { until } from "../support/until.ts";
import { writeKeys } from "./support/keys-file.ts";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { bash, calls, limited, says } from "./support/scenes.ts";
import { Receipt, receiptOf, recordOf, uuidOf } from "./support/verdict.ts";

/** Runs suspend for whatever is longer than this. */
const PATIENCE = { model_wait: "1s" };

async function suspendedBy(machine: Machine, args: string[]): Promise<Receipt> {
  const { stdout, code } = await machine.run(["spawn", ...args, "--output", "json"]);
  expect(code).toBe(75);
  return Receipt.parse(JSON.parse(stdout));
}

/** Reads a file that the daemon may be replacing. No command is run, because a daemon would serve it. */
function stands(machine: Machine, uuid: string, how: (info: ProcInfo) => boolean): Promise<void> {
  const look = (): boolean => {
    try {
      return how(recordOf(machine, uuid));
    } catch {
      return false;
    }
  };
  return until(look, String(how));
}

function ended(machine: Machine, uuid: string): Promise<void> {
  return stands(machine, uuid, ({ exit_code }) => exit_code === 0);
}

test.concurrent("a run whose provider asks for a long wait is suspended until then: ps, wait and its receipt say so", async () => {
  await using machine = new Machine();
  machine.config(PATIENCE);
  // However long it takes to look.
  await machine.play({ "do it": [limited(900)] });
  const receipt = await suspendedBy(machine, ["do it"]);
  const { uuid, suspended } = receipt;
  expect(receipt).toMatchObject({ exit_reason: "suspended", error: null, suspended: { by_itself: true } });
  expect(suspended?.reason).toContain("too many requests");

  const listed = await machine.run(["ps"]);
  expect(listed.stdout).toMatch(/suspended .* waits until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d/);
  const waited = await machine.run(["wait", uuid]);
  expect(waited.code).toBe(75);
  expect(waited.stderr).toContain("it resumes by itself");
  await machine.ok(["kill", uuid]);
});

test.concurrent("it resumes by itself at that time", async () => {
  await using machine = new Machine();
  machine.config(PATIENCE);
  const model = await machine.play({ "do it": [limited(3), says("went on")] });
  const receipt = await suspendedBy(machine, ["do it"]);
  const { uuid } = receipt;
  await ended(machine, uuid);
  expect(recordOf(machine, uuid)).toMatchObject({ result: "went on", steps: 1, suspended: null });
  expect(recordOf(machine, uuid).pid).toBeGreaterThan(receipt.pid);
  // With the key of the shell that has spawned it: the user's own file has none.
  expect(model.requests).toHaveLength(2);
  expect((await machine.run(["ps"])).stdout).not.toContain("suspended");
});

test.concurrent("an idle daemon keeps running for it", async () => {
  await using machine = new Machine();
  machine.config({ ...PATIENCE, daemon_idle_stop: "1s", daemon_idle_check: "1s" });
  await machine.play({ "do it": [limited(5), says("went on")] });
  const { uuid } = await suspendedBy(machine, ["do it"]);
  const { kernel } = recordOf(machine, uuid);
  await ended(machine, uuid);
  expect(recordOf(machine, uuid).kernel).toBe(kernel);
});

test.concurrent("the next daemon resumes it when this one was killed or stopped", async () => {
  await using machine = new Machine();
  machine.config(PATIENCE);
  await machine.play({ "do it": [limited(4), limited(6), says("went on")] });
  writeKeys(machine);
  const { uuid, pid } = await suspendedBy(machine, ["do it"]);
  machine.killDaemon();
  await machine.ok(["daemon", "start"]);
  await stands(machine, uuid, (again) => again.pid > pid && again.state === "suspended");
  await machine.ok(["daemon", "stop"]);
  await machine.ok(["daemon", "start"]);
  await ended(machine, uuid);
});

test.concurrent.each([
  ["its key", ["OPENAI_BASE_URL"], "OPENAI_API_KEY"],
  ["its model's address", ["OPENAI_API_KEY"], "OPENAI_BASE_URL"],
])("a daemon that lacks %s leaves it suspended, and its record says why", async (_, names, missing) => {
  await using machine = new Machine();
  machine.config(PATIENCE);
  await machine.play({ "do it": [limited(6), says("went on")] });
  writeKeys(machine, names);
  const { uuid } = await suspendedBy(machine, ["do it"]);
  await machine.ok(["daemon", "stop"]);
  await machine.ok(["daemon", "start"]);
  await stands(machine, uuid, ({ suspended }) => suspended?.wake.on === "never");
  expect(recordOf(machine, uuid).suspended?.reason).toContain("could not be resumed by itself");
  expect(recordOf(machine, uuid).suspended?.reason).toContain(missing);
  expect(await machine.run(["resume", uuid])).toMatchObject({ code: 0, stdout: "went on\n" });
});

test.concurrent("with --no-daemon the command ends with 75 and prints the time; no daemon resumes the run", async () => {
  await using machine = new Machine();
  machine.config(PATIENCE);
  await machine.play({ "do it": [limited(3), says("went on")], another: [limited(4), says("went on")] });
  const { code, stderr } = await machine.run(["spawn", "do it", "--no-daemon"]);
  expect(code).toBe(75);
  const [, uuid = ""] =
    /until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d; to resume it then: rnix resume (\S+)/.exec(stderr) ?? [];
  expect(recordOf(machine, uuid).suspended).not.toHaveProperty("by_itself");
  const other = await suspendedBy(machine, ["another"]);
  await ended(machine, other.uuid);
  expect(recordOf(machine, uuid).state).toBe("suspended");
  expect(await machine.run(["resume", uuid])).toMatchObject({ code: 0, stdout: "went on\n" });
});

test.concurrent("a parent is suspended with its child, resumes with it, and gets its answer once", async () => {
  await using machine = new Machine();
  machine.config(PATIENCE);
  const agent = calls(["Agent", { intent: "do a part" }]);
  const model = await machine.play({
    "do the whole": [agent, says("whole")],
    "do a part": [limited(4), says("part")],
  });
  const { uuid, suspended, children } = await suspendedBy(machine, ["do the whole"]);
  const [child] = children;
  expect(suspended).toMatchObject({ wake: { on: "child", uuid: child?.uuid }, by_itself: true });
  await ended(machine, uuid);
  expect(recordOf(machine, uuid)).toMatchObject({
    result: "whole",
    children: [{ uuid: child?.uuid, exit_code: 0 }],
    tokens_used: 45,
  });
  const results = model.requests.flatMap(toolResults);
  expect(results).toEqual([expect.stringMatching(/^part\n/)]);
});

test.concurrent("after kill -9 of a daemon while a parent waits for its child, both resume, and no second child is spawned", async () => {
  await using machine = new Machine();
  const hold = bash("echo line >> lines; touch held; sleep 600");
  const agent = calls(["Agent", { intent: "do a part" }]);
  await machine.play({ "do the whole": [agent, says("whole")], "do a part": [hold, says("part")] });
  const command = machine.start(["spawn", "do the whole"]);
  await machine.held();
  const uuid = await uuidOf(command);
  machine.killDaemon();
  await command.done;
  expect(await machine.run(["resume", uuid])).toMatchObject({ code: 0, stdout: "whole\n" });
  expect(machine.read("lines")).toBe("line\n");
  const all = await machine.json(["ps", "-a", "--json"]);
  expect(all).toHaveLength(2);
  expect(recordOf(machine, uuid).children).toMatchObject([{ exit_code: 0 }]);
});

test.concurrent("a run resumes at the time of rnix suspend --for, and at a message after --until-message; otherwise it stays suspended", async () => {
  await using machine = new Machine();
  const hold = bash("touch $NAME; sleep 600");
  await machine.model(({ text }) => scenesOf(text));
  function scenesOf(text: string): Turn {
    const resumed = text.includes("may have taken effect in part");
    if (text.includes("write to ")) {
      const [, to = ""] = /write to ([0-9a-f-]{36})/.exec(text) ?? [];
      return text.includes("in the inbox of")
        ? says("sent")
        : calls(["SendMessage", { to, message: "wake up" }]);
    }
    return resumed ? says(text.includes("wake up") ? "woken by words" : "went on") : hold;
  }
  const held = async (name: string): Promise<string> => {
    const command = machine.start(["spawn", `hold ${name}`, "--env", `NAME=${name}`]);
    await until(() => machine.has(name));
    return uuidOf(command);
  };
  const [timed, messaged, left] = [await held("timed"), await held("messaged"), await held("left")];
  const inTime = await machine.run(["suspend", timed, "--for", "2s"]);
  expect(inTime.stderr).toMatch(/it waits until \d{4}-/);
  expect((await machine.run(["suspend", messaged, "--until-message"])).stderr).toContain(
    "it waits for a message",
  );
  await machine.ok(["suspend", left, "--for", "10m"]);
  await machine.ok(["suspend", left]);
  await ended(machine, timed);
  const sent = await machine.run(["spawn", `write to ${messaged}`]);
  expect(sent).toMatchObject({ code: 0, stdout: "sent\n" });
  await ended(machine, messaged);
  expect(recordOf(machine, messaged).result).toBe("woken by words");
  expect(recordOf(machine, left).suspended).toEqual({
    reason: "on request",
    cause: "asked",
    wake: { on: "never" },
  });
});

test.concurrent("a suspended run that is killed is recorded as killed, and is not resumed at its time", async () => {
  await using machine = new Machine();
  machine.config(PATIENCE);
  const model = await machine.play({
    "do it": [limited(6), says("went on")],
    "and this": [limited(7), says("went on")],
  });
  const killed = await suspendedBy(machine, ["do it"]);
  const { code, stderr } = await machine.run(["kill", String(killed.pid)]);
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: `process ${killed.pid}: it was suspended; TERM has ended it\n`,
  });
  expect((await machine.run(["wait", killed.uuid])).code).toBe(143);
  const dead = { state: "dead", exit_code: 143, exit_reason: "terminated", suspended: null };
  expect(recordOf(machine, killed.uuid)).toMatchObject(dead);
  // Whose time comes after it.
  const other = await suspendedBy(machine, ["and this"]);
  await ended(machine, other.uuid);
  expect(recordOf(machine, killed.uuid)).toMatchObject(dead);
  expect(model.requests.filter(({ text }) => text.includes("do it"))).toHaveLength(1);
  expect((await machine.run(["kill", killed.uuid])).stderr).toContain("it has ended already");
  const again = await machine.run(["resume", killed.uuid, "-q"]);
  expect(again).toMatchObject({ code: 0, stdout: "went on\n" });
});

test.concurrent("the parent of a suspended child resumes when the child is killed, and gets an error", async () => {
  await using machine = new Machine();
  const agent = calls(["Agent", { intent: "a part" }]);
  const hang: Turn = { fault: { kind: "hang" } };
  const model = await machine.play({ "do it": [agent, says("without it")], "a part": [hang] });
  const command = machine.start(["spawn", "do it", "--output", "json"]);
  await model.arrived(2);
  const live: ProcInfo[] = await machine.json(["ps", "--json"]);
  const child = live.find(({ intent }) => intent === "a part")?.uuid ?? "";
  await machine.ok(["suspend", child]);
  const { uuid, exit_code } = receiptOf(await command.done);
  expect(exit_code).toBe(75);
  expect((await machine.run(["kill", child])).stderr).toContain("it was suspended; TERM has ended it");
  await stands(machine, uuid, (info) => info.exit_code === 1);
  expect(recordOf(machine, uuid)).toMatchObject({
    exit_reason: "failed",
    result: "without it",
    children: [{ uuid: child, exit_reason: "terminated" }],
  });
  const [last] = model.requests.slice(-1);
  expect(last && toolResults(last)).toEqual([expect.stringContaining("terminated")]);
});

test.concurrent("a resumed run is found by its earlier PID", async () => {
  await using machine = new Machine();
  machine.config(PATIENCE);
  await machine.play({ "do it": [limited(2), says("went on")] });
  const { uuid, pid } = await suspendedBy(machine, ["do it"]);
  await ended(machine, uuid);
  const now = recordOf(machine, uuid);
  expect(now.earlier_pids).toEqual([pid]);
  expect(await machine.run(["wait", String(pid)])).toMatchObject({ code: 0, stdout: "went on\n" });
  expect((await machine.run(["log", String(pid)])).stdout).toContain("went on");
  const shown = await machine.json(["show", String(pid), "--json"]);
  expect(shown).toMatchObject({ uuid, pid: now.pid });
});
