import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { isAlive } from "../support/is-alive.ts";
import type { RecordedRequest } from "../support/model-server/server.ts";
import { until } from "../support/until.ts";
import { ChatClient } from "./support/chat-client.ts";
import { writeKeys } from "./support/keys-file.ts";
import { Machine } from "./support/machine.ts";
import { detach } from "./support/runs.ts";
import { calls, says } from "./support/scenes.ts";
import { receiptOf, recordOf } from "./support/verdict.ts";
import { RawClient } from "./support/wire.ts";

/** Starts a unit that ends when the file `go` is there. */
const BUILD = calls([
  "Bash",
  {
    command: "until [ -e go ]; do sleep 0.05; done; rnix version > version; echo built >> built",
    run_in_background: true,
  },
]);

describe("rnix spawn --on-units", () => {
  test("park exits 75 while the unit goes on; its end resumes the run in the daemon", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "build it": [BUILD, says("started"), says("it is built")] });
    writeKeys(machine);
    const parked = await machine.run(["spawn", "build it", "--on-units", "park", "--output", "json"]);
    const receipt = receiptOf(parked);
    expect(parked.code).toBe(75);
    expect(receipt).toMatchObject({
      result: "started",
      suspended: { wake: { on: "unit" }, by_itself: true },
      units_at_end: { on_units: "park" },
    });
    const shown = await machine.run(["show", receipt.uuid]);
    expect(shown.stdout).toContain(`unit ${receipt.units_at_end?.ids[0]}`);
    const [id = ""] = receipt.units_at_end?.ids ?? [];
    expect((await machine.run(["units"])).stdout).toContain(id);
    expect((await machine.run(["units", "output", id])).code).toBe(0);
    machine.write("go", "");
    await until(() => recordOf(machine, receipt.uuid).exit_reason === "completed", "the end of the run");
    expect(recordOf(machine, receipt.uuid)).toMatchObject({ exit_code: 0, result: "it is built" });
    expect(machine.read("built")).toBe("built\n");
    expect(JSON.stringify(model.requests.at(-1)?.body).split("completed, exit code 0")).toHaveLength(2);
    expect(model.requests).toHaveLength(3);
  });

  test("kill ends the unit with the answer", async () => {
    await using machine = new Machine();
    await machine.play({ "build it": [BUILD, says("started")] });
    writeKeys(machine);
    const { code, stdout, stderr } = await machine.run(["spawn", "build it", "--on-units", "kill"]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "started\n" });
    expect(stderr).toContain("ended 1 unit");
    expect(machine.strays()).toEqual([]);
  });

  test("park needs the daemon", async () => {
    await using machine = new Machine();
    const args = ["spawn", "build it", "--on-units", "park", "--no-daemon"];
    expect(await machine.run(args)).toMatchObject({ code: 64 });
  });
});

/** PIDs of the programs of a run's units. */
function unitPids(machine: Machine, uuid: string): number[] {
  const lines = machine.read(`.rnix/data/steps/${uuid}/units.jsonl`).trim().split("\n");
  return lines.flatMap(
    (line) => z.object({ t: z.string(), pid: z.number().optional() }).parse(JSON.parse(line)).pid ?? [],
  );
}

function alive(pid: number | undefined): boolean {
  return pid !== undefined && isAlive(pid);
}

/** What the model was sent last. */
function text(requests: readonly RecordedRequest[]): string {
  return JSON.stringify(requests.at(-1)?.body ?? "");
}

