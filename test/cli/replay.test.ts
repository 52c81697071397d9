import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { Head as DriversHead } from "../../plugins/replay/script.ts";
import { runCommandLine } from "../../src/cli/cli.ts";
import { styleOf } from "../../src/cli/output/style.ts";
import { outcomeDifferences, reportText } from "../../src/cli/replay/report.ts";
import { Head, scriptHead } from "../../src/cli/replay/script-head.ts";
import type { Receipt, ScriptHead } from "../../src/protocol/methods.ts";
import { Folder } from "../support/folder.ts";
import { FakeIo, REF, receipt } from "./support.ts";

describe("the expected end of a script's run", () => {
  const failed: Partial<Receipt> = { exit_code: 1, exit_reason: "check_failed", result: "tried" };
  const grid: [string, Parameters<typeof outcomeDifferences>[0], Partial<Receipt>, string[]][] = [
    ["nothing said, completed", undefined, {}, []],
    ["nothing said, failed", undefined, failed, ["how it ended"]],
    ["another code", { exit_code: 2 }, failed, ["how it ended"]],
    ["the code", { exit_code: 1 }, failed, []],
    ["code and reason", { exit_code: 1, exit_reason: "check_failed" }, failed, []],
    ["another reason", { exit_code: 1, exit_reason: "timeout" }, failed, ["how it ended"]],
    ["a part of the result", { result: "answer" }, { result: "the answer" }, []],
    ["no part of it", { result: "question" }, { result: "the answer" }, ["the result"]],
    ["equals, but for the end", { result: { equals: "the answer\n" } }, { result: "the answer" }, []],
    ["equals a part", { result: { equals: "the" } }, { result: "the answer" }, ["the result"]],
    ["contains all", { result: { contains: ["the", "answer"] } }, { result: "the answer" }, []],
    [
      "contains one of them",
      { result: { contains: ["the", "x"] } },
      { result: "the answer" },
      ["the result"],
    ],
    ["lacks", { result: { lacks: "answer" } }, { result: "the answer" }, ["the result"]],
    ["matches", { result: { matches: "^the \\w+$" } }, { result: "the answer" }, []],
    ["no result at all", { result: "x" }, { result: null }, ["the result"]],
    ["how it ended goes before what came of it", { result: "x" }, failed, ["how it ended"]],
  ];
  for (const [title, expected, came, differences] of grid) {
    test(title, () => {
      expect(outcomeDifferences(expected, receipt(came)).map(({ message }) => message)).toEqual(differences);
    });
  }
});

test("a report shows both sides of a difference, without control characters", () => {
  const io = new FakeIo();
  const style = styleOf(io, io.stdout);
  const none = { unplayed_steps: 0, replayed: receipt() };
  const same = reportText({ ...none, same: true, recorded: "run 0199", differences: [] }, style);
  expect(same).toMatch(/^\S+ the same as run 0199: \d+ steps?, .* \(exit 0\)\n$/);
  const differences = [
    { kind: "prompt" as const, step: null, message: "the system prompt", recorded: "a\nb", replayed: "c" },
    {
      kind: "result" as const,
      step: 2,
      message: "it diverges\nexpected\n  \u001b[2Jx",
      recorded: null,
      replayed: null,
    },
  ];
  const text = reportText({ ...none, same: false, recorded: "s.yaml", differences }, style);
  expect(text.split("\n").slice(1)).toEqual([
    "",
    "prompt: the system prompt",
    "  - a",
    "  - b",
    "  + c",
    "",
    "result, step 2: it diverges",
    "  expected",
    expect.stringContaining("x"),
    "",
  ]);
  expect(text).toContain("differs from s.yaml in 2 points");
  expect(text).not.toContain("\u001b");
});

describe("a script's head", () => {
  const grid: [string, string, string, RegExp | string][] = [
    ["is read from YAML", "s.yaml", "intent: go\nchecks: [a]\nresponses: []\n", "go"],
    ["is read from JSON", "s.json", '{"intent":"go","responses":[]}', "go"],
    ["is the first line of JSONL", "s.jsonl", '{"intent":"go"}\n{"text":"x"}\n', "go"],
    [
      "is the first line of JSONL that is not blank",
      "s.jsonl",
      '\n  \n{"intent":"go"}\n{"text":"x"}\n',
      "go",
    ],
    [
      "without an intent is for rnix spawn",
      "s.yaml",
      "responses: []\n",
      /has no intent.*rnix spawn --provider replay/,
    ],
    ["that is no YAML is reported by line", "s.yaml", "intent: go\nresponses: [\n", /s\.yaml:\d+:\d+/],
    [
      "with an unknown key is reported by line",
      "s.yaml",
      "intent: go\noutcome:\n  exit_code: none\n",
      /s\.yaml:3:\d+/,
    ],
    [
      "is read from a long script, such as an exported run",
      "s.yaml",
      `intent: go\nresponses:\n${`  - text: ${"word ".repeat(2_000)}\n`.repeat(200)}`,
      "go",
    ],
    [
      "of a script larger than the driver's limit is not read",
      "s.jsonl",
      `{"intent":"go"}\n${" ".repeat(16 * 1024 ** 2)}`,
      /at most 16 MiB/,
    ],
    ["of another kind of file is refused", "s.txt", "intent: go\n", /ends in \.yaml/],
  ];
  for (const [title, name, text, found] of grid) {
    test(title, async () => {
      using folder = new Folder();
      const file = folder.put(name, text);
      const head = scriptHead(new FakeIo({ cwd: folder.dir }), name);
      if (typeof found === "string") expect(await head).toMatchObject({ intent: found, file });
      else
        await expect(head).rejects.toMatchObject({
          code: "INVALID",
          message: expect.stringMatching(found),
        });
    });
  }
});

