import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { calls, type Scene, says, scenes } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

setDefaultTimeout(30_000);

const PROVIDERS = ["openai", "anthropic"] as const;

/** A task with every stock tool in it; each answer depends on files that the call before has made. */
const TASK: Scene[] = [
  {
    text: "I look around first.",
    ...calls(["Glob", { pattern: "**/*.txt" }], ["Grep", { pattern: "colour" }]),
  },
  calls(["Read", { path: "notes/a.txt" }]),
  calls(["Edit", { path: "notes/a.txt", old_string: "colour", new_string: "color" }]),
  calls(["Write", { path: "notes/b.txt", content: "one\ntwo\nthree\n" }]),
  calls(["Bash", { command: "cat notes/a.txt notes/b.txt | wc -l" }]),
  calls(["Read", { path: "notes/b.txt" }], ["Read", { path: "notes/a.txt" }]),
  calls(["Bash", { command: "sort -r notes/b.txt > notes/c.txt; cat notes/c.txt; exit 3" }]),
  { text: "The colour is a color now.", chunks: 5 },
];

for (const provider of PROVIDERS) {
  test(`a task of many tool calls is completed with ${provider}'s protocol, streamed`, async () => {
    await using machine = new Machine();
    const model = await machine.model(scenes({ "fix the spelling": TASK }));
    machine.write("notes/a.txt", "the colour\nis red\n");

    const { receipt, info } = await verdict(machine, [
      "fix the spelling",
      "--provider",
      provider,
      "--model",
      "m",
    ]);

    expect(receipt).toMatchObject({
      exit_code: 0,
      exit_reason: "completed",
      agent: "default",
      provider,
      model: "m",
      result: "The colour is a color now.",
      steps: 8,
      tool_calls: 9,
      files_changed: ["notes/a.txt", "notes/b.txt"],
      files_changed_complete: false,
      error: null,
    });
    expect(receipt.tokens_used).toBe(receipt.usage.input_tokens + receipt.usage.output_tokens);
    expect(info).toMatchObject({
      intent: "fix the spelling",
      steps: 8,
      agent: "default",
      kernel: expect.any(String),
    });
    expect(machine.read("notes/a.txt")).toBe("the color\nis red\n");
    expect(machine.read("notes/c.txt")).toBe("two\nthree\none\n");

    expect(model.requests.map(({ body }) => body.stream)).toEqual(Array(8).fill(true));
    const last = model.requests.at(-1);
    expect(last && toolResults(last)).toEqual([
      "notes/a.txt",
      "notes/a.txt",
      "1\tthe colour\n2\tis red",
      expect.stringContaining("+the color"),
      "Created notes/b.txt (14 bytes).",
      "5",
      "1\tone\n2\ttwo\n3\tthree",
      "1\tthe color\n2\tis red",
      "two\nthree\none\n[exit code 3]",
    ]);
  });
}

describe("what a run prints", () => {
  const book = {
    "say it": [
      { text: "thinking", ...calls(["Bash", { command: "echo 42" }]) },
      { text: "It is\n42.", chunks: 4 },
    ],
    "say nothing right": [calls(["Bash", { command: "exit 1" }]), says("no idea")],
  };

  test("as text: the answer alone on stdout, what happened on stderr", async () => {
    await using machine = new Machine();
    await machine.model(scenes(book));
    const { stdout, stderr, code } = await machine.run([
      "spawn",
      "say it",
      "--provider",
      "openai",
      "--model",
      "m",
    ]);
    expect({ stdout, code }).toEqual({ stdout: "It is\n42.\n", code: 0 });
    expect(stderr).toContain("provider openai (--provider), model m, agent default");
    expect(stderr).toContain("Bash echo 42");
    expect(stderr).not.toContain("\u001b");

    const quiet = await machine.run(["spawn", "say it", "--provider", "openai", "--model", "m", "-q"]);
    expect(quiet).toMatchObject({ stdout: "It is\n42.\n", stderr: "", code: 0 });
  });

  test("as jsonl: the protocol's events, ended by exactly one complete", async () => {
    await using machine = new Machine();
    await machine.model(scenes(book));
    const { stdout, code } = await machine.run([
      "spawn",
      "say it",
      "--provider",
      "openai",
      "--model",
      "m",
      "--output",
      "jsonl",
    ]);
    const events = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(code).toBe(0);
    expect(events[0]).toMatchObject({
      type: "progress",
      payload: { event: "spawn", intent: "say it", pid: 1 },
    });
    const kinds = events.map(({ type }) => type);
    expect(kinds.filter((type) => type === "complete" || type === "error")).toEqual(["complete"]);
    expect(kinds.at(-1)).toBe("complete");
    const words = events.filter(({ type, payload }) => type === "text_delta" && payload.step === 2);
    expect(words.length).toBeGreaterThan(1);
    expect(words.map(({ payload }) => payload.text).join("")).toBe("It is\n42.");
    expect(events.at(-1).payload).toMatchObject({ event: "complete", exit_code: 0, result: "It is\n42." });
  });
});