describe("after kill -9 of the daemon", () => {
  test("a run that resumes adopts its unit, reads that it still runs, and its end once", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "build it": [BUILD, says("started"), says("waiting"), says("it is built")],
    });
    writeKeys(machine);
    const { uuid } = await detach(machine, "build it", "--resume-on-restart");
    await until(() => model.requests.length === 2);
    const [pid] = unitPids(machine, uuid);
    await machine.endDaemon();
    await machine.ok(["daemon", "start"]);
    await until(() => text(model.requests).includes("still runs"), "the adoption");
    expect(unitPids(machine, uuid)).toEqual(pid === undefined ? [] : [pid]);
    expect(alive(pid)).toBe(true);
    machine.write("go", "");
    await until(() => recordOf(machine, uuid).exit_reason === "completed", "the end of the run");
    expect(recordOf(machine, uuid)).toMatchObject({ result: "it is built" });
    expect(text(model.requests).split("completed, exit code 0")).toHaveLength(2);
    expect(machine.read("built")).toBe("built\n");
    expect(machine.strays()).toEqual([]);
  });

  test("a command that was moved to the background is adopted, with all that it prints", async () => {
    await using machine = new Machine();
    const command = "echo first; until [ -e go ]; do echo more; sleep 0.05; done; echo last; echo end >&2";
    const model = await machine.play({
      "build it": [calls(["Bash", { command }]), says("started"), says("waiting"), says("it has ended")],
    });
    writeKeys(machine);
    const { uuid } = await detach(machine, "build it", "--resume-on-restart");
    const client = await RawClient.connect(machine.socket);
    const move = async () => JSON.stringify(await client.ask("background_call", { uuid }));
    await until(async () => (await move()).includes('"moved":1'), "the move");
    client.destroy();
    await until(() => model.requests.length === 2 && unitPids(machine, uuid).length === 1);
    const [pid] = unitPids(machine, uuid);
    await machine.endDaemon();
    await machine.ok(["daemon", "start"]);
    await until(() => text(model.requests).includes("still runs"), "the adoption");
    expect(alive(pid)).toBe(true);
    machine.write("go", "");
    await until(() => recordOf(machine, uuid).exit_reason === "completed", "the end of the run");
    // Only its parent could have read its exit code.
    expect(text(model.requests)).toContain("failed, exit code unknown");
    const id = /unit (b\w{8})/.exec(text(model.requests))?.[1] ?? "";
    const printed = (await machine.ok(["units", "output", id])).stdout;
    expect(printed).toStartWith("first\nmore\n");
    expect(printed).toEndWith("more\nlast\nend\n");
    expect(machine.strays()).toEqual([]);
  });

  test("a parked run is resumed, and parked on the same unit again", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "build it": [BUILD, says("started"), says("waiting"), says("it is built")],
    });
    writeKeys(machine);
    const parked = await machine.run(["spawn", "build it", "--on-units", "park", "--output", "json"]);
    const { uuid } = receiptOf(parked);
    const [pid] = unitPids(machine, uuid);
    await machine.endDaemon();
    expect(alive(pid)).toBe(true);
    await machine.ok(["daemon", "start"]);
    await until(() => model.requests.length === 3, "the resume");
    await until(() => recordOf(machine, uuid).state === "suspended", "parked again");
    expect(alive(pid)).toBe(true);
    machine.write("go", "");
    await until(() => recordOf(machine, uuid).exit_reason === "completed", "the end of the run");
    expect(text(model.requests).split("completed, exit code 0")).toHaveLength(2);
    // The link on its PATH was that of the dead daemon.
    expect(machine.read("version")).toStartWith("rnix ");
    expect(machine.strays()).toEqual([]);
  });

  test("a message resumes a parked run; its unit goes on, and it is parked again", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "build it": [BUILD, says("started"), says("not yet"), says("it is built")],
    });
    writeKeys(machine);
    const { uuid } = receiptOf(
      await machine.run(["spawn", "build it", "--on-units", "park", "--output", "json"]),
    );
    const [pid] = unitPids(machine, uuid);
    using client = new ChatClient(machine);
    await client.ask("send_message", { uuid, text: "is it built?" });
    await until(() => model.requests.length === 3, "the resume");
    expect(text(model.requests)).toContain("is it built?");
    await until(() => recordOf(machine, uuid).state === "suspended", "parked again");
    expect(alive(pid)).toBe(true);
    machine.write("go", "");
    await until(() => recordOf(machine, uuid).exit_reason === "completed", "the end of the run");
    expect(recordOf(machine, uuid).result).toBe("it is built");
  });

  test("the unit of a run that stays suspended is ended", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "build it": [BUILD, says("started")] });
    writeKeys(machine);
    const { uuid } = await detach(machine, "build it");
    await until(() => model.requests.length === 2);
    const [pid] = unitPids(machine, uuid);
    await machine.endDaemon();
    expect(alive(pid)).toBe(true);
    await machine.ok(["daemon", "start"]);
    await until(() => !alive(pid), "the end of the unit");
    await until(() => recordOf(machine, uuid).state === "suspended", "its record");
    await machine.run(["resume", uuid]);
    expect(text(model.requests)).toMatch(/\[local_bash\] killed/);
    expect(text(model.requests)).not.toContain("failed, exit code");
  });

  test("and that of a command that dies beside a daemon, which notices it only then", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "build it": [BUILD, says("started")] });
    writeKeys(machine);
    await machine.ok(["daemon", "start"]);
    const command = machine.start(["spawn", "build it", "--no-daemon"]);
    await until(() => model.requests.length === 2);
    const { stdout } = await machine.run(["ps", "-a", "--json"]);
    const uuid = /"uuid": ?"([^"]+)"/.exec(stdout)?.[1] ?? expect.unreachable();
    const [pid] = unitPids(machine, uuid);
    command.signal("SIGKILL");
    await command.done;
    await until(() => !alive(pid), "the end of the unit");
    await until(() => recordOf(machine, uuid).state === "suspended", "its record");
  });

  test("each line of a monitor is reported once, also those of the time without a daemon", async () => {
    await using machine = new Machine();
    const command = "for i in $(seq 100 139); do echo line-$i.; sleep 0.05; done";
    const watch = calls(["ToolSearch", { query: "Monitor" }]);
    const monitor = calls(["Monitor", { command, description: "lines" }]);
    const model = await machine.play({ "watch it": [watch, monitor, says("watching")] });
    writeKeys(machine);
    const { uuid } = await detach(machine, "watch it", "--resume-on-restart");
    await until(() => text(model.requests).includes("line-103."));
    await machine.endDaemon();
    await machine.ok(["daemon", "start"]);
    await until(() => recordOf(machine, uuid).exit_reason === "completed", "the end of the run");
    const said = text(model.requests);
    // The call itself does not contain them.
    for (let line = 100; line < 140; line++)
      expect([line, said.split(`line-${line}.`).length - 1]).toEqual([line, 1]);
    expect(said).toContain("events=40");
  });
});
