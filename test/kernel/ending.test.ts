import { describe, expect, test } from "bun:test";
import { readdirSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { bareAgent } from "../../src/kernel/process/process-spec.ts";
import { SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM } from "../../src/lib/signals.ts";
import { type Device, SyscallError } from "../../src/plugin/index.ts";
import { type FsPort, realFs } from "../../src/store/files/fs-port.ts";
import { FakeClock, passing, settled } from "../support/fake-clock.ts";
import { calls, KernelHarness, type Model, says, script, silent, toolDevice } from "../support/kernel.ts";
import { until } from "../support/until.ts";

describe("a spawn that fails", () => {
  /** A model whose device takes its time to open. */
  function slowToOpen(): { device: Device; opening: Promise<void> } {
    const opening = Promise.withResolvers<void>();
    const device: Device = {
      factory: () => {
        opening.resolve();
        return new Promise(() => {});
      },
    };
    return { device, opening: opening.promise };
  }

  /** Spawns a process whose model device is slow to open. */
  function spawnSlow(h: KernelHarness, more: Parameters<KernelHarness["opts"]>[0] = {}): Promise<number> {
    const opts = h.opts(more);
    const provider = { ...opts.provider, device: "/dev/llm/slow" };
    return h.kernel.processes.spawn("go", null, { ...opts, provider });
  }

  test("delays no other process: killed while its model is being opened, it lets its parent end", async () => {
    const clock = new FakeClock();
    const { device, opening } = slowToOpen();
    await using h = new KernelHarness({ model: silent, devices: { "/dev/llm/slow": device }, clock });
    const parent = await h.spawn("parent");
    const child = spawnSlow(h, { parentPid: parent });
    await opening;
    h.kernel.processes.kill(parent, SIGTERM);
    const refused = child.catch((error: unknown) => error);
    expect(await passing(clock, refused)).toMatchObject({ code: "CANCELLED" });
    expect((await h.follow(parent)).info).toMatchObject({ exit_code: 143, children: [] });
  });

  test("delays no shutdown either, and callers that wait for it get its end", async () => {
    const clock = new FakeClock();
    const { device, opening } = slowToOpen();
    await using h = new KernelHarness({ model: silent, devices: { "/dev/llm/slow": device }, clock });
    const spawned = spawnSlow(h);
    await opening;
    const waited = h.kernel.processes.wait(1);
    const shutdown = h.kernel.shutdown();
    const refused = spawned.catch((error: unknown) => error);
    expect(await passing(clock, refused)).toMatchObject({ code: "CANCELLED" });
    await shutdown;
    expect(await waited).toMatchObject({ code: 75, reason: "suspended" });
    expect(h.kernel.processes.count).toBe(0);
    expect(await h.runs.find("")).toEqual([]);
  });

  test("releases what other processes have given it while it ended", async () => {
    const clock = new FakeClock();
    const { device, opening } = slowToOpen();
    await using h = new KernelHarness({ model: silent, devices: { "/dev/llm/slow": device }, clock });
    const spawned = spawnSlow(h);
    await opening;
    const [info] = h.kernel.processes.infos();
    if (!info) throw new Error("the process is in no table");
    const { pid } = info;
    h.kernel.groups.joinGroup(pid, "early");
    h.kernel.signals.sigBlock(pid, SIGPAUSE);
    const trace = h.kernel.attachDebug(pid);
    const watch = h.kernel.attach(pid);
    h.kernel.processes.kill(pid, SIGTERM);
    const refused = spawned.catch((error: unknown) => error);
    expect(await passing(clock, refused)).toMatchObject({ code: "CANCELLED" });
    expect(h.kernel.resourceCounts()).toMatchObject({ processes: 0, groups: 0, signals: 0 });
    expect([trace.ended, watch.ended]).toEqual([true, true]);
  });

  test("leaves nothing when its first record can't be written", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({
      model: silent,
      clock,
      fs: failing((path) => path.endsWith("proc-info.json")),
    });
    await expect(h.spawn("go", { timeout_ms: 5_000 })).rejects.toMatchObject({
      code: "EXHAUSTED",
      syscall: "Spawn",
    });
    expect(h.kernel.processes.count).toBe(0);
    expect(h.openFiles).toBe(0);
    expect(clock.pending).toBe(0);
    expect(await h.runs.find("")).toEqual([]);
  });
});

test("a client that attaches while the end is written sees it once it is on disk, as all others do", async () => {
  const written = Promise.withResolvers<void>();
  const isEnding = (): boolean => h.kernel.processes.infos()[0]?.state === "zombie";
  const fs: FsPort = {
    ...realFs,
    fdatasync: async (fd) => {
      if (isEnding()) await written.promise;
      await realFs.fdatasync(fd);
    },
  };
  await using h = new KernelHarness({ model: () => says("done"), fs });
  const pid = await h.spawn("go");
  await until(isEnding, "its end");
  let completed = false;
  const following = (async () => {
    for await (const { event } of h.kernel.attach(pid)) if (event === "complete") completed = true;
  })();
  await settled();
  const early = completed;
  written.resolve();
  await following;
  expect({ early, completed }).toEqual({ early: false, completed: true });
  expect(await h.follow(pid)).toMatchObject({ info: { exit_code: 0, result: "done" } });
});

