import { describe, expect, test } from "bun:test";
import { cpSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import replay from "../../plugins/replay/index.ts";
import { exportScript } from "../../src/cli/replay/export.ts";
import { Client } from "../../src/client/client.ts";
import { overStream } from "../../src/client/session.ts";
import { type Device, type LLMEvent, SyscallError } from "../../src/plugin/index.ts";
import type { StepRecord } from "../../src/store/runs/schema.ts";
import { FakeIo } from "../cli/support.ts";
import { KernelHarness, toolDevice } from "../support/kernel.ts";
import { seeded } from "../support/seeded.ts";
import { serve } from "./support/fixture.ts";

const SEEDS = 12;

/** Results of every kind: short and long, broken, and never the same twice where that must not matter. */
function tools(): Record<string, Device> {
  let runs = 0;
  const lines = (count: number): string =>
    Array.from({ length: count }, (_, n) => `${n}: "ünï" 漢字\t👩🏽‍🚀 - # ${n * 7} `).join("\n");
  return {
    "/dev/echo": toolDevice("Echo", ({ text }) => String(text), { annotations: { readOnlyHint: true } }),
    "/dev/long": toolDevice("Long", ({ lines: count }) => lines(Number(count))),
    "/dev/clock": toolDevice("Clock", () => `${++runs}ms, pid ${runs}, ${crypto.randomUUID()}`),
    "/dev/fail": toolDevice("Fail", ({ text }) => {
      throw new SyscallError("NOT_FOUND", `there is no\n${text}`);
    }),
  };
}

const TEXTS = [
  "",
  "yes",
  "null",
  "- a\n- b: [1, 2]",
  "  led by spaces\n\n",
  "'\"\\ 漢字 👩🏽‍🚀\r\n\t# x",
  "12e3",
];

/** The model's answers of the run that the seed generates. */
function answersOf(seed: number): LLMEvent[][] {
  const random = seeded(seed);
  const below = (limit: number): number => Math.floor(random() * limit);
  const text = (): string => TEXTS[below(TEXTS.length)] ?? "";
  const inputs: Record<string, () => Record<string, unknown>> = {
    Echo: () => ({ text: text() }),
    Long: () => ({ lines: below(400) }),
    Clock: () => ({ deep: [{ text: text(), n: below(9) / 7 }, null, true] }),
    Fail: () => ({ text: text() }),
    Nothing: () => ({}),
  };
  const names = Object.keys(inputs);
  const steps = 1 + below(5);
  return Array.from({ length: steps + 1 }, (_, step): LLMEvent[] => {
    const last = step === steps;
    const count = last ? 0 : 1 + below(3);
    const calls = Array.from({ length: count }, (_, n): LLMEvent => {
      const name = names[below(names.length)] ?? "Echo";
      return { type: "tool_call", call: { id: `c${step}_${n}`, name, input: inputs[name]?.() ?? {} } };
    });
    const usage = { input_tokens: below(99), output_tokens: below(99), cached_tokens: below(9) };
    return [
      { type: "reasoning_delta", text: text() },
      { type: "text_delta", text: last ? `the end${text()}` : text() },
      ...calls,
      { type: "usage", usage },
      { type: "stop", reason: last ? (below(4) === 0 ? "max_tokens" : "end_turn") : "tool_calls" },
    ];
  });
}

/** What must be the same in both: not when it was, how long it took, and what differs each time. */
function essence({ messages, tool_calls, usage, reasoning, stop_reason, action }: StepRecord) {
  const calls = tool_calls.map(({ name, input, state, error_code, result }) => {
    return [name, input, state, error_code, name === "Clock" ? "" : result];
  });
  return {
    said: messages.findLast(({ role }) => role === "assistant"),
    calls,
    usage,
    reasoning,
    stop_reason,
    action,
  };
}

describe("a replay by UUID, and of a script of each form, equals the recorded run", () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    test(`seed ${seed}`, async () => {
      const answers = answersOf(seed);
      await using h = new KernelHarness({
        model: ({ turn }) => answers[turn ?? -1] ?? [],
        devices: { ...tools(), ...replay.devices },
        needs: { "/dev/llm/replay": ["history", "store"] },
      });
      const { info } = await h.run("go");
      const before = (await h.runs.steps(info.uuid)).records.map(essence);

      await using server = await serve("memory");
      mkdirSync(join(server.dir, "steps"), { recursive: true });
      cpSync(join(h.dataDir, "steps"), join(server.dir, "steps"), { recursive: true });
      const client = new Client(overStream(await server.connect()));
      const io = new FakeIo({ cwd: h.project });
      for (const form of ["yaml", "json", "jsonl"]) {
        expect(await exportScript(io, client, { uuid: info.uuid }, `run.${form}`)).toMatchObject({
          answers: before.length,
        });
      }
      const { provider } = h.opts();
      h.leases--;
      for (const model of [info.uuid, "run.yaml", "run.json", "run.jsonl"]) {
        const played = await h.run("go", { provider: { ...provider, device: "/dev/llm/replay", model } });
        expect(played.info.error).toEqual(info.error);
        expect(played.info).toMatchObject({
          exit_code: info.exit_code,
          exit_reason: info.exit_reason,
          result: info.result,
        });
        expect((await h.runs.steps(played.info.uuid)).records.map(essence)).toEqual(before);
      }
    });
  }
});
