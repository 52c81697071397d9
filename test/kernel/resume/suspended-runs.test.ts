import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { resultOf } from "../../../src/kernel/resume/saved-run.ts";
import type { ProcInfo } from "../../../src/kernel/types.ts";
import { SIGINT, SIGKILL, SIGPAUSE, SIGTERM } from "../../../src/lib/signals.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { KernelHarness, says, silent } from "../../support/kernel.ts";
import { crashInto } from "../../support/sealed-record.ts";
import { until } from "../../support/until.ts";

// Each suspension and resume waits for the disk, which others may use too.
setDefaultTimeout(120_000);

/** A run that was suspended while it waited for its model, with this number of children. */
async function suspended(h: KernelHarness, children = 0): Promise<{ info: ProcInfo; below: string[] }> {
  const pid = await h.spawn("top");
  for (let i = 0; i < children; i++) await h.spawn(`part ${i}`, { parentPid: pid });
  await until(() => h.requests.length === children + 1);
  const [top, ...below] = h.kernel.processes.infos().map(({ uuid }) => uuid);
  await h.kernel.lifecycle.suspend(pid, { wake: { on: "at", at_ms: 1 } });
  await until(() => h.kernel.processes.count === 0);
  return { info: await h.recordOf(top ?? ""), below };
}

describe("a suspended run that is ended", () => {
  test.each([
    [SIGTERM, 143, "terminated"],
    [SIGINT, 130, "interrupted"],
    [SIGKILL, 137, "killed"],
  ] as const)(
    "by signal %i has that end on disk, and waits for nothing any more",
    async (signal, code, reason) => {
      await using h = new KernelHarness({ model: silent, wakes: true });
      const { info } = await suspended(h);
      expect(await h.kernel.lifecycle.endSuspended(info, h.dataDir, signal)).toBe(1);
      expect(await h.recordOf(info.uuid)).toMatchObject({
        state: "dead",
        exit_code: code,
        exit_reason: reason,
        suspended: null,
        steps: info.steps,
      });
      expect(await h.kernel.lifecycle.endSuspended(info, h.dataDir, signal)).toBe(0);
    },
  );

  test("can still be resumed, and its model learns how it had ended", async () => {
    let answers = false;
    await using h = new KernelHarness({
      model: (request, signal) => (answers ? says("done") : silent(request, signal)),
    });
    const { info } = await suspended(h);
    await h.kernel.lifecycle.endSuspended(info, h.dataDir, SIGTERM);
    answers = true;
    expect((await h.resumed(info.uuid)).info).toMatchObject({ exit_reason: "completed" });
  });

  test("ends the runs suspended with it, where the whole tree is meant, and records how they ended", async () => {
    await using h = new KernelHarness({ model: silent });
    const { info, below } = await suspended(h, 2);
    expect(await h.kernel.lifecycle.endSuspended(info, h.dataDir, SIGTERM, { tree: true })).toBe(3);
    for (const uuid of below) expect(await h.recordOf(uuid)).toMatchObject({ exit_reason: "terminated" });
    const { children } = await h.recordOf(info.uuid);
    expect(children.map(({ exit_reason }) => exit_reason)).toEqual(["terminated", "terminated"]);
  });

  test("ends once, where damaged records name runs as each other's children, or their own", async () => {
    await using h = new KernelHarness({ model: silent });
    const { info, below } = await suspended(h, 1);
    const child = await h.recordOf(below[0] ?? "");
    const children = [info, child].map(resultOf);
    for (const { uuid } of [info, child]) await h.runs.amend(uuid, (now) => ({ ...now, children }));
    expect(await h.kernel.lifecycle.endSuspended(info, h.dataDir, SIGTERM, { tree: true })).toBe(2);
    for (const { uuid } of [info, child])
      expect(await h.recordOf(uuid)).toMatchObject({ exit_reason: "terminated" });
  });

  test("alone does not change its children", async () => {
    await using h = new KernelHarness({ model: silent });
    const { info, below } = await suspended(h, 1);
    expect(await h.kernel.lifecycle.endSuspended(info, h.dataDir, SIGTERM)).toBe(1);
    expect(await h.recordOf(below[0] ?? "")).toMatchObject({ state: "suspended" });
  });

  test("after a crash: its record has the rest of the known facts, too", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    await until(() => h.requests.length === 1);
    await using later = new KernelHarness({ model: silent });
    crashInto(later, h);
    const known: ProcInfo = { ...h.kernel.processes.info(pid), ended_at_ms: 5, steps: 7, state: "suspended" };
    expect(await later.kernel.lifecycle.endSuspended(known, later.dataDir, SIGKILL)).toBe(1);
    expect(await later.recordOf(known.uuid)).toMatchObject({ exit_reason: "killed", steps: 7 });
  });

  test.each([true, false])("not one that lives, here (%p) or in another kernel", async (here) => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    await until(() => h.requests.length === 1);
    const info = h.kernel.processes.info(pid);
    await using other = new KernelHarness({ model: silent, kernelAlive: () => true });
    crashInto(other, h);
    const foreign = { ...(await h.recordOf(info.uuid)), kernel: "another" };
    await (await other.runs.reopen(info.uuid)).info(foreign);
    const [asked, dir] = here ? [h, h.dataDir] : [other, other.dataDir];
    expect(await asked.kernel.lifecycle.endSuspended(info, dir, SIGTERM)).toBe(0);
    expect(await asked.recordOf(info.uuid)).toMatchObject({ state: "running", exit_reason: null });
  });

  test("refuses a signal that ends nothing, and any signal while another kernel resumes it", async () => {
    await using h = new KernelHarness({ model: silent });
    const { info } = await suspended(h);
    const ending = (signal: typeof SIGPAUSE | typeof SIGTERM): Promise<unknown> =>
      h.kernel.lifecycle.endSuspended(info, h.dataDir, signal).catch((thrown: unknown) => thrown);
    expect(await ending(SIGPAUSE)).toMatchObject({ code: "INVALID" });
    const claim = h.runs.claim(info.uuid);
    const refused = await ending(SIGTERM);
    claim?.release({ remove: true });
    expect(refused).toBeInstanceOf(SyscallError);
    expect(refused).toMatchObject({ code: "INVALID", message: expect.stringContaining("being resumed") });
    expect(await h.recordOf(info.uuid)).toMatchObject({ state: "suspended" });
  });
});