describe("a process ends despite a failure at its end:", () => {
  test("programs that can't be listed", async () => {
    await using h = new KernelHarness({ model: script(says("done")) });
    const endOwner = h.children.endOwner.bind(h.children);
    h.children.endOwner = () => Promise.reject(new Error("EMFILE: too many open files, scandir '/proc'"));
    const { info } = await h.run("go");
    expect(info).toMatchObject({ exit_code: 0, result: "done" });
    await until(() => h.kernel.processes.count === 0);
    expect(h.warnings.join()).toContain("EMFILE");
    h.children.endOwner = endOwner;
  });

  test("a callback that throws", async () => {
    const onComplete = (): void => {
      throw new Error("the embedder is broken");
    };
    await using h = new KernelHarness({
      model: script(says("done")),
      callbacks: { onComplete },
    });
    expect((await h.run("go")).info).toMatchObject({ exit_code: 0 });
    await until(() => h.kernel.processes.count === 0);
    expect(h.warnings.join()).toContain("the embedder is broken");
  });

  test("a record that can't be written: the verdict stands, and no file stays open", async () => {
    let broken = false;
    const act = toolDevice("Act", (_input, signal) => {
      broken = true;
      return new Promise((_resolve, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
      );
    });
    await using h = new KernelHarness({
      model: script(calls(["Act", {}])),
      devices: { "/dev/act": act },
      fs: failing(() => broken),
    });
    const pid = await h.spawn("go");
    await until(() => broken);
    h.kernel.processes.kill(pid, SIGTERM);
    expect((await h.follow(pid)).info).toMatchObject({ exit_code: 143, exit_reason: "terminated" });
    await until(() => h.kernel.processes.count === 0);
    expect(openBelow(h.dataDir)).toEqual([]);
  });
});

test("a defect in the end itself is reported, also to callers that wait for the process", async () => {
  await using h = new KernelHarness({ model: silent });
  let broken = false;
  const env = new Proxy<Record<string, string>>(
    {},
    {
      ownKeys: () => {
        if (broken) throw new Error("broken env");
        return [];
      },
    },
  );
  const pid = await h.spawn("go", { env });
  broken = true;
  h.kernel.processes.kill(pid, SIGTERM);
  expect(await h.kernel.processes.wait(pid)).toMatchObject({ code: 143 });
  expect(h.kernel.processes.count).toBe(0);
  expect(h.warnings.join()).toContain("finish: Finish: broken env");
});

describe("a disk that is full for the trace", () => {
  test("fails no call: the run ends with its own reason, at its step's record", async () => {
    const seen: unknown[] = [];
    const look = toolDevice("Look", () => "ok", { annotations: { readOnlyHint: true } });
    const many = Array.from({ length: 80 }, (): [string, Record<string, unknown>] => ["Look", {}]);
    await using h = new KernelHarness({
      model: script(calls(...many), says("never")),
      devices: { "/dev/look": look },
      fs: failing((path) => path.endsWith("events.jsonl")),
    });
    const { info, events } = await h.run("go");
    for (const event of events)
      if (event.event === "log" && event.entry.kind === "result") seen.push(event.entry.text);
    expect(seen).toEqual(Array(80).fill("ok"));
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "record_error", error: { code: "EXHAUSTED" } });
    expect(openBelow(h.dataDir)).toEqual([]);
  });
});

test("a result that can't be stored beside the run is shown in part", async () => {
  const act = toolDevice("Act", () => "x".repeat(1_000), { maxResult: 100 });
  await using h = new KernelHarness({
    model: script(calls(["Act", {}]), says("done")),
    devices: { "/dev/act": act },
    fs: {
      ...realFs,
      open: (path, mode) => {
        if (path.includes("/results/")) throw Object.assign(new Error("no space left"), { code: "ENOSPC" });
        return realFs.open(path, mode);
      },
    },
  });
  const { info } = await h.run("go");
  expect(info.exit_code).toBe(0);
  const { records } = await h.runs.steps(info.uuid);
  expect(records[0]?.tool_calls[0]).toMatchObject({ state: "done" });
  expect(records[0]?.tool_calls[0]?.result).toContain("could not be stored");
});