describe("the command and the driver read the same head", () => {
  /** What the command has no use for. */
  const DRIVERS_ALONE = ["children", "compare", "recorded"];

  const WORDS: Record<string, readonly unknown[]> = {
    intent: ["go", "", 1, null],
    agent: ["coder", 1],
    input: ["text", []],
    checks: [["npm test"], [], "npm test", [1]],
    check_attempts: [3, 0, 1.5, "3"],
    system_prompt: ["be brief", false],
    allow: [["Read"], "Read"],
    deny: [["Bash(rm *)"], [null]],
    folders: [["../lib"], "../lib"],
    output_schema: [{ type: "object" }, [], "object"],
    limits: [
      {},
      { max_steps: 3, context_budget: 1000, timeout_ms: "unlimited" },
      { max_steps: 0 },
      { context_budget: -1 },
      { timeout_ms: 1.5 },
      { max_steps: "none" },
    ],
    outcome: [
      {},
      { exit_code: 0, exit_reason: "completed" },
      { exit_code: 0.5 },
      { exit_reason: 1 },
      { result: "done" },
      { result: "" },
      { result: { equals: "done", contains: "a", lacks: ["b", "c"], matches: "^d" } },
      { result: { contains: "" } },
      { result: { contains: [] } },
      { result: { lacks: [""] } },
      { result: { matches: "(" } },
      { result: { match: "done" } },
    ],
  };

  /** Of a schema, except for the refusal of unknown keys, which the driver does. */
  const form = (schema: z.ZodType): unknown =>
    JSON.parse(JSON.stringify(z.toJSONSchema(schema, { io: "input" })), (key, value) =>
      key === "additionalProperties" ? undefined : value,
    );
  const properties = z.object({ properties: z.record(z.string(), z.unknown()) });

  test("key by key", () => {
    const drivers = properties.parse(form(DriversHead)).properties;
    const commands = properties.parse(form(Head)).properties;
    for (const word of DRIVERS_ALONE) delete drivers[word];
    expect(commands).toEqual(drivers);
    expect(Object.keys(WORDS).sort()).toEqual(Object.keys(commands).sort());
  });

  for (const [word, values] of Object.entries(WORDS)) {
    for (const value of values) {
      test(`${word}: ${JSON.stringify(value)}`, () => {
        const head = { [word]: value };
        expect(Head.safeParse(head).success).toBe(DriversHead.safeParse(head).success);
      });
    }
  }

  test("for the head of an export", () => {
    const written: Required<ScriptHead> = {
      intent: "go",
      agent: "none",
      input: "text",
      checks: ["true"],
      check_attempts: 2,
      system_prompt: "be brief",
      allow: ["Read"],
      deny: ["Bash"],
      folders: ["/lib"],
      output_schema: { type: "object" },
      limits: { max_steps: 3, context_budget: "unlimited", timeout_ms: 1000 },
      recorded: { uuid: "0199", at: "2026-11-20T00:00:00.000Z", cwd: "/work", project: "/work" },
      outcome: { exit_code: 0, exit_reason: "completed", result: { equals: "done" } },
    };
    const { recorded: _, ...read } = written;
    expect(DriversHead.parse(written)).toEqual(written);
    expect(Head.parse(written)).toMatchObject(read);
  });
});

test.each([
  [100, "play it with rnix replay"],
  [16 * 1024 ** 2, "shorten it before"],
])("an export of %i characters says whether it can be replayed", async (length, said) => {
  using folder = new Folder();
  const cwd = folder.dir;
  const recorded = { uuid: REF.uuid, at: "2026-11-20T00:00:00.000Z", cwd: "/work", project: "/work" };
  const head: ScriptHead = { intent: "go", agent: "none", recorded, outcome: {} };
  const usage = { input_tokens: 1, output_tokens: 1, cached_tokens: 0 };
  const responses = [{ text: "x".repeat(length), usage }];
  const io = new FakeIo({
    cwd,
    answers: { export_script: { head, responses, children: [], next: null, unplayed_steps: 0 } },
  });
  expect(await runCommandLine(["replay", REF.uuid, "--export", "s.jsonl"], io)).toBe(0);
  expect(io.stderr.text).toStartWith("s.jsonl: 1 answer; ");
  expect(io.stderr.text).toContain(said);
  const play = scriptHead(new FakeIo({ cwd }), "s.jsonl");
  if (length < 1_000) expect(await play).toMatchObject({ intent: "go" });
  else await expect(play).rejects.toMatchObject({ message: expect.stringMatching(/at most 16 MiB/) });
});
