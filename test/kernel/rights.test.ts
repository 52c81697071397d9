import { describe, expect, test } from "bun:test";
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, toolDevice } from "../support/kernel.ts";
import { until } from "../support/until.ts";

/** The parent waits for its end; a child makes these calls and finishes. */
function parentAnd(...child: Parameters<typeof calls>): Model {
  return (request, signal) => {
    if (request.intent !== "parent") return request.messages.length === 1 ? calls(...child) : says("done");
    return new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(new SyscallError("CANCELLED", "cancelled")));
    });
  };
}

describe("a child has at most its parent's rights, for every way to spawn it", () => {
  test("a pattern of the parent's means the same files in the child's folder", async () => {
    const read = toolDevice("Read", (input) => `read ${input.path}`, {
      subject: "path",
      input: { type: "object", properties: { path: { type: "string" } } },
    });
    await using h = new KernelHarness({
      model: parentAnd(["Read", { path: "src/key" }], ["Read", { path: "../src/a" }]),
      devices: { "/dev/fs": read },
    });
    for (const dir of ["src", "hidden/src"]) mkdirSync(join(h.project, dir), { recursive: true });
    const parentPid = await h.spawn("parent", { allow: ["Read(src/**)"] });
    const { info } = await h.run("child", { parentPid, allow: ["Read"], cwd: join(h.project, "hidden") });
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.tool_calls.map((call) => call.state)).toEqual(["denied", "done"]);
  });

  test("its project and its folders are within those of its parent, links followed", async () => {
    await using h = new KernelHarness({ model: parentAnd(["Plan", { steps: ["x"] }]) });
    const added = join(h.dir, "added");
    for (const dir of [join(added, "sub"), join(h.project, "inner"), join(h.dir, "other")])
      mkdirSync(dir, { recursive: true });
    symlinkSync(join(h.dir, "other"), join(h.project, "link"));
    const parentPid = await h.spawn("parent", { folders: [added] });
    const project = (dir: string) => ({ id: "o", dir, dataDir: h.dataDir, trusted: true });
    const refused = [
      { project: project(join(h.dir, "other")) },
      { folders: [h.dir] },
      { folders: ["/"] },
      { folders: [join(h.project, "link")] },
    ];
    for (const more of refused) {
      const spawned = h.spawn("child", { parentPid, ...more }).catch((error: unknown) => error);
      expect(await spawned).toMatchObject({ code: "PERMISSION" });
    }
    const inside = [
      { project: project(join(h.project, "inner")) },
      { folders: [join(added, "sub"), h.project] },
    ];
    for (const more of inside) expect((await h.run("child", { parentPid, ...more })).info.exit_code).toBe(0);
  });

  test("depth and number of children are limited by the first ancestor", async () => {
    await using h = new KernelHarness({ model: parentAnd(), limits: { spawn_depth: 1, live_children: 1 } });
    const wide = { ...h.opts().limits, spawn_depth: 100, live_children: 100 };
    h.leases--;
    const parent = await h.spawn("parent");
    const child = await h.spawn("parent", { parentPid: parent, limits: wide });
    const below = h.spawn("child", { parentPid: child, limits: wide }).catch((error: unknown) => error);
    expect(await below).toMatchObject({ code: "EXHAUSTED" });
  });
});

describe("a budget covers the whole tree", () => {
  /** Plans for ever, a hundred tokens at a time. */
  const busy: Model = (request) => {
    if (request.intent === "parent") return calls(["Wait", {}]);
    return [
      ...calls(["Plan", { steps: [String(request.messages.length)] }]).filter(({ type }) => type !== "usage"),
      { type: "usage", usage: { input_tokens: 80, output_tokens: 20, cached_tokens: 0 } },
    ];
  };

  /** Until the process is asked to stop. */
  const wait = toolDevice("Wait", (_input, signal) => {
    return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });

  test("sibling children together use at most what their parent has, and the parent shows their use", async () => {
    await using h = new KernelHarness({ model: busy, devices: { "/dev/wait": wait } });
    const price = { input: 1, output: 1, cached: 1 };
    const provider = { ...h.opts().provider, maxOutput: 20, price };
    h.leases--;
    const parentPid = await h.spawn("parent", { context_budget: 3_000, provider });
    await until(() => h.kernel.processes.info(parentPid).tool_calls === 1);
    const runs = await Promise.all([1, 2, 3, 4].map(() => h.run("child", { parentPid, provider })));
    const used = runs.map(({ info }) => info.tokens_used);
    const total = used.reduce((sum, tokens) => sum + tokens, 15);
    expect(runs.map(({ info }) => info.exit_reason)).toEqual(Array(4).fill("budget_exceeded"));
    expect(total).toBeGreaterThan(1_000);
    expect(total).toBeLessThanOrEqual(3_000);
    const parent = h.kernel.processes.info(parentPid);
    expect(parent).toMatchObject({ tokens_used: total, usage: { input_tokens: 10 } });
    expect(parent.cost_usd).toBeCloseTo(total / 1_000_000);
    h.kernel.processes.kill(parentPid, 1);
    expect((await h.follow(parentPid)).info.tokens_used).toBe(total);
  });
});
