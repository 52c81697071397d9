import { expect, test } from "bun:test";
import type { LSPMeta, Units } from "../../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, script, toolDevice } from "../../support/kernel.ts";
import { background, textOf, UNIT_DEVICES } from "../../support/unit-stage.ts";
import { until } from "../../support/until.ts";

const META: LSPMeta = {
  server_name: "typescript",
  command: "tsserver",
  state: "running",
  exit_code: null,
  restart_count: 0,
  max_restarts: 3,
};

/** A kernel with a driver that registers a unit; `ends`: the driver ends it when it is asked to. */
function harness(
  model: Model,
  { ends = true, event }: { ends?: boolean; event?: string } = {},
): KernelHarness & { asked: string[] } {
  const asked: string[] = [];
  const serve = async (units: Units): Promise<string> => {
    const { id } = await units.register({ kind: "lsp", description: "types", metadata: META });
    await units.update(id, {
      output: "indexed\n",
      event,
      metadata: { ...META, restart_count: 1 },
    });
    void units.killed(id).then(async () => {
      asked.push(id);
      if (ends) await units.update(id, { status: "completed" });
    });
    return id;
  };
  const h = new KernelHarness({
    model,
    devices: {
      ...UNIT_DEVICES.devices,
      "/dev/serve": toolDevice("Serve", async (_input, _signal, { units }) => (units ? serve(units) : "")),
    },
    needs: { ...UNIT_DEVICES.needs, "/dev/serve": ["units"] },
    wakes: true,
  });
  return Object.assign(h, { asked });
}

test("a unit of a driver is listed, read, reports events, and ends with its run, which does not wait for it", async () => {
  let id = "";
  await using h = harness(
    script(
      calls(["Serve", {}]),
      (request) => {
        id = /^l\w{8}$/m.exec(textOf(request))?.[0] ?? "";
        return calls(["DaemonList", { kind: "lsp" }], ["DaemonOutput", { daemon_id: id }]);
      },
      // The event may come after the first.
      says("done"),
      says("done"),
    ),
    { event: "3 errors" },
  );
  const { info } = await h.run("look");
  expect(info).toMatchObject({ exit_code: 0, result: "done" });
  const text = textOf(h.requests.at(-1));
  expect(text).toContain(`- ${id} [lsp/running] types`);
  expect(text).toContain("server=typescript state=running");
  expect(text).toContain("---\nindexed");
  expect(text.split(`unit ${id} [lsp] events:\n3 errors`)).toHaveLength(2);
  expect(h.asked).toEqual([id]);
  expect((await h.runs.units(info.uuid)).records.at(-1)).toMatchObject({
    t: "ended",
    snapshot: { status: "completed", metadata: { restart_count: 1 } },
  });
});

test("DaemonStop asks the driver; one that does not end its unit has it killed after the grace", async () => {
  let id = "";
  await using h = harness(
    script(
      calls(["Serve", {}]),
      (request) => {
        id = /^l\w{8}$/m.exec(textOf(request))?.[0] ?? "";
        return calls(["DaemonStop", { daemon_id: id }]);
      },
      () => calls(background("sleep 1.5")),
      says("waiting"),
      says("seen"),
      says("seen"),
    ),
    { ends: false },
  );
  const { info } = await h.run("look");
  expect(info.exit_code).toBe(0);
  expect(h.asked).toEqual([id]);
  expect(textOf(h.requests.at(-1)).split(`unit ${id} [lsp] killed, server=typescript`)).toHaveLength(2);
});

test("a run with a unit of a driver is parked on its commands, and reads after the resume that it was killed", async () => {
  await using h = harness(
    script(
      calls(["Serve", {}], background("until [ -e go ]; do sleep 0.02; done")),
      says("started"),
      says("done"),
    ),
  );
  const { info } = await h.run("look", { on_units: "park" });
  expect(info).toMatchObject({ exit_code: 75, suspended: { wake: { on: "unit" } } });
  expect(h.asked).toHaveLength(1);
  await Bun.write(`${h.project}/go`, "");
  await until(() => !h.kernel.units.isParked(info.uuid));
  const { info: last } = await h.resumed(info.uuid);
  expect(last).toMatchObject({ exit_code: 0, result: "done" });
  expect(textOf(h.requests.at(-1)).match(/\[lsp\] killed/g)).toHaveLength(1);
});
