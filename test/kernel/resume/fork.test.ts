import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ResumeOptions } from "../../../src/kernel/agents/run-resumer.ts";
import type { AgentInfo, SkillInfo, SpawnOpts } from "../../../src/kernel/types.ts";
import type { LLMMessage, LLMRequest } from "../../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, script, silent, toolDevice } from "../../support/kernel.ts";
import { crashInto } from "../../support/sealed-record.ts";
import { until } from "../../support/until.ts";

setDefaultTimeout(120_000);

const READ_ONLY = { annotations: { readOnlyHint: true } };
const LONG = "x".repeat(500);

function skill(name: string, allowedTools: string[] | null): SkillInfo {
  return { name, description: name, dir: "", allowedTools, body: async () => `How to ${name}.` };
}

const AGENT: AgentInfo = {
  name: "worker",
  description: "",
  instructions: "You work.",
  skills: [],
  deferredSkills: [skill("look", ["Look", "Shout", "Agent"])],
  allowedTools: ["*"],
  checks: [],
  source: "test",
};

async function forked(
  h: KernelHarness,
  uuid: string,
  o: { step?: number; input?: string; opts?: Partial<SpawnOpts>; agent?: AgentInfo } = {},
) {
  const { step, input, agent = AGENT } = o;
  const made = await h.kernel.lifecycle.resume(uuid, agent, h.opts(o.opts), { input, fork: { step } });
  return { ...made, ...(await h.follow(made.pid)) };
}

function refused(h: KernelHarness, uuid: string, o: ResumeOptions): Promise<unknown> {
  return h.kernel.lifecycle.resume(uuid, AGENT, h.opts(), o).catch((error: unknown) => error);
}

/** Every file below it with its bytes. */
function contentOf(dir: string): Record<string, string> {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    files.map(({ parentPath, name }) => [
      join(parentPath, name),
      readFileSync(join(parentPath, name), "hex"),
    ]),
  );
}

/** What arrived from outside since the step before is not of that step. */
function withoutNews(messages: readonly LLMMessage[]): readonly LLMMessage[] {
  return messages.length > 1 && messages.at(-1)?.role === "user" ? messages.slice(0, -1) : messages;
}

/** A run with steps of every kind; what forks of it ask is answered with "forked". */
async function longRun(forks: Model = () => says("forked")) {
  let asked = 0;
  const answers = script(
    calls(["Plan", { steps: ["one", "two"] }]),
    calls(["Look", { n: 1 }], ["Look", { n: 2 }]),
    calls(["Shout", {}], ["Denied", {}]),
    calls(["Fail", {}]),
    calls(["Skill", { skill: "look" }]),
    calls(["Agent", { intent: "child" }]),
    calls(["Plan", { steps: ["three"] }]),
    calls(["Act", {}], ["Look", { n: 3 }]),
    calls(["Look", { n: 4 }]),
    calls(["Complete", { result: "the end" }]),
  );
  const model: Model = (request, signal) => {
    if (request.intent === "child") return says("child's answer");
    return ++asked <= 10 ? answers(request, signal) : forks(request, signal);
  };
  const h: KernelHarness = new KernelHarness({
    model,
    limits: { tool_result_chars: 200 },
    devices: {
      "/dev/look": toolDevice("Look", ({ n }) => (n === 2 ? LONG : `seen ${n}`), READ_ONLY),
      "/dev/shout": toolDevice("Shout", async () => {
        await h.kernel.ipc.send(0, 1, "hear me");
        return "shouted";
      }),
      "/dev/fail": toolDevice("Fail", () => Promise.reject(new Error("it does not work"))),
      "/dev/denied": toolDevice("Denied", () => "never"),
      "/dev/act": toolDevice("Act", () => "acted"),
    },
  });
  const { info } = await h.run(
    "go",
    { deny: ["Denied"], input: "attached", system_prompt: "Be brief." },
    AGENT,
  );
  await until(() => h.kernel.processes.count === 0);
  const requests = h.requests.filter(({ intent }) => intent === "go");
  return { h, uuid: info.uuid, info, requests };
}

