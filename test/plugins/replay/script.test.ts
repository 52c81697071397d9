import { describe, expect, test } from "bun:test";
import type { LLMRequest } from "../../../src/plugin/index.ts";
import { failure } from "../../support/failure.ts";
import { request } from "../../support/model-server/device.ts";
import { Stage } from "./stage.ts";

const ASK = { tool_calls: [{ name: "Bash", input: { command: "npm test" } }] };

describe("a condition on the conversation", () => {
  const conversation: Partial<LLMRequest> = {
    system_prompt: "You are careful.",
    messages: [
      { role: "user", content: "fix the parser" },
      {
        role: "assistant",
        content: "",
        tool_calls: [
          { id: "a", name: "Bash", input: {} },
          { id: "b", name: "Read", input: {} },
        ],
      },
      { role: "tool", content: "2 pass\n1 fail [12ms]", tool_call_id: "a" },
      { role: "tool", content: "Error NOT_FOUND: no such file", tool_call_id: "b" },
    ],
  };
  const grid: [string, object, boolean][] = [
    ["last_result as text", { last_result: "no such file" }, true],
    ["last_result is the newest", { last_result: "1 fail" }, false],
    ["last_result of a tool", { last_result: { tool: "Bash", contains: "1 fail" } }, true],
    ["last_result of a tool that was not called", { last_result: { tool: "Grep", contains: "x" } }, false],
    ["contains, several", { last_result: { tool: "Bash", contains: ["2 pass", "1 fail"] } }, true],
    ["contains, one missing", { last_result: { tool: "Bash", contains: ["2 pass", "2 fail"] } }, false],
    ["contains, but for a duration", { last_result: { tool: "Bash", contains: "1 fail [7ms]" } }, true],
    ["lacks", { last_result: { tool: "Bash", lacks: "3 fail" } }, true],
    ["lacks what is there", { last_result: { tool: "Bash", lacks: ["3 fail", "1 fail"] } }, false],
    ["equals", { last_result: { tool: "Bash", equals: "2 pass\n1 fail [99ms]" } }, true],
    ["equals a part", { last_result: { tool: "Bash", equals: "2 pass" } }, false],
    ["exact", { last_result: { tool: "Bash", exact: "2 pass\n1 fail [12ms]" } }, true],
    ["exact, another duration", { last_result: { tool: "Bash", exact: "2 pass\n1 fail [99ms]" } }, false],
    ["matches by line", { last_result: { tool: "Bash", matches: "^\\d fail" } }, true],
    ["matches not", { last_result: { tool: "Bash", matches: "^fail" } }, false],
    ["error: true", { last_result: { error: true } }, true],
    ["error: false", { last_result: { tool: "Bash", error: false } }, true],
    ["error by code", { last_result: { error: "NOT_FOUND" } }, true],
    ["error by another code", { last_result: { error: "PERMISSION" } }, false],
    ["message", { message: "parser" }, true],
    ["message of another", { message: "lexer" }, false],
    ["conversation", { conversation: { contains: ["parser", "2 pass"] } }, true],
    ["system_prompt", { system_prompt: "careful" }, true],
    ["tools offered", { tools: ["Bash"] }, true],
    ["tools not offered", { tools: ["Bash", "Write"] }, false],
    ["not", { not: { last_result: "1 fail" } }, true],
    ["not what holds", { not: { message: "parser" } }, false],
    ["any", { any: [{ message: "lexer" }, { message: "parser" }] }, true],
    ["any of none", { any: [{ message: "lexer" }, { message: "printer" }] }, false],
    ["two words, both of which must hold", { message: "parser", last_result: "1 fail" }, false],
  ];
  for (const [title, condition, holds] of grid) {
    test(`${title}: ${holds}`, async () => {
      using stage = new Stage();
      stage.write("s.json", { responses: [{ text: "first" }, { text: "played", expect: condition }] });
      const player = await stage.open("s.json");
      const asked = player.next(undefined, { ...conversation, turn: 1 });
      if (holds) expect((await asked).content).toBe("played");
      else expect(await failure(asked)).toMatchObject({ code: "INVALID", retryable: false });
    });
  }
});

