import { describe, expect, test } from "bun:test";
import { OutputSchema } from "../../../src/kernel/loop/output-schema.ts";
import { type LLMEvent, SyscallError } from "../../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, script, usage } from "../../support/kernel.ts";
import { crashInto } from "../../support/sealed-record.ts";
import { until } from "../../support/until.ts";

const SCHEMA = {
  type: "object",
  properties: { name: { type: "string" }, count: { type: "integer", minimum: 0 } },
  required: ["name", "count"],
  additionalProperties: false,
};
const GOOD = { name: "a", count: 2 };
const BAD = '{"name": "a"}';

describe("an answer", () => {
  const schema = new OutputSchema(SCHEMA);

  test.each([
    ["alone", JSON.stringify(GOOD)],
    ["with space around it", `\n  ${JSON.stringify(GOOD)}\n`],
    ["in a fence", `\`\`\`json\n${JSON.stringify(GOOD, null, 2)}\n\`\`\``],
    ["in a fence of no language", `\`\`\`\n${JSON.stringify(GOOD)}\n\`\`\``],
  ])("%s is read", (_, text) => {
    const read = schema.read(text);
    expect(read).toMatchObject({ output: GOOD });
    expect("text" in read && JSON.parse(read.text)).toEqual(GOOD);
  });

  test.each([
    ["without a field", BAD, ["count: "]],
    ["with a wrong type", '{"name": 5, "count": 1}', ["name: "]],
    ["with what is not asked for", '{"name": "a", "count": 1, "more": 1}', ["more"]],
    ["that breaks a bound", '{"name": "a", "count": -1}', ["count: ", "0"]],
    ["of words", "The name is a.", ["not one JSON document", "The name is a."]],
    ["with words around it", `Here it is: ${JSON.stringify(GOOD)}`, ["not one JSON document"]],
    ["that is two documents", `${JSON.stringify(GOOD)}\n${JSON.stringify(GOOD)}`, ["not one JSON document"]],
    ["that is empty", "", ["not one JSON document"]],
  ])("an answer %s is refused with what is wrong", (_, text, words) => {
    const read = schema.read(text);
    if (!("problem" in read)) throw new Error(`it was read: ${text}`);
    for (const word of words) expect(read.problem).toContain(word);
  });

  test("is checked within a time limit", () => {
    for (const schema of [
      { $ref: "#" },
      { $ref: "#/$defs/a", $defs: { a: { anyOf: [{ $ref: "#/$defs/a" }] } } },
    ])
      expect(() => new OutputSchema(schema)).toThrow("it refers to itself without an end");
  });

  test("of endless depth is refused, and so is an endless list of problems", () => {
    const deep = `${"[".repeat(200_000)}${"]".repeat(200_000)}`;
    expect(new OutputSchema({}).read(deep)).toEqual({ problem: "it is nested too deeply" });
    const read = new OutputSchema({ type: "array", items: { type: "string" } }).read(
      JSON.stringify(Array.from({ length: 5_000 }, (_, at) => at)),
    );
    expect("problem" in read && read.problem.length).toBeLessThan(2_000);
    expect("problem" in read && read.problem).toContain("and 4990 more");
  });

  test("gets no defaults: it is the model's own document", () => {
    const schema = new OutputSchema({ type: "object", properties: { a: { type: "string", default: "x" } } });
    expect(schema.read("{}")).toEqual({ output: {}, text: "{}" });
  });
});

