import { expect, test } from "bun:test";
import daemons from "../../../plugins/daemons.ts";
import shell from "../../../plugins/shell.ts";
import { SIGTERM } from "../../../src/lib/signals.ts";
import type { Device, LLMRequest } from "../../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, script } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

/** A kernel in which a waker resumes runs. `mailed` has the runs whose units have reported. */
function parking(model: Model, wakes = true): KernelHarness & { mailed: string[] } {
  const mailed: string[] = [];
  const devices: Record<string, Device> = { ...shell.devices, ...daemons.devices };
  const h = new KernelHarness({
    model,
    devices,
    needs: { "/dev/shell": ["exec", "units"], "/dev/daemons": ["units"] },
    wakes,
    mailed: (uuid) => mailed.push(uuid),
  });
  return Object.assign(h, { mailed });
}

function textOf(request: LLMRequest | undefined): string {
  return request?.messages.map(({ content }) => content).join("\n") ?? "";
}

const background = (command: string) =>
  ["Bash", { command, run_in_background: true }] as [string, object] as never;

/** A unit that ends when the file is there. */
const untilFile = (name: string) =>
  background(`until [ -e ${name} ]; do sleep 0.02; done; echo built; exit 3`);

test("--on-units kill ends the units with the answer, and the receipt lists them", async () => {
  await using h = parking(script(calls(background("sleep 1000")), says("started it")));
  const { info } = await h.run("serve", { on_units: "kill" });
  expect(info).toMatchObject({ exit_code: 0, result: "started it", units_at_end: { on_units: "kill" } });
  expect(info.units_at_end?.ids).toHaveLength(1);
  expect(h.requests).toHaveLength(2);
  expect(h.children.list()).toEqual([]);
});

test("a run that waits for its units says so in its receipt", async () => {
  await using h = parking(script(calls(background("sleep 0.1")), says("started it"), says("done")));
  const { info } = await h.run("build");
  expect(info).toMatchObject({ exit_code: 0, result: "done", units_at_end: { on_units: "wait" } });
});

test("--on-units park suspends the run; its unit goes on, and its end wakes the run, which reads it once", async () => {
  await using h = parking(script(calls(untilFile("go")), says("started it"), says("the build failed")));
  const { info } = await h.run("build", { on_units: "park" });
  expect(info).toMatchObject({ exit_code: 75, suspended: { wake: { on: "unit" }, by_itself: true } });
  expect(h.children.list()).toHaveLength(1);
  expect(h.kernel.units.isParked(info.uuid)).toBe(true);
  expect(h.mailed).toEqual([]);
  await Bun.write(`${h.project}/go`, "");
  await until(() => h.mailed.includes(info.uuid));
  expect(h.kernel.units.isParked(info.uuid)).toBe(false);
  const { info: last } = await h.resumed(info.uuid);
  expect(last).toMatchObject({
    exit_code: 0,
    result: "the build failed",
    units_at_end: { on_units: "park" },
  });
  const woken = textOf(h.requests.at(-1));
  expect(woken.split(/\[local_bash\] failed, exit code 3/)).toHaveLength(2);
  const { records } = await h.runs.units(info.uuid);
  expect(records.map(({ t }) => t)).toEqual(["started", "program", "ended", "announced"]);
});

test("a parked run that is resumed before its units report reads that they still run, and is parked again", async () => {
  await using h = parking(
    script(calls(untilFile("go")), says("started it"), says("still building"), says("done")),
  );
  const { info } = await h.run("build", { on_units: "park" });
  const { info: again } = await h.resumed(info.uuid);
  expect(textOf(h.requests.at(-1))).toMatch(/unit b[0-9a-z]{8} \[local_bash\] still runs: /);
  expect(again).toMatchObject({ exit_code: 75, suspended: { wake: { on: "unit" } } });
  await Bun.write(`${h.project}/go`, "");
  await until(() => h.mailed.includes(info.uuid));
  const { info: last } = await h.resumed(info.uuid);
  expect(last).toMatchObject({ exit_code: 0, result: "done" });
});

test("a parked run that is ended, or waits for a person instead, ends its units", async () => {
  await using h = parking(
    script(calls(background("sleep 1000")), says("one"), calls(background("sleep 1000")), says("two")),
  );
  const { info } = await h.run("serve", { on_units: "park" });
  expect(h.children.list()).toHaveLength(1);
  await h.kernel.lifecycle.endSuspended(info, h.dataDir, SIGTERM);
  await until(() => h.children.list().length === 0);
});

test("without a waker a run that was to be parked waits", async () => {
  await using h = parking(script(calls(background("sleep 0.1")), says("started it"), says("done")), false);
  const { info } = await h.run("build", { on_units: "park" });
  expect(info).toMatchObject({ exit_code: 0, result: "done" });
});

test("Wake {on: unit} suspends a run while its unit goes on; the report resumes it, and the call returns", async () => {
  await using h = parking(
    script(calls(untilFile("go")), calls(["Wake", { on: "unit" }]), says("the build failed"), says("done")),
  );
  const { info } = await h.run("build");
  expect(info).toMatchObject({ exit_code: 75, suspended: { wake: { on: "unit" }, by_itself: true } });
  expect(h.children.list()).toHaveLength(1);
  await Bun.write(`${h.project}/go`, "");
  await until(() => h.mailed.includes(info.uuid));
  const { info: last } = await h.resumed(info.uuid);
  expect(last).toMatchObject({ exit_code: 0, result: "the build failed" });
  const said = textOf(h.requests.at(-1));
  expect(said).toContain("A background unit has reported.");
  expect(said.split("failed, exit code 3")).toHaveLength(2);
});

test("Wake {on: unit} without a unit is refused", async () => {
  await using h = parking(script(calls(["Wake", { on: "unit" }]), says("done")));
  const { info } = await h.run("build");
  const { records } = await h.runs.steps(info.uuid);
  expect(records[0]?.tool_calls).toMatchObject([{ error_code: "INVALID" }]);
});