describe("the expected result of a call", () => {
  const script = {
    responses: [
      {
        tool_calls: [
          { name: "Bash", input: { command: "npm test" }, expect: { equals: "a\nb\n3 pass [5ms]" } },
        ],
      },
      { text: "green" },
    ],
  };

  test("is compared before the next answer, and a divergence shows both results from their first difference", async () => {
    using stage = new Stage();
    stage.write("s.json", script);
    expect(await (await stage.open("s.json")).play(() => "a\nb\n3 pass [8ms]")).toEqual(["", "green"]);
    const error = await failure((await stage.open("s.json")).play(() => "a\nb\n2 pass [8ms]"));
    expect(error).toMatchObject({ code: "INVALID", retryable: false });
    expect(error.message).toContain('Bash {"command":"npm test"} had another result');
    expect(error.message).toContain("turn 1");
    expect(error.message.split("\n").slice(1)).toEqual([
      "expected",
      "  a",
      "  b",
      "  3 pass [5ms]",
      "actual",
      "  a",
      "  b",
      "  2 pass [8ms]",
    ]);
  });

  const grid: [compare: string, expected: unknown, came: string, same: boolean][] = [
    ["usual", { equals: "took 3ms" }, "took 4ms", true],
    ["usual", { equals: "took 3ms" }, "took it", false],
    ["exact", { equals: "took 3ms" }, "took 4ms", false],
    ["exact", { equals: "took 3ms" }, "took 3ms", true],
    ["exact", { contains: "3ms" }, "took 3ms", true],
    ["state", { equals: "took 3ms" }, "something else", true],
    ["state", { equals: "took 3ms" }, "Error TIMEOUT: too long", false],
    ["state", { equals: "Error TIMEOUT: too long" }, "Error TIMEOUT: 5 s", true],
    ["state", { equals: "Error TIMEOUT: too long" }, "Error PERMISSION: no", false],
    ["state", { equals: "Error TIMEOUT: too long" }, "done", false],
    ["state", "3 pass", "Error PERMISSION: no", false],
    ["state", { contains: "x", error: "PERMISSION" }, "Error PERMISSION: no", true],
  ];
  for (const [compare, expected, came, same] of grid) {
    test(`${compare}: ${JSON.stringify(expected)} ${same ? "is" : "is not"} ${JSON.stringify(came)}`, async () => {
      using stage = new Stage();
      const call = { name: "Bash", input: {}, expect: expected };
      stage.write("s.json", { compare, responses: [{ tool_calls: [call] }, { text: "on" }] });
      const played = (await stage.open("s.json")).play(() => came);
      if (same) expect(await played).toEqual(["", "on"]);
      else expect((await failure(played)).code).toBe("INVALID");
    });
  }
});

describe("a script that branches", () => {
  const script = {
    responses: [
      ASK,
      {
        one_of: [
          { when: { last_result: "0 fail" }, text: "all is well" },
          {
            when: { last_result: "1 fail" },
            responses: [
              { text: "fixing", tool_calls: [{ name: "Edit", input: {} }] },
              { one_of: [{ when: { last_result: "edited" }, ...ASK }, { text: "no edit" }] },
            ],
          },
          { when: { last_result: "crash" }, responses: [] },
        ],
      },
      { text: "the end" },
    ],
  };
  const tools =
    (test: string, edit = "edited") =>
    ({ name }: { name: string }) =>
      name === "Edit" ? edit : test;

  const grid: [string, string, string | undefined, string[]][] = [
    ["an answer alone", "0 fail", undefined, ["", "all is well"]],
    ["several, with a branch in them", "1 fail", "edited", ["", "fixing", "", "the end"]],
    ["without `when`, otherwise", "1 fail", "broken", ["", "fixing", "no edit"]],
    ["none at all", "crash", undefined, ["", "the end"]],
  ];
  for (const [title, result, edit, said] of grid) {
    test(`takes the first way whose condition holds: ${title}`, async () => {
      using stage = new Stage();
      stage.write("s.json", script);
      expect(await (await stage.open("s.json")).play(tools(result, edit))).toEqual(said);
    });
  }

  test("fails with the conditions and the value when none is true", async () => {
    using stage = new Stage();
    stage.write("s.json", script);
    const error = await failure((await stage.open("s.json")).play(tools("7 fail")));
    expect(error).toMatchObject({ code: "INVALID", retryable: false });
    expect(error.message).toContain("the last result: contains: 0 fail");
    expect(error.message).toContain("the last result: contains: 1 fail");
    expect(error.message).toContain("the last result: 7 fail");
  });

  test("stays on its branch in another process, and after a compaction removed the messages", async () => {
    using stage = new Stage();
    stage.write("s.json", script);
    const first = await stage.open("s.json");
    await first.next(tools("1 fail"));
    expect((await first.next(tools("1 fail"))).content).toBe("fixing");
    const resumed = await stage.open("s.json");
    resumed.messages.splice(0, 1, ...first.messages.slice(-2));
    resumed.turn = 2;
    expect(await resumed.play(tools("1 fail"))).toEqual(["", "the end"]);
  });

  test("without a saved branch finds it by the conversation, or fails with the reason", async () => {
    using stage = new Stage();
    stage.write("s.json", script);
    const first = await stage.open("s.json");
    await first.next(tools("1 fail"));
    await first.next(tools("1 fail"));
    const other = await stage.open("s.json", { uuid: "other" });
    other.messages.splice(0, 1, ...first.messages);
    other.turn = 2;
    expect(await other.play(tools("1 fail"))).toEqual(["", "the end"]);
    const compacted = await stage.open("s.json", { uuid: "third" });
    compacted.turn = 2;
    expect((await failure(compacted.next())).message).toContain("compacted");
  });
});

