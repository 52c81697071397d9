import { describe, expect, test } from "bun:test";
import { until } from "../support/until.ts";
import { writeKeys } from "./support/keys-file.ts";
import { Machine } from "./support/machine.ts";
import { calls, says } from "./support/scenes.ts";
import { receiptOf, recordOf } from "./support/verdict.ts";

/** Starts a unit that ends when the file `go` is there. */
const BUILD = calls([
  "Bash",
  { command: "until [ -e go ]; do sleep 0.05; done; echo built >> built", run_in_background: true },
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
