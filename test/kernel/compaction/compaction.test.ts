import { describe, expect, test } from "bun:test";
import { estimateRequest } from "../../../src/kernel/llm/estimate.ts";
import { rebuildHistory } from "../../../src/kernel/resume/history.ts";
import { firstMessage } from "../../../src/kernel/resume/saved-run.ts";
import { type LLMEvent, type LLMRequest, SyscallError } from "../../../src/plugin/index.ts";
import type { JournalEntry, StepRecord } from "../../../src/store/schema.ts";
import { calls, KernelHarness, type Model, says, toolDevice } from "../../support/kernel.ts";
import { requireWhole } from "../../support/whole.ts";

const INTENT = "Count the lines of all files.";
const LINE = "A line of a file that somebody has written down here. ";

/** A read of so many characters, and something to do that is not one. */
const DEVICES = {
  "/dev/files": toolDevice(
    "Read",
    ({ path, chars }) => `${path}: ${LINE.repeat(Number(chars) / LINE.length)}`,
    {
      subject: "path",
      input: { type: "object", required: ["path"] },
      annotations: { readOnlyHint: true },
    },
  ),
  "/dev/work": toolDevice("Work", ({ chars }) => LINE.repeat(Number(chars) / LINE.length)),
};

/** What comes to a summary instead of an answer. */
type Scene = LLMEvent[] | ((request: LLMRequest) => LLMEvent[] | Promise<LLMEvent[]>);

/** Plays the answers in their order, and what it is asked beside them by `aside`. It reports what it was sent. */
function model(scenes: Scene[], aside: Scene = says("SUMMARY: 3 files were read.")): Model {
  let at = 0;
  return async (request) => {
    const scene = isAside(request) ? aside : scenes[at++];
    if (scene === undefined)
      throw new SyscallError("DRIVER", `There is no answer ${at}.`, { retryable: false });
    const events = typeof scene === "function" ? await scene(request) : scene;
    const usage = { input_tokens: sizeOf(request), output_tokens: 5, cached_tokens: 0 };
    return events.map((event) => (event.type === "usage" ? { type: "usage", usage } : event));
  };
}

function isAside({ messages }: LLMRequest): boolean {
  return messages.at(-1)?.content.startsWith("[From rnix") === true;
}

const read = (path: string, chars = 4000): LLMEvent[] => calls(["Read", { path, chars }]);
const reads = (count: number, chars?: number): LLMEvent[][] =>
  Array.from({ length: count }, (_, n) => read(`file-${n}`, chars));

/** The requests that are steps of the run. */
function steps(h: KernelHarness): LLMRequest[] {
  return h.requests.filter((request) => !isAside(request));
}

/** Tokens, as the run itself guesses them. */
function sizeOf({ messages, ...request }: LLMRequest): number {
  return estimateRequest({
    ...request,
    messages: messages.map(({ images: _images, ...message }) => message),
  });
}

async function recordOf(h: KernelHarness, uuid: string): Promise<StepRecord[]> {
  return (await h.runs.steps(uuid)).records;
}

function compactionsOf(records: readonly StepRecord[]) {
  return records.flatMap(({ step, compactions = [] }) => compactions.map((one) => ({ step, ...one })));
}

