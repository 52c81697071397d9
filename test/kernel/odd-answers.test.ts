import { describe, expect, test } from "bun:test";
import { MAX_CALLS_PER_ANSWER, MAX_PARALLEL } from "../../src/kernel/tools/tool-calls.ts";
import { type LLMEvent, SyscallError } from "../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, script, toolDevice, usage } from "../support/kernel.ts";

const READ_ONLY = { annotations: { readOnlyHint: true } };

/** An answer with `count` calls of one tool, each with its number. */
function many(name: string, count: number): LLMEvent[] {
  return calls(...Array.from({ length: count }, (_, n): [string, Record<string, unknown>] => [name, { n }]));
}

/** A tool that counts how many of its calls run side by side. */
function counted(more: object) {
  const seen = { made: 0, now: 0, most: 0 };
  const device = toolDevice(
    "Count",
    async ({ n }) => {
      seen.made++;
      seen.most = Math.max(seen.most, ++seen.now);
      await new Promise((resolve) => setImmediate(resolve));
      seen.now--;
      return `result ${n}`;
    },
    more,
  );
  return { seen, device };
}

describe("a model that asks for 200 tool calls at once", () => {
  test.each([
    ["that only read: up to the limit side by side", READ_ONLY, MAX_PARALLEL],
    ["that do something: one after the other", {}, 1],
  ])("%s", async (_, more, most) => {
    const { seen, device } = counted(more);
    await using h = new KernelHarness({
      model: script(many("Count", 200), says("done")),
      devices: { "/dev/count": device },
    });
    const { info } = await h.run("go");
    expect(info).toMatchObject({ exit_reason: "completed", tool_calls: 200 });
    expect(seen).toEqual({ made: 200, now: 0, most });
    const results = h.requests[1]?.messages
      .filter(({ role }) => role === "tool")
      .map(({ content }) => content);
    expect(results).toEqual(Array.from({ length: 200 }, (_, n) => `result ${n}`));
  });

  test("fails 200 times for a tool that does not exist", async () => {
    await using h = new KernelHarness({ model: script(many("Nothing", 200), says("done")) });
    const { info } = await h.run("go");
    expect(info).toMatchObject({ exit_reason: "completed", tool_calls: 0 });
    expect(
      h.requests[1]?.messages.filter(({ content }) => content.startsWith("Error NOT_FOUND")),
    ).toHaveLength(200);
  });

  test("again and again is ended by the loop guard", async () => {
    const { device } = counted(READ_ONLY);
    await using h = new KernelHarness({
      model: () => many("Count", 200),
      devices: { "/dev/count": device },
      limits: { loop_threshold: 3 },
    });
    const { info } = await h.run("go");
    expect(info).toMatchObject({ exit_reason: "loop_detected", steps: 3 });
  });
});

describe("a model that asks for more calls than the limit", () => {
  test("gets results for the first ones and an error for each of the others", async () => {
    const { seen, device } = counted(READ_ONLY);
    await using h = new KernelHarness({
      model: script(many("Count", 5_000), says("done")),
      devices: { "/dev/count": device },
    });
    const { info } = await h.run("go");
    expect(info).toMatchObject({ exit_reason: "completed", tool_calls: MAX_CALLS_PER_ANSWER });
    expect(seen.made).toBe(MAX_CALLS_PER_ANSWER);
    const results = h.requests[1]?.messages.filter(({ role }) => role === "tool") ?? [];
    expect(results).toHaveLength(5_000);
    expect(results.slice(0, MAX_CALLS_PER_ANSWER).every(({ content }) => content.startsWith("result"))).toBe(
      true,
    );
    expect(
      results.slice(MAX_CALLS_PER_ANSWER).every(({ content }) => content.startsWith("Error EXHAUSTED")),
    ).toBe(true);
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.tool_calls).toHaveLength(5_000);
  });

  test("is suspended in the middle of them and resumes with the rest, each made once", async () => {
    const made: unknown[] = [];
    let suspend = false;
    const act = toolDevice("Act", ({ n }) => {
      made.push(n);
      if (n === 100 && !suspend) {
        suspend = true;
        void h.kernel.lifecycle.suspend(h.kernel.processes.listProcs()[0]?.pid ?? 0);
      }
      return "acted";
    });
    await using h: KernelHarness = new KernelHarness({
      model: script(many("Act", 1_000), says("done"), says("done")),
      devices: { "/dev/act": act },
    });
    const { info } = await h.run("go");
    expect(info.exit_reason).toBe("suspended");
    expect((await h.resumed(info.uuid, {})).info).toMatchObject({ exit_reason: "completed", result: "done" });
    expect(new Set(made).size).toBe(made.length);
    expect(made.length).toBeLessThanOrEqual(MAX_CALLS_PER_ANSWER);
    const roles = h.requests.at(-1)?.messages.map(({ role }) => role) ?? [];
    expect(roles.filter((role) => role === "tool")).toHaveLength(1_000);
  });
});

