import { describe, expect, test } from "bun:test";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { type RunQuery, SyscallError } from "../../../src/plugin/index.ts";
import type { SpawnRequest } from "../../../src/protocol/methods.ts";
import { planReplay } from "../../../src/server/plan/plan-replay.ts";
import { compareRuns } from "../../../src/server/records/compare-runs.ts";
import { driverHistory } from "../../../src/server/records/driver-search.ts";
import { History } from "../../../src/server/records/history.ts";
import { RunStore } from "../../../src/store/runs/run-store.ts";
import type { ProcessMeta, ProcInfo, StepRecord, ToolCallRecord } from "../../../src/store/runs/schema.ts";
import { stepRecord } from "../../store/samples.ts";
import { procInfo } from "../../support/samples.ts";
import { optsOf, serve, TempDir } from "../support/fixture.ts";

const UUID = "019a0000-0000-7000-8000-000000000001";
const NOW = "019a0000-0000-7000-8000-000000000002";

const META: ProcessMeta = {
  v: 1,
  system_prompt: "Be careful.\n\n# Environment\nProject folder: /project\nDate: 2026-01-01",
  tools: [{ name: "Bash", description: "Runs a command", input: {} }],
  spawned: { input: "attached", checks: ["npm test"], folders: [], depth: null, system_prompt: "Be brief." },
};

function call(more: Partial<ToolCallRecord> = {}): ToolCallRecord {
  return {
    id: "c1",
    name: "Bash",
    path: "/dev/shell",
    input: { command: "ls" },
    result: "a.ts",
    error: null,
    error_code: null,
    started_at: "2026-01-01T00:00:00.000Z",
    duration_ms: 1,
    state: "done",
    ...more,
  };
}

function step(n: number, content: string, ...calls: ToolCallRecord[]): StepRecord {
  const tool_calls = calls.map(({ id, name, input }) => ({ id, name, input }));
  return {
    ...stepRecord(n),
    messages: [{ role: "assistant", content, ...(calls.length > 0 && { tool_calls }) }],
    tool_calls: calls,
  };
}

const ENDED: Partial<ProcInfo> = {
  state: "dead",
  ended_at_ms: 1,
  exit_code: 0,
  exit_reason: "completed",
  result: "done",
};

/** A run in a data folder, as its kernel would have left it. */
async function record(
  dir: string,
  uuid: string,
  o: { info?: Partial<ProcInfo>; meta?: ProcessMeta; steps?: StepRecord[] } = {},
): Promise<string> {
  const writer = new RunStore(dir).create(uuid);
  writer.meta(o.meta ?? META);
  for (const one of o.steps ?? [step(1, "", call()), step(2, "done")]) writer.step(one);
  writer.info(procInfo({ uuid, ...ENDED, steps: 2, ...o.info }));
  await writer.close();
  return writer.dir;
}

function historyOf(...dirs: string[]): History {
  const stores = new Map(dirs.map((dir) => [dir, new RunStore(dir)]));
  return new History({
    dataDirs: () => dirs,
    open: (dir) => stores.get(dir) ?? new RunStore(dir),
    kernelAlive: () => true,
  });
}

