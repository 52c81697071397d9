import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import replay from "../../plugins/replay/index.ts";
import type { LLMMessage } from "../../src/plugin/index.ts";
import { describePlugin } from "../support/conformance/plugin.ts";
import { failure } from "../support/failure.ts";
import { Folder } from "../support/folder.ts";
import { ask, openModel, request } from "../support/model-server/device.ts";

const DEVICE = "/dev/llm/replay";
const folder = new Folder();
const { dir } = folder;
afterAll(() => folder[Symbol.dispose]());

describePlugin("replay", () => import("../../plugins/replay/index.ts"), {
  setup(folder) {
    writeFileSync(join(folder, "script.yaml"), "responses:\n  - text: hello\n");
    return {};
  },
  operations: [
    {
      title: "plays the script of the run's folder",
      device: DEVICE,
      input: { ...request, model: "script.yaml" },
      answer: (answer) => expect(JSON.parse(answer).content).toBe("hello"),
    },
    {
      title: "names a script that is not there",
      device: DEVICE,
      input: { ...request, model: "none.yaml" },
      error: "NOT_FOUND",
    },
  ],
});

const YAML = `
responses:
  - text: Let me look
    tool_calls:
      - { name: Bash, input: { command: ls } }
      - { name: Bash }
    usage: { input_tokens: 100, output_tokens: 7 }
  - text: All done
`;
const RESPONSES = [
  {
    text: "Let me look",
    tool_calls: [{ name: "Bash", input: { command: "ls" } }, { name: "Bash" }],
    usage: { input_tokens: 100, output_tokens: 7 },
  },
  { text: "All done" },
];

describe("a script", () => {
  const forms: [string, string][] = [
    ["yaml", YAML],
    ["yml", YAML],
    ["json", JSON.stringify({ responses: RESPONSES })],
    ["jsonl", `${RESPONSES.map((response) => JSON.stringify(response)).join("\n\n")}\n`],
  ];
  for (const stream of [true, false])
    for (const [form, text] of forms)
      test(`of ${form} is replayed by the number of answers in the conversation, ${stream ? "streamed" : "in one piece"}`, async () => {
        const play = await player(`script.${form}`, text);
        expect(await play([], stream)).toMatchObject({
          content: "Let me look",
          tool_calls: [
            { id: "call_1_1", name: "Bash", input: { command: "ls" } },
            { id: "call_1_2", name: "Bash", input: {} },
          ],
          stop_reason: "tool_calls",
          usage: { input_tokens: 100, output_tokens: 7, cached_tokens: 0 },
          tokens_used: 107,
        });
        const last = await play([said("Let me look")], stream);
        expect(last).toMatchObject({ content: "All done", tool_calls: [], stop_reason: "end_turn" });
        expect(last.tokens_used).toBeGreaterThan(0);
        expect(await play([], stream)).toMatchObject({ content: "Let me look" });
      });

  test("by its absolute path is found from any folder", async () => {
    const path = join(dir, "absolute.json");
    writeFileSync(path, JSON.stringify({ responses: RESPONSES }));
    const file = await openModel(replay, DEVICE, { cwd: "/" });
    expect((await ask(file, { model: path })).answer.content).toBe("Let me look");
  });

  test("is streamed in a few pieces that split no character", async () => {
    const text = "naïve 👩🏽‍🚀 漢字 and the rest of it";
    writeFileSync(join(dir, "pieces.json"), JSON.stringify({ responses: [{ text }] }));
    const file = await openModel(replay, DEVICE, { cwd: dir });
    const { events } = await ask(file, { model: "pieces.json", stream: true });
    const pieces = events.flatMap((event) => (event.type === "text_delta" ? [event.text] : []));
    expect(pieces).toHaveLength(4);
    expect(pieces.join("")).toBe(text);
    expect(pieces.map((piece) => new TextDecoder().decode(new TextEncoder().encode(piece)))).toEqual(pieces);
    expect(events.map((event) => event.type).slice(4)).toEqual(["usage", "stop"]);
  });

  test("that is a recorded run's steps replays the model's answers", async () => {
    const step = (n: number, messages: LLMMessage[]) =>
      JSON.stringify({
        v: 1,
        step: n,
        ts: "2026-01-01T00:00:00Z",
        messages,
        raw_response: "",
        action: "tool_call",
        summary: "",
        tool_calls: [],
        usage: { input_tokens: 5, output_tokens: 6, cached_tokens: 1 },
        tokens_used: 11,
      });
    const calls = [
      { id: "toolu_1", name: "Bash", input: { command: "ls" } },
      { id: "toolu_2", name: "Bash", input: {}, invalid: { text: '{"comm', reason: "cut off" } },
    ];
    const play = await player(
      "steps.jsonl",
      [
        step(1, [
          { role: "user", content: "fix it" },
          { role: "assistant", content: "looking", tool_calls: calls },
          { role: "tool", content: "a.ts", tool_call_id: "toolu_1" },
          { role: "tool", content: "Error INVALID: cut off", tool_call_id: "toolu_2" },
        ]),
        step(2, [{ role: "assistant", content: "done" }]),
      ].join("\n"),
    );
    expect(await play([])).toMatchObject({ content: "looking", tool_calls: calls, tokens_used: 11 });
    expect(await play([said("looking")])).toMatchObject({ content: "done", stop_reason: "end_turn" });
  });
});

