import { describe, expect, test } from "bun:test";
import { type LLMRequest, SyscallError } from "../../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, script, silent, toolDevice } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

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