describe("the history that drivers read", () => {
  test("filters runs by project, agent, verdict and time, each alone and together", async () => {
    using one = new TempDir();
    const uuidOf = (n: number): string => `019a0000-0000-7000-8000-00000000000${n}`;
    const write = (n: number, more: Partial<ProcInfo>): Promise<string> =>
      record(one.path, uuidOf(n), { info: { pid: n, created_at_ms: n * 100, ...more } });
    await write(1, { project: "/a", agent: "coder", exit_reason: "completed" });
    await write(2, { project: "/b", agent: "coder", exit_reason: "check_failed", exit_code: 1 });
    await write(3, { project: "/a", agent: "writer", exit_reason: "check_failed", exit_code: 1 });
    await write(4, { project: "/a", agent: "coder", ended_at_ms: null, exit_reason: null, exit_code: null });
    const history = driverHistory(historyOf(one.path));
    const cases: [query: Omit<RunQuery, "limit">, pids: number[]][] = [
      [{ project: "/a" }, [1, 3, 4]],
      [{ agent: "coder" }, [1, 2, 4]],
      [{ verdict: "check_failed" }, [2, 3]],
      [{ since_ms: 200 }, [2, 3, 4]],
      [{ until_ms: 300 }, [1, 2]],
      [{ project: "/a", agent: "coder" }, [1, 4]],
      [{ project: "/a", verdict: "check_failed", since_ms: 200 }, [3]],
      [{ uuid: "019a", agent: "coder", until_ms: 300 }, [1, 2]],
      [{ uuid: "019a", after: uuidOf(2) }, [3, 4]],
      [{ agent: "coder", after: uuidOf(1) }, [2, 4]],
      [{ project: "/c" }, []],
    ];
    for (const [query, pids] of cases) {
      const found = await history.runs({ ...query, limit: 10 });
      expect(
        found.map(({ pid }) => pid),
        JSON.stringify(query),
      ).toEqual(pids);
    }
    expect((await history.runs({ agent: "coder", limit: 2 })).map(({ pid }) => pid)).toEqual([1, 2]);
  });

  test("finds runs by a UUID prefix and by their parent, in all projects", async () => {
    using one = new TempDir();
    using other = new TempDir();
    await record(one.path, UUID);
    await record(other.path, NOW, { info: { parent_uuid: UUID, agent: "helper", intent: "help" } });
    const history = driverHistory(historyOf(one.path, other.path));
    const runs = async (query: Parameters<typeof history.runs>[0]) =>
      (await history.runs(query)).map(({ uuid, agent }) => [uuid, agent]);
    expect(await runs({ uuid: "019A0000", limit: 9 })).toEqual([
      [UUID, "default"],
      [NOW, "helper"],
    ]);
    expect(await runs({ uuid: "019a0000", limit: 1 })).toHaveLength(1);
    expect(await runs({ parent: UUID, limit: 9 })).toEqual([[NOW, "helper"]]);
    expect(await runs({ uuid: "0fff", limit: 9 })).toEqual([]);
    expect(await runs({ limit: 9 })).toEqual([
      [UUID, "default"],
      [NOW, "helper"],
    ]);
    expect(await runs({ limit: 1 })).toEqual([[UUID, "default"]]);
    expect(await runs({ after: UUID, limit: 9 })).toEqual([[NOW, "helper"]]);
    for (const query of [{ uuid: "../x", limit: 1 }, { uuid: "0", limit: -1 }, { limit: 0.5 }]) {
      await expect(history.runs(query)).rejects.toMatchObject({ code: "INVALID" });
    }
  });

  test("reads steps by number, and leaves out damaged ones", async () => {
    using dir = new TempDir();
    const run = await record(dir.path, UUID, { steps: [step(1, "one"), step(2, "two")] });
    appendFileSync(join(run, "steps.jsonl"), "damaged\n");
    const { steps } = driverHistory(historyOf(dir.path));
    const numbers = async (after: number, max: number) =>
      (await steps(UUID, after, max)).map((one) => ("step" in one ? one.step : null));
    expect(await numbers(0, 9)).toEqual([1, 2]);
    expect(await numbers(0, 1)).toEqual([1]);
    expect(await numbers(1, 9)).toEqual([2]);
    expect(await numbers(2, 9)).toEqual([]);
    await expect(steps(NOW, 0, 9)).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(steps(UUID, -1, 9)).rejects.toMatchObject({ code: "INVALID" });
    // What a driver plays is executed: no step of another writer.
    appendFileSync(join(run, "steps.jsonl"), `${JSON.stringify(step(3, "three"))}\n`);
    await expect(steps(UUID, 0, 9)).rejects.toMatchObject({ code: "PERMISSION" });
  });
});

describe("the replay of a recorded run", () => {
  async function planned(dir: string, info: Partial<ProcInfo>, request = {}, agent = {}) {
    await record(dir, UUID, { info: { cwd: dir, ...info } });
    const run = await historyOf(dir).byUuid(UUID);
    if (!run) throw new Error("the run is not there");
    const asked: SpawnRequest[] = [];
    const plan = await planReplay(run, { env: { PATH: "/today", KEY: "k" }, ...request }, async (spawn) => {
      asked.push(spawn);
      const found = { name: "default", description: "", instructions: "", skills: [], deferredSkills: [] };
      return {
        agent: { ...found, allowedTools: ["*"], checks: [], source: "", ...agent },
        opts: optsOf(spawn.cwd ?? dir),
        notices: ["a notice"],
      };
    });
    return { asked: asked[0], plan };
  }

  test("has the recorded intent, attachments, rights and folder", async () => {
    using dir = new TempDir();
    const { asked, plan } = await planned(dir.path, {
      permissions: { allow: [["Read"], ["*"]], deny: ["Bash"], fixed: true },
      env: { names: ["PATH", "MODE", "TOKEN"], values: { PATH: "/then", MODE: "test" } },
    });
    expect(asked).toMatchObject({
      intent: "do it",
      agent: "default",
      provider: "replay",
      model: UUID,
      cwd: dir.path,
      input: "attached",
      system_prompt: "Be brief.",
      check: ["npm test"],
      allow: ["Read"],
      deny: ["Bash"],
      env: { PATH: "/today", KEY: "k", MODE: "test" },
    });
    expect(plan.notices).toEqual([`its tools are executed for real, in ${dir.path}`, "a notice"]);
  });

  test("has the limits of today's agent, else its own, and no cost limit", async () => {
    using dir = new TempDir();
    const limits = { max_steps: 7, context_budget: 900, timeout_ms: 60_000, max_cost: 1 };
    const { plan } = await planned(dir.path, limits, {}, { max_steps: 9 });
    expect(plan.opts).toMatchObject({ context_budget: 900, timeout_ms: 60_000, max_cost: null });
    expect(plan.opts.max_steps).toBeUndefined();
  });

  test("may have another folder, another comparison, and no rights of a flag", async () => {
    using dir = new TempDir();
    const { asked } = await planned(dir.path, {}, { folder: "/elsewhere", compare: "state" });
    expect(asked).toMatchObject({ cwd: "/elsewhere", model: `${UUID}:state` });
    expect([asked?.allow, asked?.deny]).toEqual([undefined, undefined]);
  });

  test("is refused while the run is live, when its folder is missing, and when steps are missing", async () => {
    for (const info of [{ ended_at_ms: null }, { cwd: "/no/such/folder" }, { steps: 4 }]) {
      using dir = new TempDir();
      await expect(planned(dir.path, info)).rejects.toBeInstanceOf(SyscallError);
    }
  });
});