describe("an answer of a script", () => {
  test("is chosen by the request's turn, also after a compaction", async () => {
    using stage = new Stage();
    stage.write("s.json", { responses: [{ text: "one" }, { text: "two" }, { text: "three" }] });
    const player = await stage.open("s.json");
    expect((await player.next(undefined, { turn: 2 })).content).toBe("three");
    const { turn: _, ...none } = { ...request, turn: 0 };
    expect((await player.next(undefined, { ...none, model: "s.json", turn: undefined })).content).toBe("one");
  });

  test("is not used for a summary: the conversation is compacted without the model", async () => {
    using stage = new Stage();
    stage.write("s.json", { responses: [{ text: "one" }] });
    const player = await stage.open("s.json");
    expect(await failure(player.next(undefined, { turn: null }))).toMatchObject({
      code: "INVALID",
      retryable: false,
    });
    expect((await player.next()).content).toBe("one");
  });

  test("has its reasoning, usage and stop reason, streamed and in one piece", async () => {
    using stage = new Stage();
    stage.write(
      "s.yaml",
      "responses:\n  - { reasoning: hmm, text: half, stop_reason: max_tokens, usage: { output_tokens: 9 } }\n",
    );
    for (const stream of [true, false]) {
      const answer = await (await stage.open("s.yaml")).next(undefined, { stream });
      expect(answer).toMatchObject({
        content: "half",
        stop_reason: "max_tokens",
        usage: { output_tokens: 9 },
      });
      if (!stream) expect(answer.reasoning).toBe("hmm");
    }
  });

  test("repeats malformed arguments of the model", async () => {
    using stage = new Stage();
    const invalid = { text: '{"command', reason: "unterminated" };
    stage.write("s.json", { responses: [{ tool_calls: [{ name: "Bash", invalid }] }] });
    expect((await (await stage.open("s.json")).next()).tool_calls).toMatchObject([{ invalid }]);
  });
});

describe("an invalid script fails with the position", () => {
  const grid: [string, string, string, RegExp][] = [
    ["broken YAML", "a.yaml", "responses:\n  - text: [x\n", /a\.yaml:\d+:\d+/],
    ["an unknown key", "b.yaml", "responses:\n  - text: a\n  - txet: hi\n", /b\.yaml:3:\d+.*txet/],
    [
      "an unknown key of a condition",
      "c.yaml",
      "responses:\n  - text: a\n    expect:\n      last_resutl: x\n",
      /c\.yaml:\d+:\d+.*last_resutl/,
    ],
    [
      "a regular expression",
      "d.yaml",
      'responses:\n  - expect: { message: { matches: "(" } }\n    text: a\n',
      /d\.yaml:2:\d+/,
    ],
    [
      "a way with both",
      "e.yaml",
      "responses:\n  - one_of:\n      - { text: a, responses: [] }\n",
      /e\.yaml:3:\d+.*beside `responses`/,
    ],
    ["an unknown key of a branch", "f.yaml", "responses:\n  - one_of: []\n    when: {}\n", /f\.yaml:\d+/],
    ["a line of JSONL", "g.jsonl", '{"intent":"x"}\n{"text":"a"}\n{"tool_calls":[{}]}\n', /g\.jsonl:3/],
  ];
  for (const [title, name, text, says] of grid) {
    test(title, async () => {
      using stage = new Stage();
      stage.write(name, text);
      const error = await failure((await stage.open(name)).next());
      expect(error).toMatchObject({ code: "INVALID", retryable: false });
      expect(error.message).toMatch(says);
    });
  }

  test("and JSONL may begin with a head", async () => {
    using stage = new Stage();
    stage.write("s.jsonl", '{"intent":"x","compare":"state"}\n{"text":"a"}\n');
    expect((await (await stage.open("s.jsonl")).next()).content).toBe("a");
  });
});
