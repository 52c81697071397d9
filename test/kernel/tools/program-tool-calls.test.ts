import { describe, expect, test } from "bun:test";
import { SIGTERM } from "../../../src/lib/signals.ts";
import { type LLMEvent, type LLMRequest, SyscallError, type ToolService } from "../../../src/plugin/index.ts";
import type { JournalEntry, ToolCallRecord } from "../../../src/store/runs/schema.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { KernelHarness, says, silent, toolDevice } from "../../support/kernel.ts";
import { eventsOf, historyOf } from "../../support/saved-history.ts";
import { seeded } from "../../support/seeded.ts";
import { until } from "../../support/until.ts";

/** What a program that is a model does when it is asked: it says and calls what it likes. */
type Program = (o: {
  request: LLMRequest;
  tools: ToolService;
  say(event: LLMEvent): Promise<void>;
  signal: AbortSignal;
}) => Promise<void>;

const DEVICE = "/dev/llm/program";
const STOP: LLMEvent = { type: "stop", reason: "end_turn" };
const text = (words: string): LLMEvent => ({ type: "text_delta", text: words });
const used = (input_tokens: number, cost_usd?: number): LLMEvent => ({
  type: "usage",
  usage: { input_tokens, output_tokens: 0, cached_tokens: 0, ...(cost_usd !== undefined && { cost_usd }) },
});

type Options = Partial<ConstructorParameters<typeof KernelHarness>[0]>;

/** A kernel whose processes have this program as their model. `others`: devices that need the service too. */
function harness(programs: Program[], more: Options = {}): KernelHarness & { tools: ToolService[] } {
  const asked: ToolService[] = [];
  const h = new KernelHarness({
    model: () => says("unused"),
    ...more,
    needs: { [DEVICE]: ["tools"], "/dev/other": ["tools"], ...more.needs },
    devices: {
      ...more.devices,
      [DEVICE]: {
        factory: (_subpath, _flags, context) => {
          const queue: { event: LLMEvent; read: () => void }[] = [];
          let wake = Promise.withResolvers<void>();
          let done: { error?: unknown } | undefined;
          let before: (() => void) | undefined;
          return {
            async write(data, signal) {
              const request: LLMRequest = JSON.parse(String(data));
              h.requests.push(request);
              const program = programs[Math.min(h.requests.length, programs.length) - 1];
              const { tools } = context;
              if (!program || !tools) throw new SyscallError("INTERNAL", "no program, or no tools");
              asked.push(tools);
              done = undefined;
              queue.length = 0;
              const say = (event: LLMEvent): Promise<void> =>
                new Promise((read) => {
                  queue.push({ event, read });
                  wake.resolve();
                });
              const end = (error?: unknown) => {
                done = { error };
                wake.resolve();
              };
              program({ request, tools, say, signal }).then(() => end(), end);
            },
            // A reader that continues has seen what came before.
            async read(_max, signal) {
              before?.();
              before = undefined;
              for (;;) {
                const next = queue.shift();
                if (next) {
                  before = next.read;
                  return JSON.stringify(next.event);
                }
                if (done) {
                  if (done.error !== undefined) throw done.error;
                  return "";
                }
                wake = Promise.withResolvers();
                const aborted = Promise.withResolvers<never>();
                signal.addEventListener("abort", () => aborted.reject(signal.reason), { once: true });
                await Promise.race([wake.promise, aborted.promise]);
              }
            },
            async close() {},
            async stat() {
              return { name: "program", size: 0, isDevice: true, devicePath: DEVICE, runs_tools: true };
            },
          };
        },
      },
    },
  });
  return Object.assign(h, { tools: asked });
}

function program(h: KernelHarness): { provider: ReturnType<KernelHarness["opts"]>["provider"] } {
  return { provider: { ...scripted(h), device: DEVICE } };
}

/** The harness's own model. */
function scripted(h: KernelHarness): ReturnType<KernelHarness["opts"]>["provider"] {
  const { provider } = h.opts();
  // Nothing is spawned with these.
  h.leases--;
  return provider;
}

/** Records of the run's steps, as they are on disk. */
async function steps(h: KernelHarness, uuid: string) {
  return (await h.runs.steps(uuid)).records;
}

const echo = toolDevice("Echo", ({ op: _op, ...input }) => JSON.stringify(input), {
  annotations: { readOnlyHint: true },
});