describe("two runs are compared", () => {
  const grid: [string, Parameters<typeof record>[2], string[]][] = [
    ["the same", {}, []],
    [
      "another day and folder",
      {
        meta: {
          ...META,
          system_prompt: META.system_prompt.replace("2026-01-01", "2027-01-01").replace("/project", "/other"),
        },
      },
      [],
    ],
    [
      "another prompt",
      { meta: { ...META, system_prompt: META.system_prompt.replace("careful", "quick") } },
      ["prompt: the system prompt"],
    ],
    [
      "another tool",
      { meta: { ...META, tools: [...META.tools, { name: "Read", description: "", input: {} }] } },
      ["tools: tools offered"],
    ],
    [
      "another description",
      { meta: { ...META, tools: [{ name: "Bash", description: "Runs", input: {} }] } },
      ["tools: the description of the tool Bash"],
    ],
    [
      "another input",
      {
        meta: {
          ...META,
          tools: [{ name: "Bash", description: "Runs a command", input: { type: "object" } }],
        },
      },
      ["tools: the input of the tool Bash"],
    ],
    [
      "other rights",
      { info: { allowed_tools: ["Read"], permissions: { allow: [["Read"]], deny: ["Bash"] } } },
      ["rights: allowed tools", "rights: denied tools"],
    ],
    ["other limits", { info: { max_steps: null, max_cost: 5 } }, ["limits: max_steps"]],
    ["another check", { info: { checks: [{ command: "npm test", exit_code: 0 }] } }, ["outcome: the checks"]],
    ["another end", { info: { exit_code: 1, exit_reason: "check_failed" } }, ["outcome: how it ended"]],
    ["another answer", { info: { result: "not done" } }, ["outcome: the result"]],
    [
      "another call in the last step",
      {
        steps: [step(1, "", call({ state: "failed", error: "no", error_code: "TIMEOUT" })), step(2, "done")],
      },
      ["result: how the calls of step 1 went"],
    ],
    ["fewer steps", { steps: [step(1, "", call())] }, ["outcome: steps"]],
    [
      "a divergence, which is the only thing that counts of how it went",
      {
        info: {
          exit_code: 1,
          exit_reason: "llm_error",
          result: null,
          error: { code: "INVALID", message: "it diverges" },
          steps: 3,
        },
        steps: [step(1, "", call({ state: "failed" }))],
      },
      ["result: it diverges"],
    ],
    [
      "a model that fails for another reason",
      { info: { exit_code: 1, exit_reason: "llm_error", error: { code: "UNAVAILABLE", message: "gone" } } },
      ["outcome: how it ended: gone"],
    ],
  ];
  for (const [title, today, differences] of grid) {
    test(`${title}: ${differences.length === 0 ? "no difference" : differences.join(", ")}`, async () => {
      using dir = new TempDir();
      await record(dir.path, UUID);
      await record(dir.path, NOW, today);
      const history = historyOf(dir.path);
      const [before, after] = [await history.byUuid(UUID), await history.byUuid(NOW)];
      if (!before || !after) throw new Error("a run is not there");
      const { differences: found } = await compareRuns(before, after);
      expect(found.map(({ kind, message }) => `${kind}: ${message}`)).toEqual(differences);
      for (const { recorded, replayed } of found)
        expect(recorded).not.toBe(replayed === null ? "" : replayed);
    });
  }
});