describe("a fork", () => {
  test("from every step sends the request that the run sent next, and does not change the run", async () => {
    const { h, uuid, info, requests } = await longRun();
    await using _ = h;
    expect(info).toMatchObject({ exit_code: 0, result: "the end", steps: 10, origin_uuid: null });
    const { records } = await h.runs.steps(uuid);
    expect(records.map(({ action }) => action)).toEqual([
      "plan",
      "tool_call",
      "tool_call",
      "tool_call",
      "specialize",
      "spawn",
      "replan",
      "tool_call",
      "tool_call",
      "complete",
    ]);
    const before = contentOf(h.runs.dir(uuid));
    for (let step = 1; step <= 9; step++) {
      const fork = await forked(h, uuid, { step });
      const asked = h.requests.at(-1);
      const original = requests[step];
      expect(fork.uuid).not.toBe(uuid);
      expect({ step: fork.step, info: fork.info }).toMatchObject({
        step,
        info: {
          uuid: fork.uuid,
          origin_uuid: uuid,
          parent_uuid: null,
          ppid: 0,
          result: "forked",
          steps: step + 1,
        },
      });
      // Stored results are in the fork's folder, too.
      const messages = JSON.stringify(asked?.messages).replaceAll(fork.uuid, uuid);
      expect(JSON.parse(messages)).toEqual(withoutNews(original?.messages ?? []));
      expect(asked?.system_prompt).toBe(original?.system_prompt ?? "");
      // With the head: what it may not use is not shown any more.
      const shown = original?.tools?.filter(({ name }) => fork.info.allowed_tools.includes(name));
      expect(asked?.tools).toEqual(shown ?? []);
      const own = await h.runs.steps(fork.uuid);
      expect(own.records.map((record) => record.origin_uuid)).toEqual([...Array(step).fill(uuid), undefined]);
    }
    expect(contentOf(h.runs.dir(uuid))).toEqual(before);
  });

  test("starts with no usage, under the run's limits or its own", async () => {
    const { h, uuid, info } = await longRun();
    await using _ = h;
    const { info: fork } = await forked(h, uuid, { step: 9, opts: { context_budget: 10_000 } });
    expect(info.tokens_used).toBeGreaterThan(100);
    expect(fork).toMatchObject({
      tokens_used: 15,
      steps_used: 1,
      tool_calls: 0,
      usage: { input_tokens: 10, output_tokens: 5 },
      context_budget: 10_000,
      max_steps: info.max_steps,
      children: [],
      files_changed: [],
    });
    expect(fork.created_at_ms).toBeGreaterThanOrEqual(info.ended_at_ms ?? Infinity);
    expect((await h.runs.inbox(fork.uuid)).unread).toEqual([]);
  });

  test("of a completed run resumes with the message it is given, and needs one", async () => {
    const { h, uuid } = await longRun();
    await using _ = h;
    for (const step of [10, undefined])
      expect(await refused(h, uuid, { fork: { step } })).toMatchObject({
        code: "INVALID",
        message: expect.stringContaining("--fork"),
      });
    expect(await h.runs.find("")).toHaveLength(2);
    const { info, step } = await forked(h, uuid, { input: "and now?" });
    expect({ step, info }).toMatchObject({ step: 10, info: { result: "forked", steps: 11 } });
    expect(h.requests.at(-1)?.messages.at(-1)).toEqual({ role: "user", content: "and now?" });
  });

  test("from a missing step names the existing ones, and makes nothing", async () => {
    const { h, uuid } = await longRun();
    await using _ = h;
    for (const step of [0, 11, -1, 1.5])
      expect(await refused(h, uuid, { fork: { step } })).toMatchObject({
        code: "INVALID",
        syscall: "Resume",
        message: expect.stringContaining("steps 1 to 10"),
      });
    expect(await refused(h, Bun.randomUUIDv7(), { fork: {} })).toMatchObject({ code: "NOT_FOUND" });
    expect(await h.runs.find("")).toHaveLength(2);
  });

  test("from before a damaged step is made, from after it is not", async () => {
    const { h, uuid } = await longRun();
    await using _ = h;
    const path = join(h.runs.dir(uuid), "steps.jsonl");
    const lines = readFileSync(path, "utf8").split("\n");
    await Bun.write(path, lines.with(4, "{ damaged").join("\n"));
    for (const step of [undefined, 6])
      expect(await refused(h, uuid, { input: "go on", fork: { step } })).toMatchObject({
        code: "INVALID",
        message: expect.stringContaining("Step 5 can't be read"),
      });
    expect((await forked(h, uuid, { step: 4 })).info).toMatchObject({ exit_code: 0, steps: 5 });
  });

  test("that can't begin leaves nothing on disk", async () => {
    const { h, uuid } = await longRun();
    await using _ = h;
    const opts = h.opts();
    const broken = { ...opts, provider: { ...opts.provider, device: "/dev/llm/none" } };
    await expect(h.kernel.lifecycle.resume(uuid, AGENT, broken, { fork: { step: 3 } })).rejects.toMatchObject(
      {
        code: "NOT_FOUND",
      },
    );
    expect(await h.runs.find("")).toHaveLength(2);
    expect(h.kernel.processes.count).toBe(0);
  });

  test("outlives the run: its results are its own, and it can be resumed and forked itself", async () => {
    const { h, uuid } = await longRun();
    await using _ = h;
    const fork = await forked(h, uuid, { step: 4 });
    await until(() => h.kernel.processes.count === 0);
    await h.runs.remove(uuid);
    const [, look] = (await h.runs.steps(fork.uuid)).records[1]?.tool_calls ?? [];
    const [, path = ""] = /whole result is in (\S+)/.exec(look?.result ?? "") ?? [];
    expect(path).toBe(join(h.runs.dir(fork.uuid), look?.kept?.file ?? ""));
    expect(readFileSync(path, "utf8")).toBe(LONG);
    const again = await h.kernel.lifecycle.resume(fork.uuid, AGENT, h.opts(), { input: "more" });
    expect((await h.follow(again.pid)).info).toMatchObject({ steps: 6, origin_uuid: uuid, tokens_used: 30 });
    const second = await forked(h, fork.uuid, { step: 5, input: "other" });
    expect(second.info).toMatchObject({ origin_uuid: fork.uuid, steps: 6 });
    expect((await h.runs.steps(second.uuid)).records.map((record) => record.origin_uuid)).toEqual([
      ...Array(4).fill(uuid),
      fork.uuid,
      undefined,
    ]);
  });

  test("is sent its message until a step records it, even if the run had received the same text", async () => {
    const { h, uuid } = await longRun(silent);
    await using _ = h;
    const first = h.requests.length;
    const o = { input: "this is for you", fork: { step: 8 } };
    const fork = await h.kernel.lifecycle.resume(uuid, AGENT, h.opts(), o);
    await until(() => h.requests.length === first + 1);
    await h.kernel.lifecycle.suspend(fork.pid);
    await h.kernel.lifecycle.resume(fork.uuid, AGENT, h.opts());
    await until(() => h.requests.length === first + 2);
    for (const asked of h.requests.slice(first))
      expect(asked.messages.at(-1)?.content).toBe("this is for you");
  });

  test("gets a new head, built from its agent's current instructions", async () => {
    const { h, uuid } = await longRun();
    await using _ = h;
    await forked(h, uuid, { step: 2, agent: { ...AGENT, instructions: "You work better." } });
    const head = h.requests.at(-1)?.system_prompt ?? "";
    expect([head.includes("You work better."), head.includes("Be brief.")]).toEqual([true, true]);
  });
});