describe("a program that is the model and calls tools itself", () => {
  test("has each of its turns as a step: text, calls, results and usage", async () => {
    await using h = harness(
      [
        async ({ tools, say }) => {
          await say({ type: "reasoning_delta", text: "What is there?" });
          await say(text("I look."));
          expect((await tools.list()).map(({ name }) => name)).toContain("Echo");
          expect(await tools.call("Echo", { n: 1 })).toEqual({ text: '{"n":1}' });
          await say(used(10));
          await say({ type: "turn" });
          expect(await tools.call("Echo", { n: 2 })).toEqual({ text: '{"n":2}' });
          expect(await tools.call("Echo", { n: 3 })).toEqual({ text: '{"n":3}' });
          await say(used(30));
          await say({ type: "turn" });
          await say(text("Done."));
          await say(used(60, 0.5));
          await say(STOP);
        },
      ],
      { devices: { "/dev/echo": echo } },
    );
    const { info, events } = await h.run("do it", program(h));
    expect(info).toMatchObject({ exit_code: 0, result: "Done.", steps: 3, steps_used: 3, tool_calls: 3 });
    expect(info).toMatchObject({ tokens_used: 60, cost_usd: 0.5 });
    expect(
      (await steps(h, info.uuid)).map((step) => [
        step.step,
        step.action,
        step.raw_response,
        step.tool_calls.map(({ id, result }) => [id, result]),
        step.tokens_used,
      ]),
    ).toEqual([
      [1, "tool_call", "I look.", [["served-1-1", '{"n":1}']], 10],
      [2, "tool_call", "", [["served-2-1", '{"n":2}'], ["served-2-2", '{"n":3}']], 20], // biome-ignore format: a table
      [3, "complete", "Done.", [], 30],
    ]);
    expect((await steps(h, info.uuid)).map(({ reasoning }) => reasoning)).toEqual([
      "What is there?",
      undefined,
      undefined,
    ]);
    expect(
      events.flatMap((event) => (event.event === "text_delta" ? [[event.step, event.text]] : [])),
    ).toEqual(
      [[1, "I look."], [3, "Done."]], // biome-ignore format: a table
    );
    expect(events.flatMap((event) => (event.event === "log" ? [event.entry.kind] : []))).toEqual([
      "thought",
      "text",
      "tool",
      "result",
      "tool",
      "result",
      "tool",
      "result",
      "text",
    ]);
  });

  test("is refused what the process may not use, and fails for an unknown tool; both are recorded", async () => {
    const answers: unknown[] = [];
    await using h = harness(
      [
        async ({ tools, say }) => {
          answers.push(await tools.call("Secret", { path: "no" }), await tools.call("Nothing", {}));
          await say(text("So be it."));
          await say(STOP);
        },
      ],
      {
        devices: {
          "/dev/secret": toolDevice("Secret", () => "the secret", { subject: "path" }),
          "/dev/echo": echo,
        },
      },
    );
    const { info } = await h.run("do it", { ...program(h), allow: ["Secret(yes)", "Echo"] });
    expect(answers).toMatchObject([{ error: "PERMISSION" }, { error: "NOT_FOUND" }]);
    expect(JSON.stringify(answers)).not.toContain("the secret");
    const [step] = await steps(h, info.uuid);
    expect(step?.tool_calls.map(({ name, state }) => [name, state])).toEqual([
      ["Secret", "denied"],
      ["Nothing", "failed"],
    ]);
    expect(info).toMatchObject({ exit_code: 0, result: "So be it." });
  });

  test("has its read-only calls made in parallel, and all others alone, in order", async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = seeded(seed);
      const running = new Set<string>();
      const begun: string[] = [];
      const seen: string[] = [];
      const run = async (kind: "read" | "change", id: string): Promise<string> => {
        begun.push(id);
        running.add(`${kind} ${id}`);
        seen.push([...running].map((one) => one.split(" ")[0]).join("+"));
        for (let turns = Math.floor(random() * 5); turns > 0; turns--) await Promise.resolve();
        running.delete(`${kind} ${id}`);
        return id;
      };
      const wanted = Array.from({ length: 20 }, (_, id) => [random() < 0.5 ? "Look" : "Change", `${id}`]);
      await using h = harness(
        [
          async ({ tools, say }) => {
            const answers = wanted.map(([name = "", id]) => tools.call(name, { id }));
            expect((await Promise.all(answers)).map((one) => one.text)).toEqual(
              wanted.map(([, id = ""]) => id),
            );
            await say(text("Done."));
            await say(STOP);
          },
        ],
        {
          devices: {
            "/dev/look": toolDevice("Look", ({ id }) => run("read", String(id)), {
              annotations: { readOnlyHint: true },
            }),
            "/dev/change": toolDevice("Change", ({ id }) => run("change", String(id))),
          },
        },
      );
      const { info } = await h.run("do it", program(h));
      expect(info.tool_calls).toBe(20);
      expect(seen.filter((one) => one.includes("change") && one.includes("+"))).toEqual([]);
      // What changes something comes where it was asked for.
      const changes = (ids: string[]): string[] => ids.filter((id) => wanted[Number(id)]?.[0] === "Change");
      expect(changes(begun)).toEqual(changes(wanted.map(([, id = ""]) => id)));
      const [step] = await steps(h, info.uuid);
      expect(step?.tool_calls.length).toBe(20);
    }
  });

  test("is not asked the same again once it has called a tool: it gets the outcome instead", async () => {
    let changed = 0;
    await using h = harness(
      [
        async ({ tools, say }) => {
          await say(text("I change it."));
          await tools.call("Change", {});
          throw new SyscallError("UNAVAILABLE", "the program has died", { retryable: true });
        },
        async ({ say }) => {
          await say(text("It is changed."));
          await say(STOP);
        },
      ],
      {
        devices: { "/dev/change": toolDevice("Change", () => `${++changed} times`) },
        limits: { model_retries: 2 },
      },
    );
    const { info } = await h.run("do it", program(h));
    expect(info).toMatchObject({ exit_code: 0, result: "It is changed.", steps: 2 });
    expect(changed).toBe(1);
    expect(h.requests.length).toBe(2);
    expect(h.requests[1]?.messages.slice(1)).toMatchObject([
      { role: "assistant", content: "I change it.", tool_calls: [{ name: "Change" }] },
      { role: "tool", content: "1 times" },
    ]);
    expect((await steps(h, info.uuid)).map(({ step }) => step)).toEqual([1, 2]);
  });

  test("that breaks off after a call again and again ends its run", async () => {
    await using h = harness(
      [
        async ({ tools }) => {
          await tools.call("Echo", { n: h.requests.length });
          throw new SyscallError("UNAVAILABLE", "the program has died", { retryable: true });
        },
      ],
      { devices: { "/dev/echo": echo }, limits: { model_retries: 2 } },
    );
    const { info } = await h.run("do it", program(h));
    expect(info).toMatchObject({ exit_reason: "llm_error", error: { code: "UNAVAILABLE" }, steps: 3 });
    expect(h.requests.length).toBe(3);
  });

  test("makes no more steps than its run has, and learns how many", async () => {
    await using h = harness(
      [
        async ({ tools, say }) => {
          for (let n = 1; n < 10; n++) {
            await tools.call("Echo", { n });
            await say({ type: "turn" });
          }
        },
      ],
      { devices: { "/dev/echo": echo } },
    );
    const { info } = await h.run("do it", { ...program(h), max_steps: 3 });
    expect(info).toMatchObject({ exit_reason: "max_steps", steps_used: 3, tool_calls: 3 });
    expect(h.requests[0]?.max_turns).toBe(3);
  });

  test("goes at most one step beyond its budget", async () => {
    await using h = harness(
      [
        async ({ tools, say }) => {
          for (let n = 1; n < 10; n++) {
            await tools.call("Echo", { n });
            await say(used(n * 40_000));
            await say({ type: "turn" });
          }
        },
      ],
      { devices: { "/dev/echo": echo } },
    );
    const { info } = await h.run("do it", { ...program(h), context_budget: 100_000 });
    expect(info).toMatchObject({ exit_code: 2, exit_reason: "budget_exceeded", tokens_used: 120_000 });
    expect(info.tool_calls).toBe(3);
  });

  test("that repeats itself is stopped, as any other model", async () => {
    let signal: AbortSignal | undefined;
    await using h = harness(
      [
        async ({ tools, say, signal: given }) => {
          signal = given;
          for (;;) {
            await tools.call("Echo", {});
            await say({ type: "turn" });
          }
        },
      ],
      { devices: { "/dev/echo": echo }, limits: { loop_threshold: 4 } },
    );
    const { info } = await h.run("do it", program(h));
    expect(info).toMatchObject({ exit_reason: "loop_detected", steps: 4 });
    expect(signal).toBeDefined();
  });

  test("has its calls of Agent run in parallel", async () => {
    const seen: string[] = [];
    const both = Promise.withResolvers<void>();
    const parent: Program = async ({ tools, say }) => {
      const results = await Promise.all(["left", "right"].map((intent) => tools.call("Agent", { intent })));
      await say({ type: "turn" });
      await say(text(results.map((result) => result.text.split("\n")[0]).join(",")));
      await say(used(1));
      await say(STOP);
    };
    await using h = harness([parent], {
      planChild: async () => ({ provider: scripted(h) }),
      // Each child answers when both were asked.
      model: async ({ intent }) => {
        seen.push(intent);
        if (seen.length === 2) both.resolve();
        await both.promise;
        return says(intent);
      },
    });
    const { info } = await h.run("do it", program(h));
    expect(info).toMatchObject({ exit_code: 0, result: "left,right", children: { length: 2 } });
  });

  test("is shown a failed check after it called Complete, and continues", async () => {
    const completes: Program = async ({ tools, say }) => {
      await tools.call("Complete", { result: "first" });
      await say({ type: "turn" });
      await new Promise(() => {});
    };
    const answers: Program = async ({ request, say }) => {
      await say(text(request.messages.at(-1)?.content.includes("failed here") ? "second" : "unaware"));
      await say(used(1));
      await say(STOP);
    };
    await using h = harness([completes, answers], { limits: { check_attempts: 2 } });
    const check = "echo x >> runs; echo failed here; test $(wc -l < runs) = 2";
    const { info } = await h.run("do it", { ...program(h), check: [check] });
    expect(info).toMatchObject({ exit_code: 0, result: "second", partial: false, steps: 2 });
    expect(info.checks).toMatchObject([{ exit_code: 1 }, { exit_code: 0, attempt: 2 }]);
  });

  test("is done when it calls Complete", async () => {
    await using h = harness([
      async ({ tools, say }) => {
        await tools.call("Complete", { result: "That is all." });
        await say({ type: "turn" });
        await say(text("And more, and more"));
        await say(STOP);
      },
    ]);
    const { info } = await h.run("do it", program(h));
    expect(info).toMatchObject({ exit_code: 0, result: "That is all.", steps: 1 });
  });

  test("does not time out while one of its own tools is running", async () => {
    const clock = new FakeClock();
    const slow = Promise.withResolvers<string>();
    const atWork = Promise.withResolvers<void>();
    const begin = (): Promise<string> => {
      atWork.resolve();
      return slow.promise;
    };
    const tool = toolDevice("Slow", begin, { timeoutMs: 1_000_000 });
    await using h = harness(
      [
        async ({ tools, say }) => {
          await tools.call("Slow", {});
          await say({ type: "turn" });
          await say(text("Done."));
          await say(STOP);
        },
      ],
      {
        clock,
        devices: { "/dev/slow": tool },
        limits: { model_idle_timeout: 1_000, model_timeout: 5_000 },
      },
    );
    const pid = await h.spawn("do it", program(h));
    const ended = h.follow(pid);
    await atWork.promise;
    await clock.advance(100_000);
    slow.resolve("slow");
    await clock.advance(100);
    expect((await ended).info).toMatchObject({ exit_code: 0, result: "Done." });
  });

  test("returns its slot while its own calls are made", async () => {
    const asked: string[] = [];
    await using h = harness(
      [
        async ({ tools, say, request }) => {
          asked.push(request.intent);
          if (request.intent === "parent") {
            const { text: answer } = await tools.call("Agent", { intent: "child" });
            await say({ type: "turn" });
            await say(text(`It says: ${answer}`));
          } else {
            await say(text("I am the child."));
          }
          await say(STOP);
        },
      ],
      { planChild: async () => ({ provider: { ...program(h).provider, concurrency: 1 } }) },
    );
    const { provider } = program(h);
    const { info } = await h.run("parent", { provider: { ...provider, concurrency: 1 } });
    expect(info.result).toContain("I am the child.");
    expect(asked).toEqual(["parent", "child"]);
  });

  test("has the answer of the agent that it waits for when its run is suspended and resumed", async () => {
    const child = [silent, () => says("child's answer")];
    await using h = harness(
      [
        async ({ tools, say }) => {
          await say(text("I ask another."));
          await tools.call("Agent", { intent: "child" });
        },
        async ({ request, say }) => {
          await say(text(`result: ${request.messages.at(-1)?.content}`));
          await say(STOP);
        },
      ],
      {
        model: (request, signal) => (child.shift() ?? silent)(request, signal),
        planChild: async () => ({ provider: scripted(h) }),
      },
    );
    const pid = await h.spawn("parent", program(h));
    await until(() =>
      h.kernel.processes.infos().some(({ intent, steps: made }) => intent === "child" && made > 0),
    );
    const { uuid } = h.kernel.processes.info(pid);
    await h.kernel.lifecycle.suspend(pid);
    await until(() => h.kernel.processes.count === 0);
    expect(await steps(h, uuid)).toEqual([]);
    const again = await h.kernel.lifecycle.resume(uuid, null, h.opts(program(h)));
    const { info } = await h.follow(again.pid);
    expect(info.result).toStartWith("result: child's answer");
    expect(await steps(h, uuid)).toMatchObject([
      { raw_response: "I ask another.", tool_calls: [{ name: "Agent", state: "done" }] },
      { tool_calls: [] },
    ]);
  });

  test("is cut off with its run: the call under way is recorded as cancelled, and no other begins", async () => {
    const begun = Promise.withResolvers<void>();
    const late: Promise<unknown>[] = [];
    await using h = harness(
      [
        async ({ tools }) => {
          const hanging = tools.call("Hang", {});
          late.push(hanging.catch((thrown) => thrown));
          late.push(tools.call("Hang", {}).catch((thrown) => thrown));
          await hanging;
        },
      ],
      {
        devices: {
          "/dev/hang": toolDevice("Hang", (_input, signal) => {
            begun.resolve();
            return new Promise((_resolve, reject) =>
              signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
            );
          }),
        },
      },
    );
    const pid = await h.spawn("do it", program(h));
    const ended = h.follow(pid);
    await begun.promise;
    h.kernel.processes.kill(pid, SIGTERM);
    const { info } = await ended;
    expect(info.exit_reason).toBe("terminated");
    const [first, second] = await Promise.all(late);
    expect(first).toMatchObject({ error: "CANCELLED" });
    expect(second).toMatchObject({ code: "CLOSED" });
    const [step] = await steps(h, info.uuid);
    expect(step?.tool_calls.map(({ state }) => state)).toEqual(["cancelled"]);
  });

  test("has no tools outside of its answer, and neither has a driver that is not the model", async () => {
    let other: unknown;
    await using h = harness(
      [
        async ({ tools, say }) => {
          await tools.call("Other", {});
          await say(text("Done."));
          await say(STOP);
        },
      ],
      {
        devices: {
          "/dev/other": {
            ...toolDevice("Other", () => "ok"),
            factory: (...args) => {
              other = args[2].tools?.call("Echo", {}).catch((thrown) => thrown);
              return toolDevice("Other", () => "ok").factory(...args);
            },
          },
          "/dev/echo": echo,
        },
      },
    );
    await h.run("do it", program(h));
    expect(await other).toMatchObject({ code: "PERMISSION" });
    const [tools] = h.tools;
    expect(await tools?.call("Echo", {}).catch((thrown) => thrown)).toMatchObject({ code: "CLOSED" });
    expect(await tools?.list().catch((thrown) => thrown)).toMatchObject({ code: "CLOSED" });
  });
});

