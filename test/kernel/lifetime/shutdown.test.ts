import { describe, expect, test } from "bun:test";
import type { ProcInfo } from "../../../src/kernel/types.ts";
import { SIGPAUSE } from "../../../src/lib/signals.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { KernelHarness, silent } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

describe("the runs that a shutdown leaves to resume", () => {
  const hold = async (h: KernelHarness, more: object = {}): Promise<ProcInfo> => {
    const pid = await h.spawn("go", more);
    await until(() => h.requests.length === 1);
    return h.kernel.processes.info(pid);
  };

  test.each([
    ["stop", {}, false, "stop"],
    ["stop", { resume_on_restart: true }, true, "stop"],
    ["restart", {}, true, "restart"],
    ["asked", { resume_on_restart: true }, false, "asked"],
  ] as const)("%s of a run with %o: %p", async (cause, more, handsOver, recorded) => {
    await using h = new KernelHarness({ model: silent });
    const { uuid } = await hold(h, more);
    await h.kernel.shutdown({ cause });
    expect(h.kernel.lifecycle.handsOver).toBe(handsOver);
    expect(await h.runs.info(uuid)).toMatchObject({ exit_code: 75, suspended: { cause: recorded } });
  });

  test("not one that a person has paused", async () => {
    await using h = new KernelHarness({ model: silent });
    const { uuid, pid } = await hold(h);
    h.kernel.processes.kill(pid, SIGPAUSE);
    await h.kernel.shutdown({ cause: "restart" });
    expect(h.kernel.lifecycle.handsOver).toBe(false);
    expect(await h.runs.info(uuid)).toMatchObject({ suspended: { cause: "asked" } });
  });

  test("not one that was killed", async () => {
    await using h = new KernelHarness({ model: silent });
    await hold(h, { resume_on_restart: true });
    await h.kernel.shutdown({ now: true });
    expect(h.kernel.lifecycle.handsOver).toBe(false);
    expect(() => h.kernel.processes.info(1)).toThrow(SyscallError);
  });
});