describe("a script that can't be replayed fails with the reason, and is not retried", () => {
  test("at the turn behind its last answer", async () => {
    const file = await scripted("short.json", JSON.stringify({ responses: RESPONSES }));
    const error = await failure(
      ask(file, { model: "short.json", messages: [...request.messages, said("one"), said("two")] }),
    );
    expect(error).toMatchObject({ code: "INVALID", retryable: false });
    expect(error.message).toMatch(/has 2 responses and was asked for turn 3/);
  });

  const wrong: [string, string, string, RegExp][] = [
    ["with broken YAML, by line", "a.yaml", "responses:\n  - text: [unclosed\n", /a\.yaml:\d+:\d+/],
    ["with broken JSON", "b.json", "{", /b\.json/],
    ["with an unknown key", "c.yaml", "responses:\n  - txet: hi\n", /txet/],
    ["with a wrong line of JSONL, by line", "d.jsonl", '{"text":"a"}\n{"text":1}\n', /d\.jsonl:2/],
    ["without responses", "e.yaml", "- text: hi\n", /e\.yaml/],
    ["with aliases of aliases", "g.yaml", aliases(9), /g\.yaml: .*alias/],
    ["with branches thousands of levels deep", "h.json", branches(3000), /h\.json/],
    ["with lists thousands of levels deep", "i.yaml", `responses: ${nested(9999)}`, /i\.yaml/],
    ["of an unknown kind", "f.txt", "hello", /\.yaml, \.yml, \.json or \.jsonl/],
  ];
  for (const [title, name, text, says] of wrong)
    test(title, async () => {
      const file = await scripted(name, text);
      const error = await failure(ask(file, { model: name }));
      expect(error).toMatchObject({ code: "INVALID", retryable: false });
      expect(error.message).toMatch(says);
    });

  test("that is missing", async () => {
    const file = await openModel(replay, DEVICE, { cwd: dir });
    expect(await failure(ask(file, { model: "none.yaml" }))).toMatchObject({ code: "NOT_FOUND" });
  });

  const NO_FILES: [string, (path: string) => unknown][] = [
    ["a folder", (path) => mkdirSync(path)],
    ["a device that never ends", (path) => symlinkSync("/dev/zero", path)],
    ["a pipe without a writer", (path) => Bun.spawnSync(["mkfifo", path])],
  ];
  for (const [what, make] of NO_FILES)
    test(`that is ${what}: it is not read`, async () => {
      const name = `${what.replaceAll(" ", "-")}.yaml`;
      make(join(dir, name));
      const file = await openModel(replay, DEVICE, { cwd: dir });
      const error = await failure(ask(file, { model: name }));
      expect(error).toMatchObject({ code: "INVALID", retryable: false });
      expect(error.message).toContain(`${name}: it is a folder, a device or a pipe`);
    });
});

test("replay is never detected automatically", async () => {
  expect(await replay.devices[DEVICE].provider.detect()).toBeNull();
});

/** Nine times as many at each level. */
function aliases(levels: number): string {
  const lines = Array.from({ length: levels }, (_, n) => {
    const each = n === 0 ? "x" : `*a${n - 1}`;
    return `a${n}: &a${n} [${Array(9).fill(each).join(", ")}]`;
  });
  return [...lines, `responses: *a${levels - 1}`].join("\n");
}

function branches(levels: number): string {
  return `{"responses":[${'{"one_of":[{"responses":['.repeat(levels)}{"text":"x"}${"]}]}".repeat(levels)}]}`;
}

function nested(levels: number): string {
  return "[".repeat(levels) + "]".repeat(levels);
}

function said(content: string): LLMMessage {
  return { role: "assistant", content };
}

async function scripted(name: string, text: string) {
  writeFileSync(join(dir, name), text);
  return await openModel(replay, DEVICE, { cwd: dir });
}

async function player(name: string, text: string) {
  const file = await scripted(name, text);
  return async (later: LLMMessage[], stream = false) =>
    (await ask(file, { model: name, stream, messages: [...request.messages, ...later] })).answer;
}