describe("the journal of a program's calls", () => {
  const ts = "2026-11-20T00:00:00.000Z";
  const message = { role: "assistant", content: "I change it." } as const;
  const begun: JournalEntry = {
    t: "answer",
    v: 1,
    step: 1,
    ts,
    message,
    usage: { input_tokens: 0, output_tokens: 0, cached_tokens: 0 },
    stop_reason: "tool_calls",
    served: true,
  };
  const start = (id: string, safe: boolean): JournalEntry => {
    return { t: "call_start", step: 1, ts, id, name: "Change", path: "/dev/change", input: { id }, safe };
  };

  test("makes a step of them when the run was cut off: finished calls count, an unknown end is named as such", () => {
    const done: ToolCallRecord = {
      id: "served-1-1",
      name: "Change",
      path: "/dev/change",
      input: {},
      result: "changed",
      error: null,
      error_code: null,
      started_at: ts,
      duration_ms: 1,
      state: "done",
    };
    const { openStep } = historyOf(
      eventsOf(
        [],
        [
          begun,
          start("served-1-1", false),
          { t: "call_end", step: 1, ts, call: done },
          start("served-1-2", false),
          start("served-1-3", true),
        ],
      ),
      { role: "user", content: "do it" },
    );
    expect(openStep?.message.tool_calls?.map(({ id }) => id)).toEqual([
      "served-1-1",
      "served-1-2",
      "served-1-3",
    ]);
    expect(openStep?.message.content).toBe("I change it.");
    expect([...(openStep?.settled.values() ?? [])].map(({ id, state }) => [id, state])).toEqual([
      ["served-1-1", "done"],
      ["served-1-2", "unknown"],
    ]);
  });

  test("is absent without a call: the model is asked again", () => {
    const { openStep, messages } = historyOf(
      eventsOf([], [{ ...begun, messages: [{ role: "user", content: "do it" }] }]),
      {
        role: "user",
        content: "do it",
      },
    );
    expect(openStep).toBeNull();
    expect(messages).toEqual([{ role: "user", content: "do it" }]);
  });
});