describe("a driver that fails at its close", () => {
  test.each([
    ["after it answered", (): string => "answered", { state: "done", result: "answered" }],
    [
      "after it failed",
      (): string => {
        throw new SyscallError("UNAVAILABLE", "not now");
      },
      { state: "failed", error_code: "UNAVAILABLE" },
    ],
  ] as const)("does not change its call's result: %s", async (_when, run, outcome) => {
    const device = toolDevice("Act", run);
    await using h = new KernelHarness({
      model: script(calls(["Act", {}]), says("done")),
      devices: {
        "/dev/act": {
          ...device,
          factory: async (...args) => {
            const file = await device.factory(...args);
            file.close = () => Promise.reject(new Error("broken close"));
            return file;
          },
        },
      },
    });
    const { info } = await h.run("go");
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.tool_calls[0]).toMatchObject(outcome);
    const { records: traced } = await h.runs.events(info.uuid);
    expect(traced.filter((event) => event.syscall === "Close" && event.error_code === "DRIVER")).toHaveLength(
      1,
    );
  });
});

test("a check that is declared twice, by the agent and by the spawner, runs once", async () => {
  await using h = new KernelHarness({ model: script(says("done")) });
  const agent = bareAgent("checked");
  const { info } = await h.run(
    "go",
    { check: ["echo x >> ran", "true"] },
    { ...agent, checks: ["echo x >> ran"] },
  );
  expect(info.checks.map(({ command }) => command)).toEqual(["echo x >> ran", "true"]);
  expect(await Bun.file(`${h.project}/ran`).text()).toBe("x\n");
});

describe("during the checks", () => {
  test.each([
    ["a kill", 143, "terminated"],
    ["the time limit", 1, "timeout"],
  ])("%s ends the check too", async (what, code, reason) => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: script(says("done")), clock });
    const pid = await h.spawn("go", { check: ["exec sleep 60"], timeout_ms: what === "a kill" ? null : 300 });
    await until(() => h.children.list().length === 1);
    if (what === "a kill") h.kernel.processes.kill(pid, SIGTERM);
    else await clock.advance(300);
    expect((await h.follow(pid)).info).toMatchObject({
      exit_code: code,
      exit_reason: reason,
      result: "done",
    });
  });

  test("a child that a check left running is ended before the verdict, and counts in it", async () => {
    const ready = Promise.withResolvers<void>();
    const model: Model = (request, signal) => {
      if (request.intent === "parent") return says("done");
      ready.resolve();
      return silent(request, signal);
    };
    await using h = new KernelHarness({ model });
    const go = join(h.dir, "go");
    const parent = await h.spawn("parent", { check: [`while [ ! -e ${go} ]; do :; done`] });
    await until(() => h.children.list().length === 1);
    const child = h.follow(await h.spawn("child", { parentPid: parent }));
    await ready.promise;
    await Bun.write(go, "");
    expect((await child).info).toMatchObject({ exit_code: 143 });
    const { info } = await h.follow(parent);
    expect(info.checks).toMatchObject([{ exit_code: 0 }]);
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "failed", children: [{ exit_code: 143 }] });
  });
});

describe("a pause at the end", () => {
  test("does not pause an ended run, and its clock is stopped", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: silent, clock });
    const pid = await h.spawn("go", { timeout_ms: 10_000 });
    h.kernel.processes.kill(pid, SIGPAUSE);
    h.kernel.processes.kill(pid, SIGKILL);
    h.kernel.processes.kill(pid, SIGRESUME);
    const { info } = await h.follow(pid);
    expect(info).toMatchObject({ exit_reason: "killed_while_paused", is_paused: false, paused_at_ms: 0 });
    await until(() => h.kernel.processes.count === 0);
    expect(clock.pending).toBe(0);
  });

  test("a signal reaches the whole tree also when a record can't be written", async () => {
    let broken = false;
    await using h = new KernelHarness({
      model: silent,
      fs: failing((path) => broken && path.endsWith("proc-info.json")),
    });
    const parent = await h.spawn("parent");
    const child = await h.spawn("child", { parentPid: parent });
    broken = true;
    expect(h.kernel.signals.signalTree(parent, SIGPAUSE)).toBe(2);
    expect([parent, child].map((pid) => h.kernel.processes.info(pid).is_paused)).toEqual([true, true]);
    broken = false;
  });
});

/** A disk that takes nothing more for the files that are named. */
function failing(which: (path: string) => boolean): FsPort {
  const names = new Map<number, string>();
  const full = (): never => {
    throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  };
  return {
    ...realFs,
    open(path, mode) {
      const fd = realFs.open(path, mode);
      names.set(fd, path);
      return fd;
    },
    write: (fd, data) => (which(names.get(fd) ?? "") ? full() : realFs.write(fd, data)),
    rename: (from, to) => (which(to) ? full() : realFs.rename(from, to)),
  };
}

/** The files below a folder that this process holds open. */
function openBelow(dir: string): string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    const path = linkOf(fd);
    return path.startsWith(dir) ? [path] : [];
  });
}

function linkOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return ""; // The descriptor of the listing itself.
  }
}