describe("a run that is resumed", () => {
  test("lists its last earlier PIDs, and a fork has none", async () => {
    await using h = new KernelHarness({ model: silent });
    const { info } = await suspended(h);
    const pids = [info.pid];
    for (let i = 0; i < 102; i++) {
      const { pid } = await h.kernel.lifecycle.resume(info.uuid, null, h.opts());
      pids.push(pid);
      await h.kernel.lifecycle.suspend(pid);
      await until(() => h.kernel.processes.count === 0);
    }
    const { pid, earlier_pids } = await h.recordOf(info.uuid);
    expect([...earlier_pids, pid]).toEqual(pids.slice(-101));
    const fork = await h.kernel.lifecycle.resume(info.uuid, null, h.opts(), { fork: {} });
    expect(h.kernel.processes.info(fork.pid).earlier_pids).toEqual([]);
  });

  test("is in its groups again, and a fork is in none", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    await until(() => h.requests.length === 1);
    const { groups } = h.kernel;
    for (const group of ["build", "test", "left"]) groups.joinGroup(pid, group);
    groups.leaveGroup(pid, "left");
    const { uuid } = h.kernel.processes.info(pid);
    // A kernel that resumes it after a kill knows them, too.
    expect((await h.recordOf(uuid)).groups).toEqual(["build", "test"]);
    await h.kernel.lifecycle.suspend(pid);
    await until(() => h.kernel.processes.count === 0);
    expect(groups.size).toBe(0);
    const again = await h.kernel.lifecycle.resume(uuid, null, h.opts());
    expect(groups.getProcGroup("build")).toEqual([again.pid]);
    expect(groups.getProcGroup("test")).toEqual([again.pid]);
    expect(groups.size).toBe(2);
    const fork = await h.kernel.lifecycle.resume(uuid, null, h.opts(), { fork: {} });
    expect(h.kernel.processes.info(fork.pid).groups).toEqual([]);
    expect(groups.size).toBe(2);
  });
});
