import { describe, expect, test } from "bun:test";
import { type LLMEvent, type LLMRequest, SyscallError, type ToolService } from "../../src/plugin/index.ts";
import { KernelHarness, says, toolDevice } from "../support/kernel.ts";

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

type Options = Omit<ConstructorParameters<typeof KernelHarness>[0], "model">;

/** A kernel whose processes have this program as their model. `others`: devices that need the service too. */
function harness(programs: Program[], more: Options = {}): KernelHarness & { tools: ToolService[] } {
  const asked: ToolService[] = [];
  const h = new KernelHarness({
    ...more,
    model: () => says("unused"),
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
            // Who reads on has seen what came before.
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
  const { provider } = h.opts();
  h.leases--;
  return { provider: { ...provider, device: DEVICE } };
}

/** Records of the run's steps, as they are on disk. */
async function steps(h: KernelHarness, uuid: string) {
  return (await h.runs.steps(uuid)).records;
}

const echo = toolDevice("Echo", ({ op: _op, ...input }) => JSON.stringify(input), {
  annotations: { readOnlyHint: true },
});

describe("a program that is the model and calls tools by itself", () => {
  test("has each of its turns as a step: text, calls, results and what it used", async () => {
    await using h = harness(
      [
        async ({ tools, say }) => {
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
    expect(
      events.flatMap((event) => (event.type === "text_delta" ? [[event.step, event.text]] : [])),
    ).toEqual(
      [[1, "I look."], [3, "Done."]], // biome-ignore format: a table
    );
    expect(events.flatMap((event) => (event.type === "log" ? [event.entry.kind] : []))).toEqual([
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
});
