import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bareAgent } from "../../../src/kernel/process/process-spec.ts";
import type { LLMRequest } from "../../../src/plugin/index.ts";
import type { Run } from "../../../src/server/records/recorded-run.ts";
import { promptOfStep } from "../../../src/server/records/step-prompt.ts";
import { DEVICES, INTENT, model, read, reads, steps } from "../../kernel/compaction/support.ts";
import { calls, KernelHarness, says, script, toolDevice } from "../../support/kernel.ts";
import { openJournal } from "../../support/open-journal.ts";
import { until } from "../../support/until.ts";

async function runOf(h: KernelHarness, uuid: string): Promise<Run> {
  const info = await h.runs.info(uuid);
  if (!info) throw new Error(`there is no run ${uuid}`);
  return { info, records: h.runs };
}

const find = (h: KernelHarness) => (uuid: string) => runOf(h, uuid);

/** Expects for every step that the prompt from the records is the model's request. */
async function requireAsSent(h: KernelHarness, uuid: string, asked: LLMRequest[], from = 1): Promise<void> {
  const run = await runOf(h, uuid);
  for (const [index, { system_prompt, messages, tools }] of asked.entries()) {
    const step = from + index;
    const prompt = await promptOfStep(run, step, find(h));
    expect<unknown>(prompt).toMatchObject({ step, provider: "scripted", model: "m", system_prompt });
    expect<unknown>(prompt?.messages).toEqual(messages);
    expect<unknown>(prompt?.tools).toEqual(tools ?? []);
  }
}

describe("the prompt of a step is the model's request", () => {
  test("in a run that is compacted, gets a message and a tool, and is continued", async () => {
    const play = model([...reads(12), says('"done"'), says('"so are these"'), says('"and those"')]);
    let sent = 0;
    await using h: KernelHarness = new KernelHarness({
      devices: DEVICES,
      limits: { context_window: 8_000 },
      model: async (request, signal) => {
        if (++sent === 3) {
          await h.kernel.ipc.send(0, 1, "count the empty ones, too");
          h.kernel.capabilities.grant(1, ["Work"]);
        }
        return play(request, signal);
      },
    });
    const { info } = await h.run(INTENT, {
      allow: ["Read"],
      input: "the list",
      output_schema: { type: "string" },
    });
    expect(info.exit_reason).toBe("completed");
    await h.kernel.lifecycle.resume(info.uuid, null, h.opts(), { input: "and these?" });
    await h.follow(2);
    const asked = steps(h);
    expect(new Set(asked.map(({ tools }) => tools?.length))).toEqual(new Set([1, 2]));
    await requireAsSent(h, info.uuid, asked);
    const last = await promptOfStep(await runOf(h, info.uuid), asked.length, find(h));
    expect(last?.compactions.length).toBeGreaterThan(0);
    for (const one of last?.compactions ?? []) expect(one.truncated + one.replaced).toBeGreaterThan(0);
    expect(last?.output_schema).toEqual({ type: "string" });
  });

  test("while its calls run", async () => {
    const held = Promise.withResolvers<string>();
    await using h = new KernelHarness({
      model: script(read("a"), calls(["Hold", {}]), says("done")),
      devices: { ...DEVICES, "/dev/hold": toolDevice("Hold", () => held.promise) },
    });
    const pid = await h.spawn(INTENT);
    const { uuid } = h.kernel.processes.info(pid);
    await until(
      async () => (await openJournal(h.runs, uuid)).entries.some(({ t }) => t === "call_start"),
      "the call",
    );
    await requireAsSent(h, uuid, h.requests.slice(0, 2));
    expect(await promptOfStep(await runOf(h, uuid), 3, find(h))).toBeUndefined();
    held.resolve("held");
    await h.follow(pid);
    await requireAsSent(h, uuid, h.requests);
  });

  test("in a fork, whose first steps have the prompt head of its origin", async () => {
    await using h = new KernelHarness({
      model: script(read("a"), says("done"), says("forked")),
      devices: DEVICES,
    });
    const { info } = await h.run(
      INTENT,
      {},
      { ...bareAgent("brief"), instructions: "Be brief.", allowedTools: ["*"] },
    );
    const { pid, uuid } = await h.kernel.lifecycle.resume(info.uuid, null, h.opts(), {
      fork: { step: 1 },
      input: "another way",
    });
    await h.follow(pid);
    const [first, , forked] = h.requests;
    if (!first || !forked) throw new Error("the model was not asked");
    expect(first.system_prompt).not.toBe(forked.system_prompt);
    await requireAsSent(h, uuid, [first, forked]);
    const gone = promptOfStep(await runOf(h, uuid), 1, async () => undefined);
    await expect(gone).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});

test("the prompt of a step after a lost one is unknown, and a missing step has no prompt", async () => {
  await using h = new KernelHarness({ model: script(read("a"), read("b"), says("done")), devices: DEVICES });
  const { info } = await h.run(INTENT);
  const file = join(h.runs.dir(info.uuid), "steps.jsonl");
  const [one, , three] = readFileSync(file, "utf8").split("\n");
  writeFileSync(file, [one, "{ torn", three, ""].join("\n"));
  const run = await runOf(h, info.uuid);
  expect(await promptOfStep(run, 1, find(h))).toBeDefined();
  await expect(promptOfStep(run, 3, find(h))).rejects.toMatchObject({
    code: "INVALID",
    message: expect.stringContaining("Step 2"),
  });
  expect(await promptOfStep(run, 4, find(h)).catch(() => undefined)).toBeUndefined();
});