/** What a schema demands is checked, or the schema is refused: nothing that breaks it ever passes. */
describe("a schema", () => {
  test.each<[object, unknown]>([
    [{ type: "object", required: ["a"] }, {}],
    [{ type: "object", properties: { b: {} }, required: ["a"] }, { b: 1 }],
    [{ type: "object", properties: { a: { type: "object", required: ["b"] } } }, { a: {} }],
    [{ type: "object", minProperties: 1 }, {}],
    [{ type: "object", propertyNames: { type: "string", pattern: "^a" } }, { b: 1 }],
    [{ type: "object", patternProperties: { "^a": { type: "number" } } }, { a: "x" }],
    [{ type: "object", additionalProperties: { type: "number" } }, { a: "x" }],
    [{ type: "array", minItems: 2 }, [1]],
    [{ type: "array", maxItems: 1 }, [1, 2]],
    [{ type: "array", uniqueItems: true, items: {} }, [1, 1]],
    [{ type: "array", items: { type: "string" } }, [1]],
    [{ type: "array", prefixItems: [{ type: "string" }] }, [1]],
    [{ type: "string", pattern: "^a$" }, "b"],
    [{ type: "string", format: "date" }, "tomorrow"],
    [{ type: "integer" }, 1.5],
    [{ type: "number", exclusiveMinimum: 1 }, 1],
    [{ enum: ["a", 1] }, "b"],
    [{ const: "a" }, "b"],
    [{ $ref: "#/$defs/A", $defs: { A: { type: "string" } } }, 1],
    [{ anyOf: [{ type: "string" }, { type: "null" }] }, 1],
    [{ oneOf: [{ type: "number" }, { type: "integer" }] }, 1],
    [
      {
        allOf: [
          { type: "object", required: ["a"] },
          { type: "object", required: ["b"] },
        ],
      },
      { a: 1 },
    ],
    [{ type: ["object", "null"], properties: { a: {} }, required: ["a"] }, {}],
  ])("%j refuses %j", (schema, value) => {
    expect(new OutputSchema(schema).read(JSON.stringify(value))).toHaveProperty("problem");
  });

  test.each<[object, string]>([
    [{ type: "strng" }, "strng"],
    [{ required: ["a"] }, '"type": "object"'],
    [{ type: "object", properties: { a: { minLength: 2 } } }, "#/properties/a"],
    [{ items: { type: "string" } }, '"type": "array"'],
    [{ type: "object", properties: {}, anyOf: [{ required: ["a"] }] }, "#/anyOf/0"],
    [{ $ref: "#/$defs/A", minLength: 5, $defs: { A: { type: "string" } } }, "beside $ref"],
    [{ $ref: "https://example.com/schema" }, "$ref"],
    [{ if: {}, else: {} }, "if/then/else"],
    [{ const: { a: 1 } }, "const"],
    [{ enum: [[1]] }, "enum"],
    [{ type: "string", pattern: "(" }, "regular expression"],
    [{ type: "object", properties: 5 }, "#/properties"],
    [{ type: "object", properties: { a: 5 } }, "#/properties/a"],
    [{ type: "object", description: "x".repeat(70_000) }, "longer than"],
  ])("%j is refused", (schema, words) => {
    try {
      new OutputSchema(schema);
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error;
      expect(error).toMatchObject({ code: "INVALID", message: expect.stringContaining(words) });
      return;
    }
    throw new Error("it was taken");
  });
});

const lastUserMessage = (request: { messages: { role: string; content: string }[] } | undefined): string =>
  request?.messages.findLast(({ role }) => role === "user")?.content ?? "";

