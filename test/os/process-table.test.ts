import { describe, expect, test } from "bun:test";
import {
  COOKIE,
  isRunning,
  linuxTable,
  type ProcessTable,
  psTable,
  type Trace,
} from "../../src/os/process-table.ts";
import { readTag, tagOf, withTag } from "../../src/os/process-tag.ts";
import { until } from "../support/until.ts";
import { Bench, PATH, stateOf } from "./support.ts";

const ps = psTable(async (argv) => {
  const proc = Bun.spawn(argv, { env: { PATH, LC_ALL: "C" }, stdout: "pipe", stderr: "ignore" });
  return new Response(proc.stdout).text();
});

const nowhere: Trace = { id: "none", leader: null, mark: null, pipes: [] };

for (const [name, table] of [
  ["/proc", linuxTable],
  ["ps", ps],
] as [string, ProcessTable][]) {
  describe(`processes as ${name} tells them`, () => {
    test("one is found with its parent and its group, and is the same one later", async () => {
      await using bench = new Bench();
      const proc = Bun.spawn([bench.nap, "1000"], { detached: true });
      const found = await table.find(proc.pid);
      expect(found).toMatchObject({ pid: proc.pid, ppid: process.pid, pgid: proc.pid, zombie: false });
      const identity = { pid: proc.pid, start: found?.start ?? "" };
      expect(await isRunning(table, identity)).toBe(true);
      expect(await isRunning(table, { ...identity, start: "another" })).toBe(false);
      proc.kill("SIGKILL");
      await proc.exited;
      expect(await isRunning(table, identity)).toBe(false);
    });

    test("returns null for a number that no process has", async () => {
      expect(await table.find(2 ** 22 + 1)).toBeNull();
    });

    test("a trace is found by its group, its cookie and by descent; others are not", async () => {
      await using bench = new Bench();
      const leader = Bun.spawn(["sh", "-c", `env -i setsid ${bench.nap} 1000 & wait`], { detached: true });
      const env = { PATH, [COOKIE]: `${bench.name}.1` };
      const stray = Bun.spawn([bench.nap, "1000"], { detached: true, env });
      const other = Bun.spawn([bench.nap, "1000"], { detached: true, env: { [COOKIE]: `${bench.name}.10` } });
      await until(() => bench.naps().length === 3);
      const start = (await table.find(leader.pid))?.start ?? "";
      const trace = {
        ...nowhere,
        id: `${bench.name}.1`,
        leader: { pid: leader.pid, start, boot: table.boot() },
      };
      const found = (await table.members([trace])).get(trace.id)?.map(({ pid }) => pid);
      const grandchild = bench.naps().find((pid) => pid !== stray.pid && pid !== other.pid);
      expect(found?.sort()).toEqual([leader.pid, stray.pid, grandchild ?? 0].sort());
      leader.kill();
      await leader.exited;
    });

    test("a group whose number was reused by another leader is not the trace's", async () => {
      await using bench = new Bench();
      const proc = Bun.spawn([bench.nap, "1000"], { detached: true });
      const leader = { pid: proc.pid, start: "1", boot: table.boot() };
      expect((await table.members([{ ...nowhere, leader }])).get("none")).toEqual([]);
    });
  });
}

describe.if(process.platform === "linux")("a mark", () => {
  test("goes with a program and below it, and does not stay with us", async () => {
    await using bench = new Bench();
    const mark = tagOf(bench.name, 3);
    const before = readTag("self");
    const { started, marked } = withTag(mark, () =>
      Bun.spawn(["sh", "-c", `env -i setsid ${bench.nap} 1000 & wait`], { detached: true }),
    );
    await until(() => bench.naps().length === 1);
    const [nap = 0] = bench.naps();
    expect([marked, readTag(started.pid), readTag(nap), readTag("self")]).toEqual([true, mark, mark, before]);
    started.kill();
    await started.exited;
  });

  test("is seen on one that has ended and was not reaped", async () => {
    await using bench = new Bench();
    const mark = tagOf(bench.name, 4);
    const script = `${bench.nap} 0 & exec ${bench.nap} 1000`;
    const { started } = withTag(mark, () => Bun.spawn(["sh", "-c", script], { detached: true }));
    await until(() => bench.traces().some(({ state }) => state === "Z"));
    const zombie = bench.traces().find(({ state }) => state === "Z")?.pid ?? 0;
    expect([stateOf(zombie), readTag(zombie)]).toEqual(["Z", mark]);
    started.kill();
    await started.exited;
  });

  test("is another for each program and each kernel", () => {
    const marks = ["a", "b"].flatMap((kernel) => [0, 1, 2, 2 ** 24 - 1].map((n) => tagOf(kernel, n)));
    expect(new Set(marks).size).toBe(8);
  });

  test("is absent on an unmarked or missing process", () => {
    expect([readTag(1), readTag(2 ** 22 + 1)]).toEqual([null, null]);
  });
});
