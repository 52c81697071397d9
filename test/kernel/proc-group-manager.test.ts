import { describe, expect, test } from "bun:test";
import { SIGINT, SIGPAUSE, SIGRESUME, type Signal } from "../../src/lib/signals.ts";
import { codeNow } from "../support/failure.ts";
import { KernelHarness, silent } from "../support/kernel.ts";
import { seeded } from "../support/seeded.ts";
import { until } from "../support/until.ts";

async function three(h: KernelHarness): Promise<[number, number, number]> {
  return [await h.spawn("one"), await h.spawn("two"), await h.spawn("three")];
}

describe("membership", () => {
  test("is listed in the order of joining, once for any number of joins", async () => {
    await using h = new KernelHarness({ model: silent });
    const [one, two] = await three(h);
    const { groups } = h.kernel;
    groups.joinGroup(two, "build");
    groups.joinGroup(one, "build");
    groups.joinGroup(two, "build");
    expect(groups.getProcGroup("build")).toEqual([two, one]);
    expect(groups.size).toBe(2);
    groups.leaveGroup(two, "build");
    expect(groups.getProcGroup("build")).toEqual([one]);
  });

  test("ends at the reap, and the group with its last member", async () => {
    await using h = new KernelHarness({ model: silent });
    const [one, two] = await three(h);
    const { groups } = h.kernel;
    for (const pid of [one, two]) groups.joinGroup(pid, "build");
    groups.joinGroup(one, "test");
    h.kernel.processes.kill(one, SIGINT);
    await h.kernel.processes.wait(one);
    expect(groups.getProcGroup("build")).toEqual([two]);
    expect(codeNow(() => groups.getProcGroup("test"))).toBe("NOT_FOUND");
    groups.leaveGroup(two, "build");
    expect(codeNow(() => groups.signalGroup("build", SIGINT))).toBe("NOT_FOUND");
    expect(groups.size).toBe(0);
  });

  test.each(["a", "A.b_c:d-9", "x".repeat(64)])("a group may be called %p", async (name) => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    h.kernel.groups.joinGroup(pid, name);
    expect(h.kernel.groups.getProcGroup(name)).toEqual([pid]);
  });

  test.each(["", "x".repeat(65), "a b", "a/b", "ä", "a\n"])("but not %p", async (name) => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    expect(codeNow(() => h.kernel.groups.joinGroup(pid, name))).toBe("INVALID");
  });

  test("requires a live process, and is limited in number", async () => {
    await using h = new KernelHarness({ model: silent });
    const [one, two] = await three(h);
    const { groups } = h.kernel;
    expect(codeNow(() => groups.joinGroup(99, "build"))).toBe("NOT_FOUND");
    expect(codeNow(() => groups.leaveGroup(one, "build"))).toBe("NOT_FOUND");
    groups.joinGroup(two, "build");
    expect(codeNow(() => groups.leaveGroup(one, "build"))).toBe("NOT_FOUND");
    for (let i = 0; i < 64; i++) groups.joinGroup(one, `g${i}`);
    expect(codeNow(() => groups.joinGroup(one, "one-more"))).toBe("EXHAUSTED");
    expect(codeNow(() => groups.joinGroup(one, "g5"))).toBe("");
  });

  test("is refused to a zombie that asks for it; a member that ended has it until its reap", async () => {
    const seen: unknown[] = [];
    await using h = new KernelHarness({
      model: silent,
      callbacks: {
        onComplete: (pid) => {
          const { groups } = h.kernel;
          seen.push(codeNow(() => groups.joinGroup(pid, "late")));
          seen.push(groups.getProcGroup("build"), groups.signalGroup("build", SIGPAUSE));
        },
      },
    });
    const pid = await h.spawn("go");
    h.kernel.groups.joinGroup(pid, "build");
    h.kernel.processes.kill(pid, SIGINT);
    await h.kernel.processes.wait(pid);
    expect(seen).toEqual(["NOT_FOUND", [pid], 0]);
  });
});