describe("a run with an output schema", () => {
  test("is completed by an answer that fits, which is its output", async () => {
    await using h = new KernelHarness({ model: script(says(`\`\`\`json\n${JSON.stringify(GOOD)}\n\`\`\``)) });
    const { info } = await h.run("go", { output_schema: SCHEMA });
    expect(info).toMatchObject({ exit_reason: "completed", output: GOOD, result: JSON.stringify(GOOD) });
    const [request] = h.requests;
    expect(request?.output_schema).toEqual(SCHEMA);
    expect(request?.system_prompt).toContain(JSON.stringify(SCHEMA));
  });

  test.each([1, 2])("asks again after %i answers that do not fit, and says what is wrong", async (wrong) => {
    await using h = new KernelHarness({
      model: script(...Array.from({ length: wrong }, () => says(BAD)), says(JSON.stringify(GOOD))),
    });
    const { info, events } = await h.run("go", { output_schema: SCHEMA });
    expect(info).toMatchObject({ exit_reason: "completed", output: GOOD, steps: wrong + 1 });
    expect(lastUserMessage(h.requests[wrong])).toContain("count: ");
    const notices = events.flatMap((event) => (event.event === "notice" ? [event.text] : []));
    expect(notices).toHaveLength(wrong);
    expect(notices[0]).toContain("correction 1 of 2");
    // What is appended leaves what was there before as it was.
    const [first, second] = h.requests.map(({ messages }) => JSON.stringify(messages).slice(0, -1));
    expect(second?.startsWith(first ?? "none")).toBe(true);
  });

  test("fails its check after two corrections, with what is wrong and the last answer", async () => {
    await using h = new KernelHarness({ model: script(says(BAD), says("no"), says(BAD)) });
    const { info } = await h.run("go", { output_schema: SCHEMA, check: ["touch was-checked"] });
    expect(info).toMatchObject({
      exit_code: 1,
      exit_reason: "check_failed",
      result: BAD,
      output: null,
      checks: [],
      error: { code: "INVALID", message: expect.stringContaining("count: ") },
    });
    expect(h.requests).toHaveLength(3);
  });

  test("checks the input of Complete as well", async () => {
    const complete = (result: string): LLMEvent[] => calls(["Complete", { result }]);
    await using h = new KernelHarness({ model: script(complete(BAD), complete(JSON.stringify(GOOD))) });
    const { info } = await h.run("go", { output_schema: SCHEMA });
    expect(info).toMatchObject({ exit_reason: "completed", output: GOOD, steps: 2 });
  });

  test("runs the declared checks after that", async () => {
    await using h = new KernelHarness({ model: script(says(JSON.stringify(GOOD))) });
    const { info } = await h.run("go", { output_schema: SCHEMA, check: ["exit 3"] });
    expect(info).toMatchObject({ exit_reason: "check_failed", output: GOOD, checks: [{ exit_code: 3 }] });
  });

  test("also holds for its fork; a child has no schema", async () => {
    await using h = new KernelHarness({
      model: ({ intent, messages }) => {
        if (intent === "child") return says("just words");
        return messages.length === 1 ? calls(["Agent", { intent: "child" }]) : says(JSON.stringify(GOOD));
      },
    });
    const { info } = await h.run("go", { output_schema: SCHEMA });
    expect(info).toMatchObject({ exit_reason: "completed", output: GOOD });
    expect((await h.resumed(info.uuid, { input: "again", fork: {} })).info).toMatchObject({
      exit_reason: "completed",
      output: GOOD,
    });
    const asked = h.requests.map((request) => [
      request.intent,
      request.output_schema !== undefined,
      request.system_prompt.includes(JSON.stringify(SCHEMA)),
    ]);
    expect(asked).toEqual([
      ["go", true, true],
      ["child", false, false],
      ["go", true, true],
      ["go", true, true],
    ]);
  });

  test("does not correct an answer that was cut off", async () => {
    await using h = new KernelHarness({
      model: script([
        { type: "text_delta", text: '{"name": ' },
        { type: "usage", usage },
        { type: "stop", reason: "max_tokens" },
      ]),
    });
    const { info } = await h.run("go", { output_schema: SCHEMA });
    expect(info).toMatchObject({ exit_reason: "llm_error", partial: true });
  });

  test("still has one when it is resumed, also when it was cut off behind an answer that does not fit", async () => {
    let crash: (() => void) | undefined;
    const model: Model = (request) => {
      crash?.();
      return request.messages.length === 1 ? says(BAD) : says(JSON.stringify(GOOD));
    };
    await using h = new KernelHarness({ model });
    await using later = new KernelHarness({ model });
    crash = () => crashInto(later, h);
    const { info } = await h.run("go", { output_schema: SCHEMA });
    crash = undefined;
    expect(info.output).toEqual(GOOD);
    const again = (await later.resumed(info.uuid, {})).info;
    expect(again).toMatchObject({ exit_reason: "completed", output: GOOD, steps: 2 });
    expect(later.requests).toHaveLength(1);
    expect(lastUserMessage(later.requests[0])).toContain("count: ");
    expect(later.requests[0]?.output_schema).toEqual(SCHEMA);
  });

  describe("has its remaining corrections when it is resumed", () => {
    /** Cut off while its model is asked for the `at`th time; how often it is asked from then on. */
    async function cutOffAt(at: number, answers: readonly LLMEvent[][]): Promise<[string | null, number]> {
      let asked = 0;
      let crash = (): void => undefined;
      await using h = new KernelHarness({
        model: () => {
          if (++asked === at) crash();
          return answers[asked - 1] ?? says(JSON.stringify(GOOD));
        },
      });
      await using later = new KernelHarness({ model: () => says(BAD) });
      crash = () => crashInto(later, h);
      const { info } = await h.run("go", { output_schema: SCHEMA });
      const again = (await later.resumed(info.uuid, {})).info;
      return [again.exit_reason, later.requests.length];
    }

    test.each([
      [1, [], 3],
      [2, [says(BAD)], 2],
      [3, [says(BAD), says(BAD)], 1],
      [3, [says(BAD), calls(["Plan", { steps: ["think"] }])], 2],
      [3, [calls(["Complete", { result: BAD }]), says(BAD)], 1],
    ])("cut off in step %i", async (at, answers, left) => {
      expect(await cutOffAt(at, answers)).toEqual(["check_failed", left]);
    });

    test("suspended", async () => {
      let hangs = true;
      await using h = new KernelHarness({
        model: async (_, signal) => {
          if (hangs && h.requests.length === 3) {
            await new Promise((resolve) => signal.addEventListener("abort", resolve));
            signal.throwIfAborted();
          }
          return says(BAD);
        },
      });
      const pid = await h.spawn("go", { output_schema: SCHEMA });
      await until(() => h.requests.length === 3);
      await h.kernel.lifecycle.suspend(pid);
      const { info } = await h.follow(pid);
      expect(info).toMatchObject({ exit_reason: "suspended" });
      hangs = false;
      expect((await h.resumed(info.uuid, {})).info).toMatchObject({ exit_reason: "check_failed", steps: 3 });
      expect(h.requests).toHaveLength(4);
    });

    test("all of them when the user has sent a message since its end", async () => {
      await using h = new KernelHarness({ model: () => says(BAD) });
      const { info } = await h.run("go", { output_schema: SCHEMA });
      expect(h.requests).toHaveLength(3);
      expect((await h.resumed(info.uuid, { input: "with a count" })).info).toMatchObject({
        exit_reason: "check_failed",
      });
      expect(h.requests).toHaveLength(6);
    });
  });
});
