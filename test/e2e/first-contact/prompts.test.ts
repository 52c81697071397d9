import { expect, setDefaultTimeout, test } from "bun:test";
import { z } from "zod";
import { Machine } from "../support/machine.ts";
import { systemPrompt, toolNames } from "../support/requests.ts";
import { calls, says } from "../support/scenes.ts";
import { RawClient } from "../support/wire.ts";

setDefaultTimeout(60_000);

const Prompt = z.object({
  step: z.int(),
  provider: z.literal("openai"),
  model: z.literal("m"),
  system_prompt: z.string(),
  tools: z.array(z.object({ name: z.string(), description: z.string(), input: z.looseObject({}) })),
  messages: z.array(z.looseObject({ role: z.string(), content: z.string() })),
  compactions: z.array(z.unknown()),
});

test("rnix steps PID N --prompt prints what the model was sent for a step, and get_step_prompt answers it", async () => {
  await using machine = new Machine();
  const model = await machine.play({
    look: [calls(["Read", { path: "a.txt" }]), says("seen"), says("once more")],
  });
  machine.write("a.txt", "the text of a\n");
  await machine.ok(["spawn", "look", "--allow", "Read,Grep"]);
  await machine.ok(["resume", "1", "and again"]);

  for (const [index, request] of model.requests.entries()) {
    const step = index + 1;
    const printed = await machine.run(["steps", "1", String(step), "--prompt", "--json"]);
    const prompt = Prompt.parse(JSON.parse(printed.stdout));
    expect(prompt).toMatchObject({ step, system_prompt: systemPrompt(request), compactions: [] });
    expect(prompt.tools.map(({ name }) => name).toSorted()).toEqual(toolNames(request));
    expect(prompt.messages.length).toBe([1, 3, 5][index] ?? 0);
    expect(prompt.messages.at(-1)?.content).toContain(["look", "the text of a", "and again"][index] ?? "");
  }
  const text = await machine.run(["steps", "1", "3", "--prompt"]);
  expect(text.stdout).toMatch(/^step +3\nmodel +openai m\nmessages +5\n\nsystem\n/);
  for (const part of ["\ntools\n", "Grep ", "\nuser\nlook", "\nassistant\n", "\ntool\n", "and again"])
    expect(text.stdout).toContain(part);

  const missing = await machine.run(["steps", "1", "9", "--prompt"]);
  expect(missing.code).toBe(64);
  expect(missing.stderr).toContain("has no recorded answer in step 9");
  const which = await machine.run(["steps", "1", "--prompt"]);
  expect(which).toMatchObject({ code: 64, stderr: expect.stringContaining("--prompt needs N") });

  const client = await RawClient.connect(machine.socket);
  const answer = await client.ask("get_step_prompt", { pid: 1, step: 2, cwd: machine.project });
  expect(Prompt.parse(answer.payload).messages.map(({ role }) => role)).toEqual([
    "user",
    "assistant",
    "tool",
  ]);
  client.destroy();
});
