import { describe, expect, test } from "bun:test";
import { definePlugin, type LLMRequest, type OpenContext, SyscallError } from "../../src/plugin/index.ts";
import {
  calls,
  KernelHarness,
  type Model,
  says,
  script,
  silent,
  toolDevice,
  usage,
} from "../support/kernel.ts";
import { until } from "../support/until.ts";

const ACT = { "/dev/act": toolDevice("Act", () => "acted") };
const act = (n: number) => calls(["Act", { n }]);

function turnsOf(requests: readonly LLMRequest[]): (number | null | undefined)[] {
  return requests.map(({ turn }) => turn);
}

describe("a request has the number of the run's answers", () => {
  test("one more with each step, and the same again when it is retried", async () => {
    const answers = script(act(1), act(2), says("done"));
    let asked = 0;
    const model: Model = (request, signal) => {
      if (++asked === 2) throw new SyscallError("UNAVAILABLE", "busy", { retryable: true, retryAfterMs: 1 });
      return answers(request, signal);
    };
    await using h = new KernelHarness({ model, devices: ACT, limits: { model_retries: 1 } });
    await h.run("go");
    expect(turnsOf(h.requests)).toEqual([0, 1, 1, 2]);
  });

  test("continues at its step when it is resumed, and where its first steps end in a fork", async () => {
    const answers = script(act(1), act(2), says("done"), says("forked"));
    let asked = 0;
    const model: Model = (request, signal) =>
      ++asked === 3 ? silent(request, signal) : answers(request, signal);
    await using h = new KernelHarness({ model, devices: ACT });
    const pid = await h.spawn("go");
    await until(() => h.requests.length === 3);
    const { uuid } = h.kernel.processes.info(pid);
    await h.kernel.lifecycle.suspend(pid);
    await h.resumed(uuid);
    expect(turnsOf(h.requests)).toEqual([0, 1, 2, 2]);
    await h.resumed(uuid, { fork: { step: 1 } });
    expect(turnsOf(h.requests).slice(4)).toEqual([1]);
  });

  test("and the same when it was refused as too long and is sent shorter", async () => {
    const long = "word ".repeat(20_000);
    const read = toolDevice("Act", () => long);
    let refused = false;
    const answers = script(act(1), act(2), act(3), says("done"));
    const model: Model = (request, signal) => {
      if (request.turn === null) throw new SyscallError("INVALID", "no summary", { retryable: false });
      if (request.turn === 3 && !refused) {
        refused = true;
        throw new SyscallError("INVALID", "too long", { tooLong: true, retryable: false });
      }
      return answers(request, signal);
    };
    await using h = new KernelHarness({ model, devices: { "/dev/act": read } });
    const { info } = await h.run("go");
    expect(info).toMatchObject({ exit_code: 0, result: "done" });
    expect(turnsOf(h.requests).filter((turn) => turn !== null)).toEqual([0, 1, 2, 3, 3]);
  });
});

test("a step's record says where its answer is incomplete", async () => {
  await using h = new KernelHarness({
    model: script(act(1), [
      { type: "text_delta", text: "half" },
      { type: "usage", usage },
      { type: "stop", reason: "max_tokens" },
    ]),
    devices: ACT,
  });
  const { info } = await h.run("go");
  const { records } = await h.runs.steps(info.uuid);
  expect(records.map(({ stop_reason }) => stop_reason)).toEqual([undefined, "max_tokens"]);
});

test("a driver that needs the history reads the runs' records, its own too", async () => {
  const found: unknown[] = [];
  const look = async ({ history, process }: OpenContext): Promise<string> => {
    const [self] = (await history?.runs({ uuid: process.uuid, limit: 1 })) ?? [];
    found.push(self?.intent, self?.ended_at_ms, (await history?.steps(process.uuid, 0, 9))?.length);
    return "looked";
  };
  const { devices } = definePlugin({
    name: "look",
    needs: ["history"],
    devices: {
      "/dev/look": {
        tools: [{ name: "Look", description: "Looks at the runs", input: { type: "object" } }],
        factory: (_subpath, _flags, context) => {
          let result = "";
          return {
            write: async () => {
              result = await look(context);
            },
            read: async () => {
              const all = result;
              result = "";
              return all;
            },
            close: async () => {},
            stat: async () => ({ name: "look", size: 0, isDevice: true, devicePath: "/dev/look" }),
          };
        },
      },
    },
  });
  await using h = new KernelHarness({
    model: script(calls(["Look", {}]), calls(["Look", {}]), says("done")),
    devices,
    needs: { "/dev/look": ["history"] },
  });
  await h.run("go and look");
  expect(found).toEqual(["go and look", null, 0, "go and look", null, 1]);
});