describe("the rights of a fork", () => {
  test("are the same before and after a skill was loaded, for any list of the skill", async () => {
    const { h, uuid } = await longRun();
    await using _ = h;
    const { info: before } = await forked(h, uuid, { step: 4 });
    const { info: after } = await forked(h, uuid, { step: 5 });
    expect([before.skills, after.skills]).toEqual([[], ["look"]]);
    expect(after.permissions).toEqual(before.permissions);
    expect(after.allowed_tools).toContain("Act");
  });

  test("are the run's rights at that time: a withdrawn right stays withdrawn", async () => {
    await using h = new KernelHarness({
      model: script(calls(["Look", {}]), says("done"), says("forked")),
      devices: {
        "/dev/look": toolDevice("Look", async () => {
          await h.kernel.capabilities.revoke(1, ["Act"]);
          return "seen";
        }),
        "/dev/act": toolDevice("Act", () => "acted"),
      },
    });
    const { info } = await h.run("go", {}, AGENT);
    const { info: fork } = await forked(h, info.uuid, { step: 1 });
    expect(fork.permissions).toEqual(info.permissions);
    expect(fork.permissions.deny).toEqual(["Act"]);
  });
});

describe("a live run", () => {
  const look = toolDevice("Look", () => "seen", READ_ONLY);

  /** Its third model call is silent, and so is all that comes after it unless it is `answer`ed. */
  function liveRun(answer: Model = () => says("forked")) {
    let asked = 0;
    const answers = script(calls(["Look", { n: 1 }]), calls(["Look", { n: 2 }]));
    const model: Model = (request, signal) => {
      asked++;
      if (asked < 3) return answers(request, signal);
      return asked === 3 ? silent(request, signal) : answer(request, signal);
    };
    return new KernelHarness({ model, devices: { "/dev/look": look } });
  }

  test("is forked from its recorded steps, and runs on", async () => {
    await using h = liveRun();
    const pid = await h.spawn("go", {}, AGENT);
    await until(() => h.requests.length === 3);
    const { uuid } = h.kernel.processes.info(pid);
    const { step, info } = await forked(h, uuid);
    expect({ step, info }).toMatchObject({ step: 2, info: { origin_uuid: uuid, result: "forked" } });
    expect(h.requests[3]?.messages).toEqual(h.requests[2]?.messages ?? []);
    expect(h.kernel.processes.info(pid)).toMatchObject({ uuid, state: "running" });
  });

  test("without a recorded step is forked from its beginning", async () => {
    let asked = 0;
    await using h = new KernelHarness({
      model: (request, signal) => (++asked === 1 ? silent(request, signal) : says("forked")),
    });
    const pid = await h.spawn("go", { input: "attached" }, AGENT);
    await until(() => h.requests.length === 1);
    const { uuid } = h.kernel.processes.info(pid);
    expect(await refused(h, uuid, { fork: { step: 1 } })).toMatchObject({
      message: expect.stringContaining("it has none yet"),
    });
    const { step, info } = await forked(h, uuid);
    expect({ step, steps: info.steps }).toEqual({ step: 0, steps: 1 });
    expect(h.requests[1]?.messages).toEqual(h.requests[0]?.messages ?? []);
  });

  test("is a fork that is killed with its kernel: it resumes with its own usage", async () => {
    await using first = liveRun(silent);
    await using second = new KernelHarness({
      model: script(says("went on")),
      devices: { "/dev/look": look },
    });
    const pid = await first.spawn("go", {}, AGENT);
    await until(() => first.requests.length === 3);
    const { uuid } = first.kernel.processes.info(pid);
    const fork = await first.kernel.lifecycle.resume(uuid, AGENT, first.opts(), { fork: {} });
    await until(() => first.requests.length === 4);
    crashInto(second, first);
    const again = await second.kernel.lifecycle.resume(fork.uuid, AGENT, second.opts());
    expect((await second.follow(again.pid)).info).toMatchObject({
      result: "went on",
      origin_uuid: uuid,
      steps: 3,
      tokens_used: 15,
      steps_used: 1,
      tool_calls: 0,
    });
    expect(second.requests[0]?.messages).toEqual(first.requests[3]?.messages ?? []);
  });
});

