import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { StepRecord } from "../../../../src/store/runs/schema.ts";
import { Machine } from "../../support/machine.ts";
import { bash, type Scene, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";

interface Case {
  provider: string;
  word: string;
  reason: string;
  says: string;
  /** So often the model is asked. */
  requests?: number;
}

const CASES: Case[] = [
  { provider: "openai", word: "model_length", reason: "llm_error", says: "context window" },
  { provider: "openai", word: "network_error", reason: "llm_error", says: "try again later", requests: 2 },
  { provider: "openai", word: "sensitive", reason: "failed", says: "content filter" },
  { provider: "openai", word: "content_filter", reason: "failed", says: "content filter" },
  { provider: "openai", word: "incomplete", reason: "llm_error", says: "partial" },
  { provider: "openai", word: "\u001b[31mred\u0007", reason: "llm_error", says: "partial" },
  {
    provider: "anthropic",
    word: "model_context_window_exceeded",
    reason: "llm_error",
    says: "context window",
  },
  { provider: "anthropic", word: "refusal", reason: "failed", says: "declined" },
  { provider: "anthropic", word: "a_new_one", reason: "llm_error", says: "partial" },
  { provider: "google", word: "SAFETY", reason: "failed", says: "content filter" },
  { provider: "google", word: "RECITATION", reason: "failed", says: "content filter" },
  { provider: "google", word: "OTHER", reason: "llm_error", says: "try again later", requests: 2 },
  { provider: "google", word: "MALFORMED_FUNCTION_CALL", reason: "llm_error", says: "later", requests: 2 },
  { provider: "google", word: "LANGUAGE", reason: "llm_error", says: "partial" },
];

function stepsOf(machine: Machine, uuid: string): StepRecord[] {
  const file = join(machine.project, ".rnix/data/steps", uuid, "steps.jsonl");
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  return lines.map((line) => StepRecord.parse(JSON.parse(line)));
}

test("a partial answer ends with exit 1, whatever its stop reason, and the reason is named", async () => {
  await using machine = new Machine();
  machine.config({ model_retries: 1 });
  const book: [string, Scene[]][] = CASES.flatMap(({ word }, index) => [
    [`text ${index}.`, [{ text: "Half of", stop_word: word }]],
    [`calls ${index}.`, [{ text: "I touch", ...bash("touch acted"), stop_word: word }]],
  ]);
  const model = await machine.play(Object.fromEntries(book));
  for (const [index, { provider, word, reason, says, requests = 1 }] of CASES.entries()) {
    const before = model.requests.length;
    const args = [`text ${index}.`, "--provider", provider, "--model", "m"];
    const { receipt, stderr } = await verdict(machine, args);
    expect(receipt).toMatchObject({ exit_code: 1, exit_reason: reason, partial: true, result: "Half of" });
    const shown = word.startsWith("\u001b") ? "\\u001b[31mred" : word;
    for (const text of [receipt.error?.message, stderr]) {
      expect(text).toContain(word === "refusal" ? "declined" : shown);
      expect(text).toContain(says);
      expect(text).not.toContain("\u001b[31m");
    }
    expect(model.requests.length - before).toBe(requests);
    const [step] = requests === 1 ? stepsOf(machine, receipt.uuid) : [];
    if (requests === 1) expect(step?.stop_word).toBe(word);
  }
  for (const [index, { provider, word, reason }] of CASES.entries()) {
    // At the output limit a call before the last one may be made; no call here is one.
    if (word.startsWith("model_")) continue;
    const { receipt } = await verdict(machine, [`calls ${index}.`, "--provider", provider, "--model", "m"]);
    expect(receipt).toMatchObject({ exit_code: 1, exit_reason: reason, tool_calls: 0 });
  }
  expect(machine.has("acted")).toBe(false);
});

test("a run with a partial answer has a partial answer in its replay", async () => {
  await using machine = await Machine.playing({ "do it": [{ text: "Half of", stop_word: "a_new_one" }] });
  const { receipt } = await verdict(machine, ["do it"]);
  const file = join(machine.project, ".rnix/data/steps", receipt.uuid, "steps.jsonl");
  for (const model of [receipt.uuid, file]) {
    const played = await verdict(machine, ["do it", "--provider", "replay", "--model", model]);
    expect(played.receipt).toMatchObject({ exit_code: 1, exit_reason: "llm_error", partial: true });
    expect(played.receipt.error?.message).toContain('"a_new_one"');
  }
});

describe("a model that pauses its turn", () => {
  const paused = (text: string): Scene => ({ text, stop_word: "pause_turn" });
  const anthropic = ["--provider", "anthropic", "--model", "m"];

  test("is called again with its own message last, and its earlier text is part of the answer", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "do it": [paused("First,"), paused(" second"), says(" and third.")] });
    const { receipt } = await verdict(machine, ["do it", ...anthropic]);
    expect(receipt).toMatchObject({ exit_code: 0, result: "First, second and third.", steps: 3 });
    const [, second, third] = model.requests.map(({ body }) => body.messages?.slice(1));
    expect(second).toMatchObject([{ role: "assistant", content: [{ text: "First," }] }]);
    expect(third).toMatchObject([{ role: "assistant", content: [{ text: "First," }, { text: "second" }] }]);
    expect(third).toHaveLength(1);
  });

  test("every time is stopped by the run's limits", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "do it": [paused("again ")] });
    const { receipt } = await verdict(machine, ["do it", ...anthropic, "--max-steps", "4"]);
    expect(receipt).toMatchObject({ exit_code: 1, exit_reason: "max_steps", steps: 4, partial: true });
    expect(model.requests).toHaveLength(4);
  });

  test("continues its turn after the daemon was killed meanwhile", async () => {
    await using machine = new Machine();
    const hanging = { text: "", fault: { kind: "hang" } } as const;
    const model = await machine.play({ "do it": [paused("First,"), hanging, says(" and the rest.")] });
    const run = machine.start(["spawn", "do it", ...anthropic, "--detach"]);
    expect((await run.done).code).toBe(0);
    await model.arrived(2);
    machine.killDaemon();
    const [uuid = ""] = (await run.done).stdout.match(/[0-9a-f-]{36}/) ?? [];
    const resumed = await machine.run(["resume", uuid]);
    expect(resumed).toMatchObject({ code: 0, stdout: "First, and the rest.\n" });
    expect(model.last.body.messages?.at(-1)?.role).toBe("assistant");
  });

  test("without any text gives an empty answer, which is retried", async () => {
    await using machine = new Machine();
    machine.config({ model_retries: 1 });
    const model = await machine.play({ "do it": [paused("")] });
    const { receipt } = await verdict(machine, ["do it", ...anthropic]);
    expect(receipt).toMatchObject({ exit_code: 1, exit_reason: "llm_error" });
    expect(model.requests).toHaveLength(2);
  });
});
