import { describe, expect, test } from "bun:test";
import { type Device, type LLMEvent, type LLMRequest, SyscallError } from "../../../src/plugin/index.ts";
import { png } from "../../support/images.ts";
import { calls, KernelHarness, SILENCE, says, silent, toolDevice } from "../../support/kernel.ts";
import { requireWhole } from "../../support/whole.ts";
import {
  compactionsOf,
  DEVICES,
  INTENT,
  isAside,
  LINE,
  model,
  read,
  reads,
  recordOf,
  type Scene,
  sizeOf,
  smallSteps,
  steps,
} from "./support.ts";

describe("a conversation that grows", () => {
  test("has its old results cut first, and no model is asked for that", async () => {
    await using h = new KernelHarness({
      model: model([...reads(10), says("done")]),
      devices: DEVICES,
      limits: { context_window: 12_000 },
    });
    const { info, events } = await h.run(INTENT);
    expect(info.exit_reason).toBe("completed");
    expect(h.requests.every((request) => !isAside(request))).toBe(true);
    for (const { messages } of h.requests) requireWhole(messages);
    for (const request of h.requests) expect(sizeOf(request)).toBeLessThan(9600);
    const [made] = compactionsOf(await recordOf(h, info.uuid));
    expect(made).toMatchObject({ why: "tokens", summary: null, usage: { input_tokens: 0 } });
    expect(made?.tokens_after).toBeLessThan(made?.tokens_before ?? 0);
    expect(made?.cut[0]?.content).toMatch(
      /^\[Left out to save space: the result of Read .*file-0.* Call it again/,
    );
    const logged = events.flatMap((event) =>
      event.event === "log" && event.entry.kind === "compact" ? [event.entry] : [],
    );
    expect(logged[0]).toMatchObject({ step: made?.step });
    expect(logged[0]?.text).toContain(`from about ${made?.tokens_before} to ${made?.tokens_after} tokens`);
  });

  test("is summarised by its model when that is not enough: paid, no step, and not shown as an answer", async () => {
    const many = smallSteps(30);
    await using h = new KernelHarness({
      model: model([calls(["Plan", { steps: ["count", "sum up"] }]), ...many, says("done")]),
      devices: DEVICES,
      limits: { context_window: 8000 },
    });
    const { info, events } = await h.run(INTENT);
    expect(info).toMatchObject({ exit_reason: "completed", result: "done", steps: 32, steps_used: 32 });
    const records = await recordOf(h, info.uuid);
    const made = compactionsOf(records);
    expect(made.length).toBeGreaterThan(0);
    for (const one of made) {
      expect(one.summary).toMatchObject({ by: "model", text: "SUMMARY: 3 files were read." });
      expect(one.usage.input_tokens).toBeGreaterThan(4000);
      const first = steps(h)[one.step - 1]?.messages[0]?.content ?? "";
      expect(first).toStartWith(INTENT);
      expect(first).toContain("<summary>\nSUMMARY: 3 files were read.\n</summary>");
      expect(first).toContain("<plan>\n1. count\n2. sum up\n</plan>");
      expect(first).not.toContain("<summary>\nSUMMARY: 3 files were read.\n</summary>\n\n<summary>");
    }
    for (const { messages } of h.requests) requireWhole(messages);
    for (const request of steps(h)) expect(sizeOf(request)).toBeLessThan(6400);
    const spent = [...records, ...made].reduce((sum, { usage }) => sum + usage.input_tokens, 0);
    expect(info.usage.input_tokens).toBe(spent);
    expect(JSON.stringify(events.filter(({ event }) => event === "text_delta"))).not.toContain("SUMMARY");
  });

  test("is summarised without the model where the summary fails, is empty, or calls a tool", async () => {
    const refusals: Scene[] = [
      () => {
        throw new SyscallError("UNAVAILABLE", "down", { retryable: false });
      },
      says(""),
      calls(["Work", { chars: 10 }]),
    ];
    for (const aside of refusals) {
      const many = smallSteps(30);
      await using h = new KernelHarness({
        model: model([...many, says("done")], aside),
        devices: DEVICES,
        limits: { context_window: 8000 },
      });
      const { info } = await h.run(INTENT);
      expect(info.exit_reason).toBe("completed");
      const [made] = compactionsOf(await recordOf(h, info.uuid));
      expect(made?.summary?.by).toBe("digest");
      expect(made?.summary?.text).toContain("called Work");
      for (const request of steps(h)) expect(sizeOf(request)).toBeLessThan(6400);
    }
  });

  test("contains the latest messages from outside, and names the files it read with their contents", async () => {
    let logged = false;
    await using h: KernelHarness = new KernelHarness({
      model: model([
        read("a.ts", 600),
        async () => {
          await h.kernel.ipc.send(0, 1, "Count the empty ones twice.");
          logged = true;
          return read("b.ts", 300);
        },
        ...smallSteps(44),
        says("done"),
      ]),
      devices: DEVICES,
      limits: { context_window: 8000 },
    });
    const { info } = await h.run(INTENT);
    expect(logged).toBe(true);
    const made = compactionsOf(await recordOf(h, info.uuid));
    const first = steps(h)[(made[0]?.step ?? 0) - 1]?.messages[0]?.content ?? "";
    expect(first).toContain("Count the empty ones twice.");
    expect(first).toMatch(/Files you read last.*\n- b\.ts\n- a\.ts/);
    expect(first).toContain('<file path="b.ts">');
    // Also when it is compacted once more, and that is not in the conversation any more.
    expect(made.length).toBeGreaterThan(1);
    expect(made.at(-1)?.summary?.message.content).toContain("Count the empty ones twice.");
  });

  test("contains the lists that plugins show of its tree", async () => {
    const listed = toolDevice("List", () => "listed");
    const list: Device = {
      ...listed,
      factory: (subpath, flags, context) => {
        context.checklist([
          { text: "count", state: "done" },
          { text: "sum up", state: "active", note: "coder" },
        ]);
        return listed.factory(subpath, flags, context);
      },
    };
    await using h = new KernelHarness({
      model: model([calls(["List", {}]), ...smallSteps(30), says("done")]),
      devices: { ...DEVICES, "/dev/list": list },
      limits: { context_window: 8000 },
    });
    const { info } = await h.run(INTENT);
    const [made] = compactionsOf(await recordOf(h, info.uuid));
    expect(made?.summary?.message.content).toContain("\n- count: done\n- sum up: active, coder\n");
  });

  test("with 200 results of one answer that are too long has each shown in part", async () => {
    const wanted = Array.from({ length: 200 }, (_, n): [string, Record<string, unknown>] => [
      "Work",
      { chars: 900, n },
    ]);
    await using h = new KernelHarness({
      model: model([calls(...wanted), says("done")]),
      devices: DEVICES,
      limits: { context_window: 40_000 },
    });
    const { info } = await h.run(INTENT);
    expect(info.exit_reason).toBe("completed");
    expect(sizeOf(h.requests[1] as LLMRequest)).toBeLessThan(32_000);
  });

  test("still has the images that were attached to it", async () => {
    const images = [{ media_type: "image/png", width: 300, height: 200, data: png(300, 200) }] as const;
    await using h = new KernelHarness({
      model: model([...smallSteps(20), says("done")]),
      devices: DEVICES,
      can: { images: true },
      limits: { context_window: 7250 },
    });
    const { info } = await h.run(INTENT, { images });
    expect(info.exit_reason).toBe("completed");
    expect(compactionsOf(await recordOf(h, info.uuid))[0]?.summary?.by).toBe("model");
    for (const { messages } of h.requests) expect(messages[0]?.images).toHaveLength(1);
  });

  test("is compacted seldom: each time far enough for many steps, and never for little", async () => {
    for (const [contextWindow, between] of [
      [1400, 2],
      [2500, 8],
      [5000, 20],
    ] as const) {
      const small = Array.from({ length: 60 }, (_, n) =>
        calls(["Work", { note: LINE.repeat(3), chars: 300, n }]),
      );
      await using h = new KernelHarness({
        model: model([...small, says("done")]),
        devices: DEVICES,
        limits: { context_window: contextWindow },
      });
      const { info } = await h.run(INTENT);
      const made = compactionsOf(await recordOf(h, info.uuid));
      expect(made.length).toBeGreaterThan(1);
      for (const [at, one] of made.entries()) {
        expect(one.tokens_after).toBeLessThanOrEqual(0.9 * one.tokens_before);
        if (at > 0) expect(one.step - (made[at - 1]?.step ?? 0)).toBeGreaterThanOrEqual(between);
      }
    }
  });

  test("is counted as its provider counts: with three real tokens per estimated one, it is compacted at a third", async () => {
    const scenes = [...reads(10), says("done")];
    await using h = new KernelHarness({
      model: async (request, signal) => {
        const events = await model(isAside(request) ? [] : scenes.splice(0, 1))(request, signal);
        const usage = { input_tokens: 3 * sizeOf(request), output_tokens: 5, cached_tokens: 0 };
        return events.map((event) =>
          event !== SILENCE && event.type === "usage" ? { ...event, usage } : event,
        );
      },
      devices: DEVICES,
      limits: { context_window: 24_000 },
    });
    const { info } = await h.run(INTENT);
    expect(info.exit_reason).toBe("completed");
    for (const request of h.requests) expect(3 * sizeOf(request)).toBeLessThan(24_000);
    const [made] = compactionsOf(await recordOf(h, info.uuid));
    expect(made?.tokens_before).toBeGreaterThan(19_000);
  });

  test("is summarised without the model where that takes too long", async () => {
    const many = smallSteps(20);
    const scenes: Scene[] = [...many, says("done")];
    await using h = new KernelHarness({
      model: (request, signal) =>
        isAside(request) ? silent(request, signal) : model(scenes.splice(0, 1))(request, signal),
      devices: DEVICES,
      limits: { context_window: 7250, compact_timeout: 20 },
    });
    const { info } = await h.run(INTENT);
    expect(info.exit_reason).toBe("completed");
    expect(compactionsOf(await recordOf(h, info.uuid))[0]?.summary?.by).toBe("digest");
  });

  test("of which one result alone is too long has that shown in part, and stored", async () => {
    await using h = new KernelHarness({
      model: model([calls(["Work", { chars: 60_000 }]), says("done")]),
      devices: DEVICES,
      limits: { context_window: 8000 },
    });
    const { info } = await h.run(INTENT);
    expect(info.exit_reason).toBe("completed");
    const content = h.requests[1]?.messages.at(-1)?.content ?? "";
    const [, path = ""] = /characters left out here\. The whole text is in (\S+)/.exec(content) ?? [];
    expect((await Bun.file(path).text()).length).toBeGreaterThan(59_000);
    expect(sizeOf(h.requests[1] as LLMRequest)).toBeLessThan(6400);
  });
});

describe("a model that refuses the conversation as too long", () => {
  const tooLong = (): never => {
    throw new SyscallError("INVALID", "prompt is too long", { retryable: false, tooLong: true });
  };

  test("gets it once more, shorter: the same step", async () => {
    await using h = new KernelHarness({
      model: model([...reads(5), tooLong, says("done")], tooLong),
      devices: DEVICES,
    });
    const { info } = await h.run(INTENT);
    expect(info).toMatchObject({ exit_reason: "completed", steps: 6, steps_used: 6 });
    const made = compactionsOf(await recordOf(h, info.uuid));
    expect(made).toMatchObject([{ step: 6, why: "too_long" }]);
    const [refused, sent] = steps(h).slice(-2).map(sizeOf);
    expect(sent).toBeLessThan((refused ?? 0) / 2);
  });

  test("ends the run when it refuses that too, with its own message", async () => {
    await using h = new KernelHarness({
      model: model([...reads(5), tooLong, tooLong, says("never")], tooLong),
      devices: DEVICES,
    });
    const { info } = await h.run(INTENT);
    expect(info).toMatchObject({
      exit_reason: "llm_error",
      error: { message: expect.stringContaining("too long") },
    });
    expect(steps(h)).toHaveLength(7);
  });

  test("ends the run at once where nothing can be made shorter", async () => {
    await using h = new KernelHarness({ model: model([tooLong, says("never")]), devices: DEVICES });
    const { info } = await h.run(INTENT);
    expect(info.exit_reason).toBe("llm_error");
    expect(h.requests).toHaveLength(1);
  });

  test("that named its window is compacted before that window the next time", async () => {
    let largest = Number.POSITIVE_INFINITY;
    const strict =
      (events: LLMEvent[]): Scene =>
      (request) => {
        const tokens = sizeOf(request);
        if (tokens <= 6000) return events;
        largest = Math.min(largest, tokens);
        return tooLong();
      };
    const scenes: Scene[] = [];
    for (const one of reads(40)) scenes.push(strict(one));
    await using h = new KernelHarness({ model: model([...scenes, says("done")], tooLong), devices: DEVICES });
    const { info } = await h.run(INTENT);
    // One answer of the script was lost on the refusal.
    expect(info.exit_reason).toBe("completed");
    const made = compactionsOf(await recordOf(h, info.uuid));
    expect(made.filter(({ why }) => why === "too_long")).toHaveLength(1);
    expect(made.filter(({ why }) => why === "tokens").length).toBeGreaterThan(1);
  });
});

test("a summary that the budget does not cover is made without the model, and no run exceeds its budget", async () => {
  const by = new Set<string | undefined>();
  for (let context_budget = 58_000; context_budget <= 80_000; context_budget += 1000) {
    const many = smallSteps(30);
    await using h = new KernelHarness({
      model: model([...many, says("done")]),
      devices: DEVICES,
      limits: { context_window: 8000, context_budget: context_budget },
    });
    const { info } = await h.run(INTENT);
    expect(["budget_exceeded", "completed"]).toContain(info.exit_reason ?? "");
    expect(info.tokens_used).toBeLessThanOrEqual(context_budget);
    for (const { summary } of compactionsOf(await recordOf(h, info.uuid))) by.add(summary?.by);
  }
  expect([...by].toSorted()).toEqual(["digest", "model"]);
});
