import { describe, expect, test } from "bun:test";
import { firstMessage } from "../../../src/kernel/conversation/conversations.ts";
import type { LLMEvent } from "../../../src/plugin/index.ts";
import type { JournalEntry } from "../../../src/store/runs/schema.ts";
import { calls, KernelHarness, type Model, says, silent } from "../../support/kernel.ts";
import { eventsOf, historyOf } from "../../support/saved-history.ts";
import { until } from "../../support/until.ts";
import { requireWhole } from "../../support/whole.ts";
import {
  compactionsOf,
  DEVICES,
  INTENT,
  isAside,
  model,
  reads,
  recordOf,
  type Scene,
  sizeOf,
  smallSteps,
  steps,
} from "./support.ts";

describe("the records of a compacted run", () => {
  test("give the conversation of every step as it was sent, before and after each compaction", async () => {
    await using h = new KernelHarness({
      model: model([...reads(20), says("done")]),
      devices: DEVICES,
      limits: { context_window: 8000 },
    });
    const { info } = await h.run(INTENT);
    const records = await recordOf(h, info.uuid);
    expect(compactionsOf(records).length).toBeGreaterThan(1);
    const first = firstMessage(INTENT, undefined);
    for (const { step, compactions = [], messages } of records) {
      const journal = compactions.map(
        (compaction): JournalEntry => ({ t: "compact", step, ts: "", compaction }),
      );
      const before = historyOf(eventsOf(records.slice(0, step - 1), journal), first);
      const sent = step === 1 ? [] : messages.slice(0, -1);
      expect<unknown>([...before.messages, ...sent]).toEqual(steps(h)[step - 1]?.messages);
    }
  });

  test("allow a fork from every step", async () => {
    const scenes: Scene[] = [...reads(12), says("done")];
    await using h = new KernelHarness({
      model: (request, signal) => model(isAside(request) ? [] : scenes.splice(0, 1))(request, signal),
      devices: DEVICES,
      limits: { context_window: 8000 },
    });
    const { info } = await h.run(INTENT);
    const made = compactionsOf(await recordOf(h, info.uuid));
    expect(made.length).toBeGreaterThan(0);
    const sent = steps(h).map(({ messages }) => messages);
    for (let step = 1; step < 12; step++) {
      scenes.push(says("forked"));
      h.requests.length = 0;
      const { pid } = await h.kernel.lifecycle.resume(info.uuid, null, h.opts(), {
        fork: { step },
        input: "and now?",
      });
      const forked = await h.follow(pid);
      expect(forked.info.exit_reason).toBe("completed");
      const shown = h.requests.at(-1)?.messages ?? [];
      requireWhole(shown);
      // What was compacted before the next step is compacted there too, or as it was.
      if (!made.some((one) => one.step === step + 1)) expect(shown.slice(0, -1)).toEqual(sent[step] ?? []);
    }
  });
});

test("a fork has the files that its steps' compactions refer to in its own folder", async () => {
  const work = Array.from({ length: 9 }, (_, n) => calls(["Work", { chars: 4000, n }]));
  const scenes: Scene[] = [...work, says("done"), says("forked")];
  await using h = new KernelHarness({
    model: (request, signal) => model(isAside(request) ? [] : scenes.splice(0, 1))(request, signal),
    devices: DEVICES,
    limits: { context_window: 11_250 },
  });
  const { info } = await h.run(INTENT);
  const { pid, uuid } = await h.kernel.lifecycle.resume(info.uuid, null, h.opts(), {
    fork: {},
    input: "and now?",
  });
  await h.follow(pid);
  await h.runs.remove(info.uuid);
  const cut = compactionsOf(await recordOf(h, uuid)).flatMap((one) => one.cut);
  expect(cut.length).toBeGreaterThan(0);
  for (const { content } of cut) {
    const [, path = ""] = /The whole text is in (\S+?)\]?$/.exec(content) ?? [];
    expect(path).toContain(uuid);
    expect((await Bun.file(path).text()).length).toBeGreaterThan(3000);
  }
});

describe("a run that is resumed", () => {
  test("uses the measured token ratio from its first step on", async () => {
    const scenes: (LLMEvent[] | null)[] = [...reads(4), null, ...reads(4), says("done")];
    const run: Model = async (request, signal) => {
      const events = isAside(request) ? says("SUMMARY") : (scenes.shift() ?? null);
      if (events === null) return silent(request, signal);
      const usage = { input_tokens: 3 * sizeOf(request), output_tokens: 5, cached_tokens: 0 };
      return events.map((event) => (event.type === "usage" ? { type: "usage", usage } : event));
    };
    await using h = new KernelHarness({ model: run, devices: DEVICES });
    const pid = await h.spawn(INTENT);
    await until(() => h.requests.length === 5, "the fifth request");
    await h.kernel.lifecycle.suspend(pid);
    const { uuid } = (await h.runs.list())[0] ?? { uuid: "" };
    const before = h.requests.length;
    // About 13,000 tokens so far.
    const opts = h.opts();
    const limits = { ...opts.limits, context_window: 14_750 };
    const resumed = await h.kernel.lifecycle.resume(uuid, null, { ...opts, limits });
    const { info } = await h.follow(resumed.pid);
    expect(info.exit_reason).toBe("completed");
    for (const request of h.requests.slice(before)) expect(3 * sizeOf(request)).toBeLessThan(14_750);
    expect(compactionsOf(await recordOf(h, uuid))[0]).toMatchObject({ step: 5, why: "tokens" });
  });

  test("that is suspended during its summary resumes unchanged, and is compacted then", async () => {
    const many = smallSteps(20);
    const scenes: Scene[] = [...many, says("done")];
    let asides = 0;
    await using h = new KernelHarness({
      model: (request, signal) =>
        isAside(request) && asides++ === 0
          ? silent(request, signal)
          : model(isAside(request) ? [] : scenes.splice(0, 1))(request, signal),
      devices: DEVICES,
      limits: { context_window: 7250 },
    });
    const pid = await h.spawn(INTENT);
    await until(() => asides === 1, "the request for a summary");
    const sent = h.requests.at(-1)?.messages.slice(0, -1) ?? [];
    expect(await h.kernel.lifecycle.suspend(pid)).toMatchObject({ reason: "suspended" });
    const { uuid } = (await h.runs.list())[0] ?? { uuid: "" };
    expect(compactionsOf(await recordOf(h, uuid))).toEqual([]);
    const { info } = await h.resumed(uuid);
    expect(info.exit_reason).toBe("completed");
    const again = h.requests.find((request, at) => isAside(request) && at > h.requests.findIndex(isAside));
    expect(again?.messages.slice(0, -1)).toEqual(sent);
    expect(compactionsOf(await recordOf(h, uuid))[0]?.summary?.by).toBe("model");
  });
});
