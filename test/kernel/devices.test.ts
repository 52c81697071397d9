import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { procDevice } from "../../src/kernel/devices/kernel-tools.ts";
import type { AgentInfo, SkillInfo } from "../../src/kernel/types.ts";
import { type Device, O_RDONLY, SyscallError } from "../../src/plugin/index.ts";
import { testContext } from "../support/conformance/context.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { calls, KernelHarness, says, script, toolDevice } from "../support/kernel.ts";

const signal = new AbortController().signal;
const { context } = testContext("/tmp", {});
const OPERATOR = { ...context, process: { ...context.process, operator: true } };

describe("/proc", () => {
  test("a process's three files are snapshots made at open", async () => {
    const texts: Record<string, string> = {};
    const proc = procDevice({
      info: (pid) => h.kernel.processes.listProcs().find((info) => info.pid === pid),
      contextSummary: () => "summary",
      modelQueues: () => [],
    });
    const look = toolDevice("Look", async () => {
      for (const name of ["status", "intent", "context"]) {
        const file = await proc.factory(`/1/${name}`, O_RDONLY, OPERATOR);
        texts[name] = String(await file.read(100_000, signal));
        expect(await file.read(100_000, signal)).toBe("");
        await expect(file.write("x", signal)).rejects.toMatchObject({ code: "PERMISSION" });
        await file.close();
      }
      return "ok";
    });
    await using h = new KernelHarness({
      model: script(calls(["Look", {}]), says("done")),
      devices: { "/dev/look": look },
    });
    const { info } = await h.run("read yourself");
    expect(info.exit_code).toBe(0);
    const status = JSON.parse(texts.status ?? "");
    expect(Object.keys(status)).toEqual([
      "pid",
      "ppid",
      "state",
      "intent",
      "skills",
      "tokens_used",
      "elapsed_ms",
      "allowed_devices",
    ]);
    expect(status).toMatchObject({
      pid: 1,
      ppid: 0,
      state: "running",
      intent: "read yourself",
      tokens_used: 15,
    });
    expect(texts).toMatchObject({ intent: "read yourself", context: "summary" });
  });

  test("/proc/llm shows the queues of the model providers, and no key", async () => {
    let text = "";
    const proc = procDevice({
      info: () => undefined,
      contextSummary: () => "",
      modelQueues: () => h.kernel.modelQueues(),
    });
    const look = toolDevice("Look", async () => {
      const file = await proc.factory("/llm", O_RDONLY, OPERATOR);
      text = String(await file.read(100_000, signal));
      return "ok";
    });
    const limits = { requests: { limit: 50, remaining: 49, reset_ms: 1000 } };
    await using h = new KernelHarness({
      model: script([{ type: "limits", limits }, ...calls(["Look", {}])], says("done")),
      devices: { "/dev/look": look },
    });
    const provider = { ...h.opts().provider, name: "acme", gateKey: "acme:0123", requestsPerMinute: 50 };
    h.leases--;
    expect((await h.run("look", { provider })).info.exit_code).toBe(0);
    expect(text).not.toContain("0123");
    expect(JSON.parse(text)).toEqual({
      queues: [
        {
          provider: "acme",
          calls: 0,
          running: 0,
          waiting: 0,
          trees: 0,
          at_once: 16,
          at_once_max: 32,
          requests_last_minute: 1,
          requests_per_minute: 50,
          holds: [],
          reported: { m: limits },
          requests: 1,
          refused: 0,
        },
      ],
    });
  });

  test.each(["", "/", "/1", "/1/", "/1/other", "/x/status", "/99/status", "/1/status/more"])(
    "/proc%s is NOT_FOUND",
    (subpath) => {
      const proc = procDevice({ info: () => undefined, contextSummary: () => "", modelQueues: () => [] });
      expect(() => proc.factory(subpath, O_RDONLY, OPERATOR)).toThrow(
        expect.objectContaining({ code: "NOT_FOUND" }),
      );
    },
  );
});

