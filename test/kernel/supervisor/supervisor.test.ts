import { describe, expect, test } from "bun:test";
import { SIGTERM } from "../../../src/kernel/types.ts";
import { Supervised } from "../../support/supervised.ts";
import { until } from "../../support/until.ts";

describe("a supervisor", () => {
  test("is a process with a record: it starts its children in order, and ends them in reverse", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a"), s.agent("b"), s.agent("c")]));
    expect(s.starts).toEqual(["a", "b", "c"]);
    expect(s.children(pid).map(({ state }) => state)).toEqual(["running", "running", "running"]);
    expect(s.h.kernel.procInfo(pid)).toMatchObject({ kind: "supervisor", intent: "top", state: "running" });
    s.h.kernel.signals.signal(pid, SIGTERM);
    const exit = await s.h.kernel.wait(pid);
    expect(exit).toMatchObject({ code: 143, reason: "terminated" });
    expect(s.h.kernel.active).toBe(0);
  });

  test("starts a failed child again after the delay", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a"), s.agent("b")]));
    const before = s.pid(pid, "a");
    await s.fail("a");
    await until(() => s.child(pid, "a").restartInMs !== null);
    expect(s.child(pid, "a")).toMatchObject({ state: "waiting", pid: null, restartInMs: 500 });
    await s.clock.advance(500);
    await until(() => s.child(pid, "a").state === "running");
    expect(s.pid(pid, "a")).not.toBe(before);
  });
});
