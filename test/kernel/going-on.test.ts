import { describe, expect, test } from "bun:test";
import type { ProcInfo } from "../../src/kernel/types.ts";
import { SIGPAUSE } from "../../src/kernel/types.ts";
import { SyscallError } from "../../src/plugin/index.ts";
import { KernelHarness, type Model, says, silent } from "../support/kernel.ts";
import { until } from "../support/until.ts";

function ended(h: KernelHarness): Promise<void> {
  return until(() => h.kernel.processes.count === 0, "the end of all");
}

describe("children that no process waits for", () => {
  /** Silent until it may answer. */
  function patient(): { model: Model; release(): void } {
    let released = false;
    const model: Model = (request, signal) => (released ? says("done") : silent(request, signal));
    const release = (): void => {
      released = true;
    };
    return { model, release };
  }

  async function pair(h: KernelHarness): Promise<{ top: ProcInfo; part: ProcInfo }> {
    const pid = await h.spawn("top");
    await h.spawn("part", { parentPid: pid });
    await until(() => h.requests.length === 2);
    const [top, part] = h.kernel.processes.infos();
    if (!top || !part) throw new Error("they are not there");
    return { top, part };
  }

  test("resume with their parent, below it", async () => {
    const { model, release } = patient();
    await using h = new KernelHarness({ model });
    const { top, part } = await pair(h);
    await h.kernel.lifecycle.suspend(top.pid);
    await ended(h);
    const again = await h.kernel.lifecycle.resume(top.uuid, null, h.opts());
    const [, child] = h.kernel.processes.infos();
    expect(child).toMatchObject({ uuid: part.uuid, ppid: again.pid });
    release();
    await h.kernel.lifecycle.suspend(child?.pid ?? 0);
    await h.kernel.lifecycle.suspend(again.pid);
  });

  test("stay suspended when a person has suspended them", async () => {
    const { model } = patient();
    await using h = new KernelHarness({ model });
    const { top, part } = await pair(h);
    await h.kernel.lifecycle.suspend(part.pid);
    await h.kernel.lifecycle.suspend(top.pid);
    await ended(h);
    const again = await h.kernel.lifecycle.resume(top.uuid, null, h.opts());
    expect(h.kernel.processes.infos().map(({ uuid }) => uuid)).toEqual([top.uuid]);
    await h.kernel.lifecycle.suspend(again.pid);
  });
});

describe("the runs that a shutdown leaves to resume", () => {
  const hold = async (h: KernelHarness, more: object = {}): Promise<ProcInfo> => {
    const pid = await h.spawn("go", more);
    await until(() => h.requests.length === 1);
    return h.kernel.processes.info(pid);
  };

  test.each([
    ["stop", {}, false, "stop"],
    ["stop", { resumeOnRestart: true }, true, "stop"],
    ["restart", {}, true, "restart"],
    ["asked", { resumeOnRestart: true }, false, "asked"],
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
    await hold(h, { resumeOnRestart: true });
    await h.kernel.shutdown({ now: true });
    expect(h.kernel.lifecycle.handsOver).toBe(false);
    expect(() => h.kernel.processes.info(1)).toThrow(SyscallError);
  });
});
