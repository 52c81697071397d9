import { describe, expect, test } from "bun:test";
import type { PID } from "../../../src/kernel/types.ts";
import { SIGINT, SIGKILL, SIGTERM, type Signal } from "../../../src/lib/signals.ts";
import { Supervised } from "../../support/supervised.ts";
import { until } from "../../support/until.ts";

/** top supervises mid and c, mid supervises low and b, low supervises a: three levels. */
async function tree(s: Supervised, intensity = 1): Promise<PID> {
  const low = s.spec("one_for_one", [s.agent("a")], { intensity });
  const mid = s.spec("one_for_all", [s.nested("low", low), s.agent("b")], { intensity });
  return await s.spawn(s.spec("rest_for_one", [s.nested("mid", mid), s.agent("c")], { intensity }));
}

/** The process that has this path of ids below the top one now. */
function at(s: Supervised, top: PID, ...path: string[]): PID {
  return path.reduce((pid, id) => s.pid(pid, id), top);
}

function standing(s: Supervised, top: PID, ...path: string[]): boolean {
  try {
    at(s, top, ...path);
    return true;
  } catch {
    return false;
  }
}

describe("a supervisor of supervisors", () => {
  test("starts them depth first, in order, and each is its supervisor's child", async () => {
    await using s = new Supervised();
    const top = await tree(s);
    expect(s.starts).toEqual(["a", "b", "c"]);
    expect(s.h.kernel.processes.info(at(s, top, "mid", "low", "a")).ppid).toBe(at(s, top, "mid", "low"));
    expect(s.h.kernel.processes.info(at(s, top, "mid", "low")).ppid).toBe(at(s, top, "mid"));
  });

  test("does not start when a child three levels below does not, and no process remains", async () => {
    await using s = new Supervised();
    s.broken.set("a", 1);
    const error = await tree(s).catch((thrown: Error) => thrown);
    expect(String(error)).toContain(
      "Supervisor top: its child mid did not start: Supervisor mid: its child low did not start",
    );
    expect(s.h.kernel.processes.count).toBe(0);
    expect(s.starts).toEqual(["a"]);
  });

  test("learns of an end only when the supervisors below have given up, level by level", async () => {
    await using s = new Supervised();
    const top = await tree(s);
    const mid = at(s, top, "mid");
    const low = at(s, top, "mid", "low");
    const done = s.h.kernel.processes.wait(top);

    const restarted = async (...path: string[]): Promise<void> => {
      await s.clock.advance(500);
      await until(() => standing(s, top, ...path), path.join("/"));
    };
    // The first time low sees to it itself.
    await s.fail("a");
    await until(() => s.child(low, "a").restartInMs !== null);
    await restarted("mid", "low", "a");
    expect(at(s, top, "mid", "low")).toBe(low);
    // The second is one too many for low: mid starts all of its own again.
    await s.fail("a");
    await until(() => s.child(mid, "low").restartInMs !== null);
    expect(s.child(mid, "low").exit).toMatchObject({ code: 1, reason: "max_restarts_exceeded" });
    await restarted("mid", "b");
    expect(at(s, top, "mid")).toBe(mid);
    expect(at(s, top, "mid", "low")).not.toBe(low);
    // The new low starts over, but its end is one too many for mid: top starts mid, and what came after it.
    await s.fail("a");
    await until(() => s.child(at(s, top, "mid", "low"), "a").restartInMs !== null);
    await restarted("mid", "low", "a");
    const c = at(s, top, "c");
    await s.fail("a");
    await until(() => s.child(top, "mid").restartInMs !== null);
    expect(s.child(top, "mid").exit).toMatchObject({ reason: "max_restarts_exceeded" });
    await restarted("c");
    expect(at(s, top, "mid")).not.toBe(mid);
    expect(at(s, top, "c")).not.toBe(c);
    // Four more, and the limit of top is passed, too: with one a level, two to the power of three ends.
    for (const level of [
      ["mid", "low", "a"],
      ["mid", "b"],
      ["mid", "low", "a"],
    ]) {
      const process = at(s, top, "mid", "low", "a");
      await s.fail("a");
      await until(() => !s.h.kernel.processes.listProcs().some(({ pid }) => pid === process));
      await until(() => s.clock.waits.some((ms) => ms <= 500));
      await restarted(...level);
    }
    await s.fail("a");
    expect(await done).toMatchObject({ code: 1, reason: "max_restarts_exceeded" });
    expect(s.h.kernel.processes.count).toBe(0);
  });

  for (const [path, levels] of [
    [["mid", "low", "a"], "low"],
    [["mid", "low"], "mid"],
    [["mid"], "top"],
  ] as const) {
    for (const [name, signal] of [
      ["TERM", SIGTERM],
      ["INT", SIGINT],
      ["KILL", SIGKILL],
    ] as [string, Signal][]) {
      test(`${name} of ${path.at(-1)} ends its descendants and is ${levels}'s to restart`, async () => {
        await using s = new Supervised();
        const top = await tree(s);
        const victim = at(s, top, ...path);
        const parent = at(s, top, ...path.slice(0, -1));
        const a = at(s, top, "mid", "low", "a");
        s.h.kernel.processes.kill(victim, signal);
        const id = path.at(-1) ?? "";
        await until(() => s.child(parent, id).restartInMs !== null);
        expect(s.h.kernel.processes.listProcs().map(({ pid }) => pid)).not.toContain(a);
        await s.clock.advance(500);
        await until(
          () => standing(s, top, "c") && standing(s, top, "mid", "b") && standing(s, top, "mid", "low", "a"),
        );
        expect(at(s, top, ...path)).not.toBe(victim);
        expect(at(s, top, "mid", "low", "a")).not.toBe(a);
        expect(s.h.kernel.processes.count).toBe(6);
      });

      test(`${name} of top ends all, also slow ones`, async () => {
        await using s = new Supervised();
        const top = await tree(s);
        const done = s.h.kernel.processes.wait(top);
        const slow = at(s, top, ...path);
        if (path.length === 3) s.h.kernel.signals.sigHandle(slow, SIGTERM, () => {});
        s.h.kernel.processes.kill(top, signal);
        if (path.length === 3 && signal !== SIGKILL) {
          // The others have ended: it is this one that is waited for.
          await until(() => s.h.kernel.processes.count === 4 && s.clock.waits.includes(10_000));
          await s.clock.advance(10_000);
        }
        expect(await done).toMatchObject({
          code: { [SIGTERM]: 143, [SIGINT]: 130, [SIGKILL]: 137 }[signal as 1 | 2 | 3],
        });
        expect(s.h.kernel.processes.count).toBe(0);
      });
    }
  }

  test("that is suspended suspends the agents, in its order, and ends itself", async () => {
    await using s = new Supervised();
    const top = await tree(s);
    const agents = [at(s, top, "mid", "low", "a"), at(s, top, "mid", "b"), at(s, top, "c")];
    const uuids = agents.map((pid) => s.h.kernel.processes.info(pid).uuid);
    await s.h.kernel.shutdown();
    const ended = await s.h.runs.list();
    for (const uuid of uuids) {
      expect(ended.find((info) => info.uuid === uuid)).toMatchObject({ exit_code: 75, state: "suspended" });
    }
    for (const info of ended.filter(({ kind }) => kind === "supervisor")) {
      expect(info).toMatchObject({ exit_code: 143, state: "dead" });
    }
  });
});