describe("the tool Skill", () => {
  const skill = (name: string, allowedTools: string[] | null, body = `How to ${name}.`): SkillInfo => ({
    name,
    description: `For ${name}`,
    dir: `/skills/${name}`,
    allowedTools,
    body: async () => body,
  });
  const agent = (deferredSkills: SkillInfo[], allowedTools = ["*"]): AgentInfo => ({
    name: "skilled",
    description: "",
    instructions: "Work.",
    skills: [],
    deferredSkills,
    allowedTools,
    checks: [],
    source: "test",
  });
  const devices = { "/dev/a": toolDevice("A", () => "a"), "/dev/b": toolDevice("B", () => "b") };

  test.each([
    ["of some", ["A"]],
    ["of none", []],
    ["of what is not there", ["Nope"]],
    ["that is missing", null],
  ])("returns the skill's text; a list %s withdraws no tool", async (_what, listed) => {
    await using h = new KernelHarness({
      model: script(calls(["Skill", { skill: "careful" }]), calls(["A", {}], ["B", {}]), says("done")),
      devices,
    });
    const { info } = await h.run("go", {}, agent([skill("careful", listed)]));
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]).toMatchObject({ action: "specialize" });
    expect(records[0]?.tool_calls[0]?.result).toContain("How to careful.");
    expect(records[1]?.tool_calls.map(({ state }) => state)).toEqual(["done", "done"]);
    expect(info.skills).toEqual(["careful"]);
    expect(info.permissions).toEqual({ allow: [["*"]], deny: [] });
  });

  test("a list gives no tool that the agent lacks, and the model learns which", async () => {
    await using h = new KernelHarness({
      model: script(calls(["Skill", { skill: "wide" }]), calls(["A", {}], ["B", {}]), says("done")),
      devices,
    });
    const { info } = await h.run("go", {}, agent([skill("wide", ["A", "B"])], ["A", "Skill"]));
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.tool_calls[0]?.result).toContain("[You may not use these tools of it: B.]");
    expect(records[1]?.tool_calls.map(({ name, error_code }) => [name, error_code])).toEqual([
      ["A", null],
      ["B", "NOT_FOUND"],
    ]);
  });

  test.each([
    ["an unknown skill", [["Skill", { skill: "none" }]], "NOT_FOUND"],
    [
      "a skill that is loaded already",
      [
        ["Skill", { skill: "free" }],
        ["Skill", { skill: "free" }],
      ],
      "INVALID",
    ],
  ] as const)("%s fails", async (_what, wanted, code) => {
    await using h = new KernelHarness({
      model: script(
        calls(...wanted.map(([name, input]): [string, { skill: string }] => [name, input])),
        says("done"),
      ),
    });
    const { info } = await h.run("go", {}, agent([skill("free", null)]));
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.tool_calls.at(-1)?.error_code).toBe(code);
  });

  test("a tool that a skill requires and the agent lacks is named at spawn, for loaded and deferred skills", async () => {
    await using h = new KernelHarness({ model: script(says("done"), says("done"), says("done")), devices });
    const notices = async (run: AgentInfo, allow?: string[]): Promise<string[]> =>
      (await h.run("go", { allow }, run)).events.flatMap((one) => (one.event === "notice" ? [one.text] : []));
    const skilled = {
      ...agent([skill("later", ["B", "Nope(x *)"])], ["A", "Skill"]),
      skills: [skill("now", ["A", "B"]), skill("free", null), skill("covered", ["A"])],
    };
    expect(await notices(skilled)).toEqual([
      expect.stringMatching(/^Skill now .* B, which .*allowed_tools/),
      expect.stringMatching(/^Skill later .* B, Nope\(x \*\), which .*allowed_tools/),
    ]);
    expect(await notices(skilled, ["*"])).toEqual([expect.stringContaining("Nope(x *)")]);
    const many = ["a", "b", "c", "d"].map((name) => skill(name, ["Nope"]));
    expect(await notices({ ...agent(many), allowedTools: ["Skill"] })).toEqual([
      "Skills made for tools that this run may not use: a (Nope); b (Nope); c (Nope); d (Nope).",
    ]);
  });

  test("is absent for an agent without skills to load", async () => {
    await using h = new KernelHarness({ model: script(says("done")) });
    await h.run("go");
    expect(h.requests[0]?.tools?.map((tool) => tool.name)).toEqual(["Agent", "Complete", "ToolSearch"]);
  });
});

describe("files of a process", () => {
  test("an empty list of tools means none", async () => {
    const peek = toolDevice("Peek", () => "x");
    await using h = new KernelHarness({
      model: script(calls(["Peek", {}]), says("done")),
      devices: { "/dev/peek": peek },
    });
    const { info } = await h.run(
      "go",
      {},
      {
        name: "a",
        description: "",
        instructions: "",
        skills: [],
        deferredSkills: [],
        allowedTools: [],
        checks: [],
        source: "",
      },
    );
    expect(h.requests[0]?.tools).toEqual([]);
    expect(info).toMatchObject({ exit_code: 0, allowed_tools: [] });
  });

  test("a file that a factory returns after its deadline is closed", async () => {
    const late = Promise.withResolvers<void>();
    const opening = Promise.withResolvers<void>();
    const clock = new FakeClock();
    let closed = 0;
    const slow = toolDevice("Slow", () => "x", { timeoutMs: 20 });
    slow.factory = async () => {
      opening.resolve();
      await late.promise;
      return {
        write: async () => {},
        read: async () => "",
        close: async () => {
          closed++;
        },
        stat: async () => {
          throw new SyscallError("INTERNAL", "not asked");
        },
      };
    };
    await using h = new KernelHarness({
      model: script(calls(["Slow", {}]), says("done")),
      devices: { "/dev/slow": slow },
      limits: { grace: 10 },
    });
    const run = h.run("go");
    await opening.promise;
    await clock.advance(20);
    await clock.advance(3_000);
    expect((await run).info.exit_code).toBe(0);
    late.resolve();
    while (closed === 0) await new Promise((resolve) => setImmediate(resolve));
    expect(closed).toBe(1);
  });
});

test("unreadable lines of a plugin's log are left out, and reported in the kernel's log", async () => {
  const { tools } = toolDevice("Lines", () => "");
  const lines: Device = {
    tools,
    factory: (subpath, flags, context) =>
      toolDevice("Lines", async () =>
        JSON.stringify(await context.store?.lines("project", "asked", 0, 10)),
      ).factory(subpath, flags, context),
  };
  await using h = new KernelHarness({
    model: script(calls(["Lines", {}]), says("done")),
    devices: { "/dev/lines": lines },
    needs: { "/dev/lines": ["store"] },
  });
  mkdirSync(join(h.dataDir, "plugins/test"), { recursive: true });
  writeFileSync(join(h.dataDir, "plugins/test/asked"), '{"n":1}\nrubbish\n{"n":2}\n');
  await h.run("read them");
  expect(h.requests.at(-1)?.messages.at(-1)?.content).toBe('[{"n":1},{"n":2}]');
  expect(h.warnings).toEqual(["plugin test, PID 1: asked: damaged lines left out: 2"]);
});