describe("an interruption of a program that is the model", () => {
  test("ends its tool call and its answer; what it had done is recorded, and the next message is answered", async () => {
    const begun = Promise.withResolvers<void>();
    const slow = toolDevice("Slow", (_input, signal) => {
      begun.resolve();
      return new Promise<string>((_resolve, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      });
    });
    await using h = harness(
      [
        async ({ tools, say }) => {
          await say(text("first I look. "));
          await tools.call("Slow", {});
          await say(text("never said"));
        },
        async ({ say }) => {
          await say(text("as you say"));
          await say(STOP);
        },
      ],
      { devices: { "/dev/slow": slow } },
    );
    const pid = await h.spawn("go", { chat: true, ...program(h) });
    const { uuid } = h.kernel.processes.info(pid);
    await begun.promise;
    expect(await h.kernel.chats.interrupt(pid)).toMatchObject({ interrupted: "tools", put_back: [] });
    const [step] = (await h.runs.steps(uuid)).records;
    expect(step).toMatchObject({
      raw_response: "first I look. ",
      tool_calls: [{ name: "Slow", state: "cancelled", error_code: "CANCELLED" }],
    });
    await h.kernel.chats.send(pid, { text: "otherwise", when: "next_step" });
    await until(() => h.requests.length === 2);
    expect(h.requests[1]?.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "user"]);
    await until(() => h.kernel.chats.waits(pid));
    await h.kernel.chats.end(pid);
    expect((await h.follow(pid)).info).toMatchObject({ exit_code: 0, result: "as you say", steps: 2 });
  });

  test("keeps what it said after its last call as a step of its own", async () => {
    await using h = harness(
      [
        async ({ request, tools, say, signal }) => {
          await tools.call("Look", {});
          await say(text("half an "));
          await say(text("answer"));
          await silent(request, signal);
        },
        async ({ say }) => {
          await say(text("whole"));
          await say(STOP);
        },
      ],
      { devices: { "/dev/look": toolDevice("Look", () => "seen") } },
    );
    const pid = await h.spawn("go", program(h));
    const { uuid } = h.kernel.processes.info(pid);
    for await (const event of h.kernel.attach(pid)) {
      if (event.event === "text_delta" && event.text.includes("answer")) break;
    }
    expect(await h.kernel.chats.interrupt(pid)).toMatchObject({ interrupted: "model", text_seen: true });
    const { records } = await h.runs.steps(uuid);
    expect(records).toMatchObject([
      { step: 1, tool_calls: [{ name: "Look", state: "done" }] },
      { step: 2, raw_response: "half an answer", interrupted: true },
    ]);
    await h.kernel.chats.send(pid, { text: "go on", when: "next_step" });
    expect((await h.follow(pid)).info).toMatchObject({ exit_code: 0, result: "whole", steps: 3 });
  });
});