describe("a step after which the model had nothing left to answer", () => {
  test("inside a resumed run is forked from with the message given instead", async () => {
    await using h = new KernelHarness({ model: script(says("one"), says("two"), says("three")) });
    const { info } = await h.run("go", {}, AGENT);
    const again = await h.kernel.lifecycle.resume(info.uuid, AGENT, h.opts(), { input: "and?" });
    await h.follow(again.pid);
    expect(await refused(h, info.uuid, { fork: { step: 1 } })).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("nothing left to answer"),
    });
    const { info: fork } = await forked(h, info.uuid, { step: 1, input: "or else?" });
    expect(fork).toMatchObject({ result: "three", steps: 2 });
    expect(roles(h.requests[2])).toEqual(["user go", "assistant one", "user or else?"]);
  });

  test("with a failed check: the fork learns so", async () => {
    await using h = new KernelHarness({ model: script(says("one"), says("two")) });
    const { info } = await h.run("go", { check: ["false"] }, AGENT);
    const { info: fork } = await forked(h, info.uuid);
    expect(fork).toMatchObject({ exit_reason: "check_failed", steps: 2 });
    expect(h.requests[1]?.messages.at(-1)?.content).toContain("the check `false` ended with 1");
  });
});

test("a fork has a copy of the plugins' documents of the run, and its own from then on", async () => {
  const { h, uuid } = await longRun();
  await using _ = h;
  const note = join("plugins", "notes", "list.json");
  await Bun.write(join(h.runs.dir(uuid), note), "[1]");
  const fork = await forked(h, uuid, { step: 1 });
  await Bun.write(join(h.runs.dir(fork.uuid), note), "[2]");
  expect(readFileSync(join(h.runs.dir(uuid), note), "utf8")).toBe("[1]");
  expect(existsSync(join(h.runs.dir(fork.uuid), "inbox.jsonl"))).toBe(false);
});

function roles(request: LLMRequest | undefined): string[] {
  return request?.messages.map(({ role, content }) => `${role} ${content}`) ?? [];
}