describe("a text of 2 MB", () => {
  const LINE = "x".repeat(2 * 1024 * 1024);

  test("is the answer, whole, in the record and for followers", async () => {
    await using h = new KernelHarness({ model: script(says(LINE)) });
    const { info, events } = await h.run("go");
    expect(info.result).toBe(LINE);
    expect(events.flatMap((event) => (event.event === "text_delta" ? [event.text] : []))).toEqual([LINE]);
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.raw_response).toBe(LINE);
  });

  test("as a call's argument reaches the tool, and as its result is shown to the model in part", async () => {
    const seen: number[] = [];
    const echo = toolDevice("Echo", ({ text }) => {
      seen.push(String(text).length);
      return String(text);
    });
    await using h = new KernelHarness({
      model: script(calls(["Echo", { text: LINE }]), says("done")),
      devices: { "/dev/echo": echo },
      limits: { tool_result_chars: 10_000 },
    });
    const { info } = await h.run("go");
    expect(info.exit_reason).toBe("completed");
    expect(seen).toEqual([LINE.length]);
    const shown = h.requests[1]?.messages.at(-1)?.content ?? "";
    expect(shown.length).toBeLessThan(11_000);
    expect(shown).toContain("characters left out here");
  });
});

describe("an empty answer", () => {
  const silent: LLMEvent[] = [
    { type: "usage", usage },
    { type: "stop", reason: "end_turn" },
  ];
  const thoughts: LLMEvent[] = [{ type: "reasoning_delta", text: "hm" }, ...silent];
  const blank: LLMEvent[] = [{ type: "text_delta", text: " \n" }, ...silent];

  test.each([
    ["nothing at all", silent],
    ["thoughts alone", thoughts],
    ["blanks", blank],
  ])("%s: the model is asked again, and then the run fails", async (_, answer) => {
    const twice: Model = script(answer, says("done"));
    await using h = new KernelHarness({ model: twice, limits: { model_retries: 1 } });
    expect((await h.run("go")).info).toMatchObject({ exit_reason: "completed", result: "done", steps: 1 });
    await using never = new KernelHarness({ model: () => answer, limits: { model_retries: 1 } });
    const { info } = await never.run("go");
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "llm_error", error: { code: "DRIVER" } });
    expect(never.requests).toHaveLength(2);
  });

  test("for ever uses the budget: the retries are paid for", async () => {
    await using h = new KernelHarness({ model: () => silent, limits: { model_retries: 2 } });
    const { info } = await h.run("go");
    expect(info.tokens_used).toBe(3 * (usage.input_tokens + usage.output_tokens));
  });

  test.each([1, 3])("each of %d attempts has the price of its own length", async (attempts) => {
    const model = script(...Array.from({ length: attempts - 1 }, () => silent), [
      { type: "text_delta", text: "done" } as const,
      ...silent,
    ]);
    await using h = new KernelHarness({ model, limits: { model_retries: 2 } });
    const price = { input: 1000, cached: 0, output: 0 };
    const long = { above: usage.input_tokens, input: 1_000_000, cached: 0, output: 0 };
    const provider = { ...h.opts().provider, price: { ...price, long } };
    h.leases--;
    const { info } = await h.run("go", { provider });
    expect(info.result).toBe("done");
    expect(info.cost_usd).toBeCloseTo((attempts * usage.input_tokens * price.input) / 1e6, 9);
  });
});

test("a model that repeats one call with the same result for ever is stopped, with that reason", async () => {
  await using h = new KernelHarness({
    model: () => calls(["Echo", { text: "again" }]),
    devices: { "/dev/echo": toolDevice("Echo", () => "the same") },
    limits: { loop_threshold: 5 },
  });
  const { info } = await h.run("go");
  expect(info).toMatchObject({ exit_code: 1, exit_reason: "loop_detected", steps: 5 });
  expect(info.error?.message).toContain("Echo");
});

test("a model whose call fails the same way for ever trips the breaker", async () => {
  let n = 0;
  await using h = new KernelHarness({
    model: () => calls(["Fail", { n: ++n }]),
    devices: {
      "/dev/fail": toolDevice("Fail", () => {
        throw new SyscallError("UNAVAILABLE", "not now");
      }),
    },
  });
  const { info } = await h.run("go");
  expect(info).toMatchObject({ exit_code: 1, exit_reason: "circuit_breaker" });
});