describe("a signal to a group", () => {
  test("reaches its members and no other process, and says how many it reached", async () => {
    await using h = new KernelHarness({ model: silent });
    const [one, two, three_] = await three(h);
    const { groups } = h.kernel;
    const paused = (): boolean[] => [one, two, three_].map((pid) => h.kernel.processes.info(pid).is_paused);
    groups.joinGroup(one, "build");
    groups.joinGroup(two, "build");
    expect(groups.signalGroup("build", SIGPAUSE)).toBe(2);
    expect(paused()).toEqual([true, true, false]);
    expect(groups.signalGroup("build", SIGRESUME)).toBe(2);
    const ended = Promise.all([one, two].map((pid) => h.kernel.processes.wait(pid)));
    expect(groups.signalGroup("build", SIGINT)).toBe(2);
    expect((await ended).map((exit) => exit.reason)).toEqual(["interrupted", "interrupted"]);
    expect(h.kernel.processes.info(three_).exit_reason).toBeNull();
    expect(codeNow(() => groups.signalGroup("build", 9 as Signal))).toBe("INVALID");
  });

  test("is recorded, with the signal to each member", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    const { groups, debug } = h.kernel;
    const uuid = h.kernel.processes.info(pid).uuid;
    groups.joinGroup(pid, "build");
    groups.getProcGroup("build");
    groups.signalGroup("build", SIGINT);
    await h.kernel.processes.wait(pid);
    const { records } = await h.runs.events(uuid);
    const own = records.filter((event) => ["JoinGroup", "Signal"].includes(event.syscall));
    expect(own.map(({ syscall, args }) => [syscall, args])).toEqual([
      ["JoinGroup", { pid, group: "build", by: 0 }],
      ["Signal", { pid, signal: SIGINT, by: 0 }],
    ]);
    expect(debug.ofPid0.slice(0, 2).map(({ syscall, args, result }) => [syscall, args, result])).toEqual([
      ["GetProcGroup", { group: "build", by: 0 }, 1],
      ["SignalGroup", { group: "build", signal: SIGINT, by: 0 }, 1],
    ]);
  });
});

test("members come, go and die in any order, and no group remains", async () => {
  for (let seed = 0; seed < 5; seed++) {
    await using h = new KernelHarness({ model: silent });
    const random = seeded(seed);
    const below = (n: number): number => Math.floor(random() * n);
    const { groups } = h.kernel;
    const members = new Map<string, number[]>(["a", "b", "c"].map((name) => [name, []]));
    let pids = await Promise.all(Array.from({ length: 12 }, () => h.spawn("go")));
    while (pids.length > 0) {
      const pid = pids[below(pids.length)] ?? 0;
      const [name, inGroup] = [...members][below(3)] ?? ["a", []];
      switch (below(8)) {
        case 0:
          h.kernel.processes.kill(pid, SIGINT);
          await h.kernel.processes.wait(pid);
          pids = pids.filter((one) => one !== pid);
          for (const [group, all] of members)
            members.set(
              group,
              all.filter((one) => one !== pid),
            );
          break;
        case 1:
        case 2:
          expect(codeNow(() => groups.leaveGroup(pid, name))).toBe(inGroup.includes(pid) ? "" : "NOT_FOUND");
          members.set(
            name,
            inGroup.filter((one) => one !== pid),
          );
          break;
        default:
          groups.joinGroup(pid, name);
          if (!inGroup.includes(pid)) inGroup.push(pid);
      }
      for (const [group, all] of members) {
        if (all.length === 0) expect(codeNow(() => groups.getProcGroup(group))).toBe("NOT_FOUND");
        else expect(groups.getProcGroup(group)).toEqual(all);
      }
    }
    await until(() => h.kernel.processes.count === 0);
    expect(groups.size).toBe(0);
  }
});