describe("a conversation that grows", () => {
  test("has its old results cut first, and no model is asked for that", async () => {
    await using h = new KernelHarness({
      model: model([...reads(10), says("done")]),
      devices: DEVICES,
      limits: { contextWindow: 12_000 },
    });
    const { info, events } = await h.run(INTENT);
    expect(info.exit_reason).toBe("completed");
    expect(h.requests.every((request) => !isAside(request))).toBe(true);
    for (const { messages } of h.requests) requireWhole(messages);
    for (const request of h.requests) expect(sizeOf(request)).toBeLessThan(9600);
    const [made] = compactionsOf(await recordOf(h, info.uuid));
    expect(made).toMatchObject({ why: "tokens", summary: null, usage: { input_tokens: 0 } });
    expect(made?.tokens_after).toBeLessThan(made?.tokens_before ?? 0);
    expect(made?.cut[0]?.content).toMatch(/^\[Left out to save room: what Read .*file-0.* Call it again/);
    const told = events.flatMap((event) =>
      event.type === "log" && event.entry.kind === "compact" ? [event.entry] : [],
    );
    expect(told[0]).toMatchObject({ step: made?.step });
    expect(told[0]?.text).toContain(`from about ${made?.tokens_before} to ${made?.tokens_after} tokens`);
  });

  test("is summarised by its model when that is not enough: paid, no step, told to nobody as an answer", async () => {
    const many = Array.from({ length: 30 }, (_, n) =>
      calls(["Work", { note: LINE.repeat(8), chars: 700, n }]),
    );
    await using h = new KernelHarness({
      model: model([calls(["Plan", { steps: ["count", "sum up"] }]), ...many, says("done")]),
      devices: DEVICES,
      limits: { contextWindow: 8000 },
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
    expect(JSON.stringify(events.filter(({ type }) => type === "text_delta"))).not.toContain("SUMMARY");
  });

  test("is summarised without the model where that fails, says nothing, or calls a tool", async () => {
    const refusals: Scene[] = [
      () => {
        throw new SyscallError("UNAVAILABLE", "down", { retryable: false });
      },
      says(""),
      calls(["Work", { chars: 10 }]),
    ];
    for (const aside of refusals) {
      const many = Array.from({ length: 30 }, (_, n) =>
        calls(["Work", { note: LINE.repeat(8), chars: 700, n }]),
      );
      await using h = new KernelHarness({
        model: model([...many, says("done")], aside),
        devices: DEVICES,
        limits: { contextWindow: 8000 },
      });
      const { info } = await h.run(INTENT);
      expect(info.exit_reason).toBe("completed");
      const [made] = compactionsOf(await recordOf(h, info.uuid));
      expect(made?.summary?.by).toBe("digest");
      expect(made?.summary?.text).toContain("called Work");
      for (const request of steps(h)) expect(sizeOf(request)).toBeLessThan(6400);
    }
  });

  test("keeps what came last from outside, and names the files it read with what they held", async () => {
    let told = false;
    await using h: KernelHarness = new KernelHarness({
      model: model([
        read("a.ts", 600),
        async () => {
          await h.kernel.ipc.send(0, 1, "Count the empty ones twice.");
          told = true;
          return read("b.ts", 300);
        },
        ...Array.from({ length: 44 }, (_, n) => calls(["Work", { note: LINE.repeat(8), chars: 700, n }])),
        says("done"),
      ]),
      devices: DEVICES,
      limits: { contextWindow: 8000 },
    });
    const { info } = await h.run(INTENT);
    expect(told).toBe(true);
    const made = compactionsOf(await recordOf(h, info.uuid));
    const first = steps(h)[(made[0]?.step ?? 0) - 1]?.messages[0]?.content ?? "";
    expect(first).toContain("Count the empty ones twice.");
    expect(first).toMatch(/Files you read last.*\n- b\.ts\n- a\.ts/);
    expect(first).toContain('<file path="b.ts">');
    // Also when it is compacted once more, and that is not in the conversation any more.
    expect(made.length).toBeGreaterThan(1);
    expect(made.at(-1)?.summary?.message.content).toContain("Count the empty ones twice.");
  });

  test("of which 200 results of one answer are too long has each shown in part", async () => {
    const wanted = Array.from({ length: 200 }, (_, n): [string, Record<string, unknown>] => [
      "Work",
      { chars: 900, n },
    ]);
    await using h = new KernelHarness({
      model: model([calls(...wanted), says("done")]),
      devices: DEVICES,
      limits: { contextWindow: 40_000 },
    });
    const { info } = await h.run(INTENT);
    expect(info.exit_reason).toBe("completed");
    expect(sizeOf(h.requests[1] as LLMRequest)).toBeLessThan(32_000);
  });

  test("is counted as its provider counts: where that makes three tokens of one, it is compacted at a third", async () => {
    const scenes = [...reads(10), says("done")];
    await using h = new KernelHarness({
      model: async (request, signal) => {
        const events = await model(isAside(request) ? [] : scenes.splice(0, 1))(request, signal);
        const usage = { input_tokens: 3 * sizeOf(request), output_tokens: 5, cached_tokens: 0 };
        return events.map((event) => (event.type === "usage" ? { type: "usage", usage } : event));
      },
      devices: DEVICES,
      limits: { contextWindow: 24_000 },
    });
    const { info } = await h.run(INTENT);
    expect(info.exit_reason).toBe("completed");
    for (const request of h.requests) expect(3 * sizeOf(request)).toBeLessThan(24_000);
    const [made] = compactionsOf(await recordOf(h, info.uuid));
    expect(made?.tokens_before).toBeGreaterThan(19_000);
  });

  test("of which one result alone is too long has that shown in part, and kept", async () => {
    await using h = new KernelHarness({
      model: model([calls(["Work", { chars: 60_000 }]), says("done")]),
      devices: DEVICES,
      limits: { contextWindow: 8000 },
    });
    const { info } = await h.run(INTENT);
    expect(info.exit_reason).toBe("completed");
    const content = h.requests[1]?.messages.at(-1)?.content ?? "";
    const [, path = ""] = /characters left out here\. The whole of it is in (\S+)/.exec(content) ?? [];
    expect((await Bun.file(path).text()).length).toBeGreaterThan(59_000);
    expect(sizeOf(h.requests[1] as LLMRequest)).toBeLessThan(6400);
  });
});

describe("a model that refuses the conversation as too long", () => {
  const tooLong = (): never => {
    throw new SyscallError("INVALID", "prompt is too long", { retryable: false, tooLong: true });
  };

  test("is sent it once more, shorter: the same step", async () => {
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

  test("ends the run when it refuses that too, with its own word", async () => {
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

  test("ends it at once where nothing can be made shorter", async () => {
    await using h = new KernelHarness({ model: model([tooLong, says("never")]), devices: DEVICES });
    const { info } = await h.run(INTENT);
    expect(info.exit_reason).toBe("llm_error");
    expect(h.requests).toHaveLength(1);
  });

  test("has told what its window is: later it is compacted before that", async () => {
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

describe("the records of a compacted run", () => {
  test("give the conversation of every step as it was sent, before and after each compaction", async () => {
    await using h = new KernelHarness({
      model: model([...reads(20), says("done")]),
      devices: DEVICES,
      limits: { contextWindow: 8000 },
    });
    const { info } = await h.run(INTENT);
    const records = await recordOf(h, info.uuid);
    expect(compactionsOf(records).length).toBeGreaterThan(1);
    const first = firstMessage(INTENT, undefined);
    for (const { step, compactions = [], messages } of records) {
      const journal = compactions.map(
        (compaction): JournalEntry => ({ t: "compact", step, ts: "", compaction }),
      );
      const before = rebuildHistory(records.slice(0, step - 1), journal, first);
      const told = step === 1 ? [] : messages.slice(0, -1);
      expect<unknown>([...before.messages, ...told]).toEqual(steps(h)[step - 1]?.messages);
    }
  });

  test("let it be forked from every step", async () => {
    const scenes: Scene[] = [...reads(12), says("done")];
    await using h = new KernelHarness({
      model: (request, signal) => model(isAside(request) ? [] : scenes.splice(0, 1))(request, signal),
      devices: DEVICES,
      limits: { contextWindow: 8000 },
    });
    const { info } = await h.run(INTENT);
    const made = compactionsOf(await recordOf(h, info.uuid));
    expect(made.length).toBeGreaterThan(0);
    const sent = steps(h).map(({ messages }) => messages);
    for (let step = 1; step < 12; step++) {
      scenes.push(says("forked"));
      h.requests.length = 0;
      const { pid } = await h.kernel.resume(info.uuid, null, h.opts(), { fork: { step }, input: "and now?" });
      const forked = await h.follow(pid);
      expect(forked.info.exit_reason).toBe("completed");
      const shown = h.requests.at(-1)?.messages ?? [];
      requireWhole(shown);
      // What was compacted before the next step is compacted there too, or as it was.
      if (!made.some((one) => one.step === step + 1)) expect(shown.slice(0, -1)).toEqual(sent[step] ?? []);
    }
  });
});

test("a fork has in its own folder what the compactions of its steps refer to", async () => {
  const work = Array.from({ length: 9 }, (_, n) => calls(["Work", { chars: 4000, n }]));
  const scenes: Scene[] = [...work, says("done"), says("forked")];
  await using h = new KernelHarness({
    model: (request, signal) => model(isAside(request) ? [] : scenes.splice(0, 1))(request, signal),
    devices: DEVICES,
    limits: { contextWindow: 12_000 },
  });
  const { info } = await h.run(INTENT);
  const { pid, uuid } = await h.kernel.resume(info.uuid, null, h.opts(), { fork: {}, input: "and now?" });
  await h.follow(pid);
  await h.runs.remove(info.uuid);
  const cut = compactionsOf(await recordOf(h, uuid)).flatMap((one) => one.cut);
  expect(cut.length).toBeGreaterThan(0);
  for (const { content } of cut) {
    const [, path = ""] = /The whole of it is in (\S+?)\]?$/.exec(content) ?? [];
    expect(path).toContain(uuid);
    expect((await Bun.file(path).text()).length).toBeGreaterThan(3000);
  }
});

test("a summary that the budget does not cover is made without the model, and no run uses more than it may", async () => {
  const by = new Set<string | undefined>();
  for (let contextBudget = 58_000; contextBudget <= 80_000; contextBudget += 1000) {
    const many = Array.from({ length: 30 }, (_, n) =>
      calls(["Work", { note: LINE.repeat(8), chars: 700, n }]),
    );
    await using h = new KernelHarness({
      model: model([...many, says("done")]),
      devices: DEVICES,
      limits: { contextWindow: 8000, contextBudget },
    });
    const { info } = await h.run(INTENT);
    expect(["budget_exceeded", "completed"]).toContain(info.exit_reason ?? "");
    expect(info.tokens_used).toBeLessThanOrEqual(contextBudget);
    for (const { summary } of compactionsOf(await recordOf(h, info.uuid))) by.add(summary?.by);
  }
  expect([...by].toSorted()).toEqual(["digest", "model"]);
});

describe("compact", () => {
  test("is done before the next step, and tells the tokens before and after", async () => {
    let asked: Promise<unknown> = Promise.resolve();
    await using h: KernelHarness = new KernelHarness({
      model: model([
        ...reads(5),
        () => {
          asked = h.kernel.compact(1);
          return read("last", 100);
        },
        says("done"),
      ]),
      devices: DEVICES,
    });
    const { info } = await h.run(INTENT);
    const [made] = compactionsOf(await recordOf(h, info.uuid));
    expect(made).toMatchObject({ step: 7, why: "asked" });
    expect(await asked).toEqual({
      tokensBefore: made?.tokens_before ?? 0,
      tokensAfter: made?.tokens_after ?? 0,
      by: made?.summary?.by ?? null,
    });
    const events = (await h.runs.events(info.uuid)).records;
    expect(events.find(({ syscall }) => syscall === "Compact")).toMatchObject({
      args: { pid: 1, by: 0 },
      result: { tokens_before: made?.tokens_before, tokens_after: made?.tokens_after },
    });
  });

  test("changes nothing where nothing is to be gained", async () => {
    let asked: Promise<unknown> = Promise.resolve();
    await using h: KernelHarness = new KernelHarness({
      model: model([
        () => {
          asked = h.kernel.compact(1);
          return read("last", 100);
        },
        says("done"),
      ]),
      devices: DEVICES,
    });
    const { info } = await h.run(INTENT);
    const { tokensBefore, tokensAfter } = (await asked) as { tokensBefore: number; tokensAfter: number };
    expect(tokensAfter).toBe(tokensBefore);
    expect(compactionsOf(await recordOf(h, info.uuid))).toEqual([]);
  });

  test("is refused for what is paused, has ended, or ends before another step", async () => {
    const last = Promise.withResolvers<void>();
    await using h: KernelHarness = new KernelHarness({
      model: model([
        async () => {
          await last.promise;
          return says("done");
        },
      ]),
    });
    const pid = await h.spawn(INTENT);
    h.kernel.kill(pid, 4);
    await expect(h.kernel.compact(pid)).rejects.toMatchObject({ code: "INVALID" });
    h.kernel.kill(pid, 5);
    const asked = h.kernel.compact(pid);
    last.resolve();
    await expect(asked).rejects.toMatchObject({ code: "CLOSED" });
    await expect(h.kernel.compact(pid)).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});
