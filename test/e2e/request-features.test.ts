import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { png } from "../support/images.ts";
import { Machine } from "./support/machine.ts";
import { calls, says } from "./support/scenes.ts";

const SCHEMA = {
  type: "object",
  properties: { name: { type: "string" }, count: { type: "integer" } },
  required: ["name", "count"],
  additionalProperties: false,
};
const GOOD = '{"name": "a", "count": 2}';

function receiptOf(stdout: string): Record<string, unknown> {
  return JSON.parse(stdout);
}

describe("--output-schema", () => {
  test("gives the answer as output, and prints only its JSON", async () => {
    await using machine = new Machine();
    machine.write("schema.json", JSON.stringify(SCHEMA));
    await machine.play({ count: [says(`\`\`\`json\n${GOOD}\n\`\`\``)] });
    const args = ["spawn", "count", "--output-schema", "schema.json"];
    const { stdout, code } = await machine.run(args);
    expect([code, stdout]).toEqual([0, `${GOOD}\n`]);
    const json = receiptOf((await machine.run([...args, "--output", "json"])).stdout);
    expect(json).toMatchObject({ exit_code: 0, output: JSON.parse(GOOD), result: GOOD });
    const shown = receiptOf((await machine.run(["show", "1", "--json"])).stdout);
    expect(shown).toMatchObject({ output: JSON.parse(GOOD) });
  });

  test("fails the check with 1 when no answer of the model fits", async () => {
    await using machine = new Machine();
    machine.write("schema.json", JSON.stringify(SCHEMA));
    const model = await machine.play({ count: [says('{"name": 5}')] });
    const args = ["spawn", "count", "--output-schema", "schema.json", "--output", "json", "--no-daemon"];
    const { stdout, code } = await machine.run(args);
    expect(code).toBe(1);
    expect(receiptOf(stdout)).toMatchObject({
      exit_reason: "check_failed",
      output: null,
      error: { code: "INVALID", message: expect.stringContaining("count") },
    });
    expect(model.requests).toHaveLength(3);
  });

  test.each([
    ["that is not there", undefined, "no such file"],
    ["that is not JSON", "{", "not JSON"],
    ["that is a list", "[]", "expected a JSON object"],
    ["that is no schema", '{"type": "strng"}', "strng"],
    ["that can't be checked", '{"if": {}}', "if/then/else"],
  ])("refuses a file %s with 64, and asks no model", async (_, text, words) => {
    await using machine = new Machine();
    if (text !== undefined) machine.write("schema.json", text);
    const model = await machine.play({ count: [says(GOOD)] });
    const { code, stderr } = await machine.run([
      "spawn",
      "count",
      "--output-schema",
      "schema.json",
      "--no-daemon",
    ]);
    expect([code, stderr]).toEqual([64, expect.stringContaining(words)]);
    expect(model.requests).toEqual([]);
  });
});

describe("--add with an image", () => {
  for (const provider of ["openai", "anthropic"]) {
    test(`sends it to the model in every request, also after a resume (${provider})`, async () => {
      await using machine = new Machine();
      const image = png(40, 30, 77);
      writeFileSync(join(machine.project, "shot.txt"), image);
      const base64 = Buffer.from(image).toString("base64");
      const model = await machine.play({
        look: [calls(["Glob", { pattern: "*" }]), says("a grey one"), says("still grey")],
      });
      const args = ["spawn", "look", "--provider", provider, "--add", "shot.txt"];
      expect((await machine.run(args)).stdout).toBe("a grey one\n");
      machine.remove("shot.txt");
      expect((await machine.run(["resume", "1", "and now?"])).stdout).toBe("still grey\n");
      expect(model.requests.map(({ text }) => text.split(base64).length - 1)).toEqual([1, 1, 1]);
      expect(model.requests[0]?.text).toContain("shot.txt");
      expect((await machine.run(["steps", "1", "1"])).stdout).toContain("image/png, 40 × 30");
      // Beside the run, once, as it was.
      expect(machine.search(base64.slice(0, 60))).toEqual([]);
    });
  }

  test("that is too large or damaged is refused with 64", async () => {
    await using machine = await Machine.playing({ look: [says("nothing")] });
    const large = new Uint8Array(5 * 1024 * 1024);
    large.set(png(3, 3));
    writeFileSync(join(machine.project, "large.png"), large);
    writeFileSync(join(machine.project, "cut.png"), png(3, 3).subarray(0, 20));
    for (const [file, words] of [
      ["large.png", "Scale it down"],
      ["cut.png", "cut off"],
    ] as const) {
      const { code, stderr } = await machine.run(["spawn", "look", "--add", file]);
      expect([code, stderr]).toEqual([64, expect.stringContaining(words)]);
    }
  });
});

test("a run with all of them is replayed unchanged, corrections included", async () => {
  await using machine = new Machine();
  machine.write("schema.json", JSON.stringify(SCHEMA));
  writeFileSync(join(machine.project, "shot.png"), png(40, 30));
  const model = await machine.play({ count: [calls(["Glob", { pattern: "*.png" }]), says("2"), says(GOOD)] });
  const args = ["spawn", "count", "--output-schema", "schema.json", "--add", "shot.png", "--effort", "high"];
  const first = await machine.run([...args, "--output", "json"]);
  expect(receiptOf(first.stdout)).toMatchObject({ exit_code: 0, output: JSON.parse(GOOD), steps: 3 });
  await model.stop();
  const { code, stdout, stderr } = await machine.run(["replay", "1", "--json"]);
  expect([code, JSON.parse(stdout)]).toEqual([0, expect.objectContaining({ same: true, differences: [] })]);
  expect(stderr).not.toContain("effort");
});

describe("--effort", () => {
  test("reaches the provider, and overrides the agent's", async () => {
    await using machine = new Machine();
    machine.agent("deep", "name: deep\ndescription: d\nmodels: { effort: low }\n", "Think.");
    await machine.ok(["trust", "--yes"]);
    const model = await machine.play({ think: [says("done")] });
    await machine.run(["spawn", "think", "--agent", "deep"]);
    await machine.run(["spawn", "think", "--agent", "deep", "--effort", "high"]);
    await machine.run(["spawn", "think"]);
    expect((await machine.run(["show", "2"])).stdout).toMatch(/effort +high/);
    const asked = model.requests.map(({ body }) => Reflect.get(body, "reasoning_effort"));
    expect(asked).toEqual(["low", "high", undefined]);
  });

  test("that a driver does not support is named", async () => {
    await using machine = new Machine();
    machine.write("script.json", JSON.stringify({ responses: [{ text: "done" }] }));
    const args = ["spawn", "go", "--provider", "replay", "--model", "script.json", "--effort", "high"];
    const { code, stderr } = await machine.run([...args, "--no-daemon"]);
    expect([code, stderr]).toEqual([0, expect.stringContaining("effort high is left out")]);
  });
});
