import { describe, expect, test } from "bun:test";
import { entriesOf } from "../../../src/kernel/events/log-entry.ts";
import { EFFORTS, type LLMEvent } from "../../../src/plugin/index.ts";
import { calls, KernelHarness, says, script, toolDevice, usage } from "../../support/kernel.ts";
import { eventsOf, historyOf } from "../../support/saved-history.ts";

const echo = { "/dev/echo": toolDevice("Echo", ({ text }) => `heard ${text}`) };

function thinks(...texts: string[]): LLMEvent[] {
  return texts.map((text) => ({ type: "reasoning_delta", text }));
}

describe("a model's reasoning", () => {
  test("is emitted as it comes and recorded with its step, and is no part of the answer", async () => {
    await using h = new KernelHarness({
      model: script([...thinks("It is ", "six by nine."), ...says("42")]),
    });
    const { info, events } = await h.run("what is the answer?");
    expect(info.result).toBe("42");
    expect(events.filter(({ event }) => event === "reasoning_delta")).toEqual([
      { event: "reasoning_delta", step: 1, text: "It is " },
      { event: "reasoning_delta", step: 1, text: "six by nine." },
    ]);
    const { records } = await h.runs.steps(info.uuid);
    expect(records).toMatchObject([{ reasoning: "It is six by nine.", raw_response: "42" }]);
    expect(
      eventsOf(records, [])
        .flatMap(entriesOf)
        .map(({ kind, text }) => [kind, text]),
    ).toEqual([
      ["thought", "It is six by nine."],
      ["text", "42"],
    ]);
  });

  test("is never sent to a model again", async () => {
    await using h = new KernelHarness({
      model: script([...thinks("a secret thought"), ...calls(["Echo", { text: "hi" }])], says("done")),
      devices: echo,
    });
    await h.run("go");
    expect(h.requests).toHaveLength(2);
    expect(JSON.stringify(h.requests[1])).not.toContain("a secret thought");
  });

  test("is recorded with a step that was cut off between its answer and its end", () => {
    const { openStep } = historyOf(
      eventsOf(
        [],
        [
          {
            t: "answer",
            v: 1,
            step: 1,
            ts: "",
            message: { role: "assistant", content: "42" },
            reasoning: "hm",
            usage,
          },
        ],
      ),
      { role: "user", content: "go" },
    );
    expect(openStep?.reasoning).toBe("hm");
  });
});

describe("effort", () => {
  test.each([...EFFORTS])("%s is in every request to a driver that has the setting", async (effort) => {
    await using h = new KernelHarness({
      model: script(calls(["Echo", { text: "hi" }]), says("done")),
      devices: echo,
      can: { effort: true },
    });
    const { info, events } = await h.run("go", { effort });
    expect(h.requests.map((request) => request.effort)).toEqual([effort, effort]);
    expect(info.effort).toBe(effort);
    expect(events.filter(({ event }) => event === "notice")).toEqual([]);
  });

  test("is left out of the requests to a driver that has no setting for it, and that is logged once", async () => {
    await using h = new KernelHarness({
      model: script(calls(["Echo", { text: "hi" }]), says("done")),
      devices: echo,
    });
    const { events } = await h.run("go", { effort: "high" });
    expect(h.requests.map((request) => "effort" in request)).toEqual([false, false]);
    expect(events.filter(({ event }) => event === "notice")).toEqual([
      { event: "notice", text: "effort high is left out: /dev/llm/scripted has no such setting" },
    ]);
  });

  test("is the same when the run is resumed, and in its fork", async () => {
    await using h = new KernelHarness({ model: () => says("done"), can: { effort: true } });
    const { info } = await h.run("go", { effort: "low" });
    for (const o of [{ input: "more" }, { input: "more", fork: {} }]) {
      expect((await h.resumed(info.uuid, o, { effort: "max" })).info.effort).toBe("low");
    }
    expect(h.requests.map(({ effort }) => effort)).toEqual(["low", "low", "low"]);
  });

  test("is not sent to a model when no setting names it", async () => {
    await using h = new KernelHarness({ model: script(says("done")), can: { effort: true } });
    const { info } = await h.run("go");
    expect(h.requests.map((request) => "effort" in request)).toEqual([false]);
    expect(info.effort).toBeNull();
  });
});
