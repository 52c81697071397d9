import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ResumeOptions } from "../../../src/kernel/agents/run-resumer.ts";
import type { Limits, ProcInfo, SpawnOpts } from "../../../src/kernel/types.ts";
import { SIGINT, SIGKILL, SIGPAUSE, SIGTERM } from "../../../src/lib/signals.ts";
import { type LLMEvent, SyscallError } from "../../../src/plugin/index.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { calls, KernelHarness, type Model, says, silent, toolDevice, usage } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

setDefaultTimeout(120_000);

/** One way for a run to end, after a first step that is whole. */
interface End {
  reason: string;
  code: number;
  /** What its model does at every call after the first, until the run has ended. */
  second: Model;
  spawn?: Partial<SpawnOpts>;
  limits?: Partial<Limits>;
  /** When its second call is under way. */
  act?(h: KernelHarness, pid: number, clock: FakeClock): unknown;
  /** What it needs to resume. */
  needs?: ResumeOptions & Partial<SpawnOpts>;
  /** What its model reads about the end. */
  notice?: string;
}

function cut(reason: "refusal" | "max_tokens"): LLMEvent[] {
  return [
    { type: "text_delta", text: "half" },
    { type: "usage", usage },
    { type: "stop", reason },
  ];
}

const ENDS: End[] = [
  { reason: "completed", code: 0, second: () => says("one"), needs: { input: "and now?" } },
  {
    reason: "completed",
    code: 0,
    second: () => calls(["Complete", { result: "one" }]),
    needs: { input: "and now?" },
  },
  { reason: "failed", code: 1, second: () => cut("refusal"), notice: "declined" },
  { reason: "llm_error", code: 1, second: () => cut("max_tokens"), notice: "output limit" },
  {
    reason: "llm_error",
    code: 1,
    second: () => Promise.reject(new SyscallError("DRIVER", "no such model", { retryable: false })),
  },
  {
    reason: "check_failed",
    code: 1,
    second: () => says("one"),
    spawn: { check: ["test -e checked || ! touch checked"] },
    notice: "the check",
  },
  { reason: "max_steps", code: 1, second: silent, spawn: { max_steps: 1 }, needs: { max_steps: 9 } },
  {
    reason: "budget_exceeded",
    code: 2,
    second: silent,
    spawn: { context_budget: 4_500 },
    needs: { context_budget: 100_000 },
  },
  {
    reason: "timeout",
    code: 1,
    second: silent,
    spawn: { timeout_ms: 60 },
    act: (_h, _pid, clock) => clock.advance(60),
    needs: { timeout_ms: null },
  },
  { reason: "loop_detected", code: 1, second: () => calls(["Look", {}]), limits: { loop_threshold: 2 } },
  { reason: "interrupted", code: 130, second: silent, act: (h, pid) => h.kernel.processes.kill(pid, SIGINT) },
  { reason: "terminated", code: 143, second: silent, act: (h, pid) => h.kernel.processes.kill(pid, SIGTERM) },
  { reason: "killed", code: 137, second: silent, act: (h, pid) => h.kernel.processes.kill(pid, SIGKILL) },
  {
    reason: "killed_while_paused",
    code: 137,
    second: silent,
    act: (h, pid) => {
      h.kernel.processes.kill(pid, SIGPAUSE);
      h.kernel.processes.kill(pid, SIGKILL);
    },
  },
  { reason: "suspended", code: 75, second: silent, act: (h, pid) => h.kernel.lifecycle.suspend(pid) },
];

async function ended(end: End): Promise<{ h: KernelHarness; info: ProcInfo }> {
  let asked = 0;
  let over = false;
  const clock = new FakeClock();
  const h = new KernelHarness({
    clock,
    model: (request, signal) => {
      if (over) return says("went on");
      return ++asked === 1 ? expensive(calls(["Look", {}])) : end.second(request, signal);
    },
    devices: { "/dev/look": toolDevice("Look", () => "seen") },
    limits: end.limits,
  });
  const pid = await h.spawn("go", end.spawn);
  if (end.act) {
    await until(() => h.requests.length === 2);
    await end.act(h, pid, clock);
  }
  const { info } = await h.follow(pid);
  await until(() => h.kernel.processes.count === 0);
  over = true;
  return { h, info };
}

function expensive(events: LLMEvent[]): LLMEvent[] {
  return events.map((event) =>
    event.type === "usage" ? { ...event, usage: { ...event.usage, input_tokens: 4_000 } } : event,
  );
}

for (const fork of [undefined, {}]) {
  describe(`a run that has ended is ${fork ? "forked" : "resumed"}:`, () => {
    for (const end of ENDS) {
      const { input, ...more } = end.needs ?? {};
      test(`${end.reason} (${end.code})${end.notice ? `, ${end.notice}` : ""}`, async () => {
        const { h, info } = await ended(end);
        await using _ = h;
        expect(info).toMatchObject({ exit_reason: end.reason, exit_code: end.code });
        const before = h.requests.at(-1)?.messages.length ?? 0;
        const { pid, uuid } = await h.kernel.lifecycle.resume(info.uuid, null, h.opts(more), { input, fork });
        const { info: after } = await h.follow(pid);
        expect(after).toMatchObject({ exit_code: 0, result: "went on", partial: false, error: null });
        expect(after.origin_uuid).toBe(fork ? info.uuid : null);
        expect(uuid === info.uuid).toBe(fork === undefined);
        const asked = h.requests.at(-1)?.messages ?? [];
        expect(asked.length).toBeGreaterThanOrEqual(before);
        expect(asked.at(-1)?.role).not.toBe("assistant");
        if (end.notice) expect(asked.at(-1)?.content).toContain(end.notice);
        const { records } = await h.runs.steps(uuid);
        expect(records.map(({ step }) => step)).toEqual(records.map((_record, at) => at + 1));
      });
    }
  });
}