test("a call that was cut off matches every result", async () => {
  using dir = new TempDir();
  const cut = call({ state: "cancelled", result: null, error: "cut off", error_code: "CANCELLED" });
  await record(dir.path, UUID, { steps: [step(1, "", call(), cut), step(2, "done")] });
  await record(dir.path, NOW, {
    steps: [step(1, "", call(), call({ id: "c2" }), call({ id: "c3" })), step(2, "done")],
  });
  const history = historyOf(dir.path);
  const [before, after] = [await history.byUuid(UUID), await history.byUuid(NOW)];
  expect(before && after && (await compareRuns(before, after)).differences).toEqual([]);
});

describe("export_script", () => {
  test("exports a run in pages: its head once, its answers, and the expected results of their calls", async () => {
    await using server = await serve("memory");
    const long = Array.from({ length: 400 }, (_, n) => `line ${n}`).join("\n");
    const steps = [
      step(
        1,
        "looking",
        call(),
        call({
          id: "c2",
          name: "Read",
          result: null,
          error: "no such file",
          error_code: "NOT_FOUND",
          state: "failed",
        }),
      ),
      step(2, "", call({ result: long }), call({ id: "c2", state: "unknown", result: null })),
      { ...step(3, "done"), stop_reason: "max_tokens", reasoning: "hm" } as const,
    ];
    await record(server.dir, UUID, { steps });
    await record(server.dir, NOW, { info: { parent_uuid: UUID } });
    const client = await server.client();
    const first = await client.request("export_script", { uuid: UUID, limit: 2 });
    expect(first).toMatchObject({
      head: {
        intent: "do it",
        agent: "default",
        input: "attached",
        checks: ["npm test"],
        outcome: { exit_code: 0 },
      },
      children: [NOW],
      next: 2,
    });
    const [one, two] = first.responses;
    expect(one).toEqual({
      text: "looking",
      tool_calls: [
        { id: "c1", name: "Bash", input: { command: "ls" }, expect: { equals: "a.ts" } },
        {
          id: "c2",
          name: "Read",
          input: { command: "ls" },
          expect: { equals: "Error NOT_FOUND: no such file" },
        },
      ],
      usage: steps[0]?.usage ?? { input_tokens: 0, output_tokens: 0, cached_tokens: 0 },
    });
    const [cut, unknown] = two?.tool_calls ?? [];
    expect(cut?.expect?.contains).toHaveLength(2);
    for (const part of cut?.expect?.contains ?? []) expect(long).toContain(part);
    expect(cut?.expect?.contains?.[0]).toStartWith("line 0\n");
    expect(cut?.expect?.contains?.[1]).toEndWith("line 399");
    expect(unknown?.expect).toBeUndefined();
    const last = await client.request("export_script", { uuid: UUID, after: 2, limit: 2 });
    expect(last).toMatchObject({ head: null, children: [], next: null });
    expect(last.responses).toMatchObject([{ text: "done", reasoning: "hm", stop_reason: "max_tokens" }]);
  });

  test("is refused for an unreadable step, but not for the torn end of a crashed run", async () => {
    await using server = await serve("memory");
    const dir = await record(server.dir, UUID);
    const file = join(dir, "steps.jsonl");
    const client = await server.client();
    appendFileSync(file, '{"v":1,"torn');
    expect((await client.request("export_script", { uuid: UUID })).responses).toHaveLength(2);
    appendFileSync(file, `\n${JSON.stringify(step(4, "four"))}\n`);
    await expect(client.request("export_script", { uuid: UUID })).rejects.toMatchObject({ code: "INVALID" });
  });

  test("has the options of the spawn, and limits other than the default", async () => {
    const permissions: ProcInfo["permissions"] = { allow: [["Read"], ["*"]], deny: ["Bash"], fixed: true };
    await using server = await serve("memory");
    await record(server.dir, UUID, { info: { max_steps: 9, context_budget: 5_000, permissions } });
    await record(server.dir, NOW, { info: { timeout_ms: null } });
    const client = await server.client();
    const limits = async (uuid: string) => (await client.request("export_script", { uuid })).head?.limits;
    const { head } = await client.request("export_script", { uuid: UUID });
    expect([head?.system_prompt, head?.allow, head?.deny]).toEqual(["Be brief.", ["Read"], ["Bash"]]);
    expect(await limits(UUID)).toEqual({ max_steps: 9, context_budget: 5_000 });
    expect(await limits(NOW)).toEqual({ timeout_ms: "unlimited" });
  });

  test("of a supervisor is refused, because it has no model answers", async () => {
    await using server = await serve("memory");
    await record(server.dir, UUID, { info: { kind: "supervisor" } });
    const client = await server.client();
    await expect(client.request("export_script", { uuid: UUID })).rejects.toMatchObject({ code: "INVALID" });
  });
});
