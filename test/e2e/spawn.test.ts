import { describe, expect, test } from "bun:test";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "./support/machine.ts";
import { toolNames, toolResults } from "./support/requests.ts";
import { bash, calls, type Scene, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

const PROVIDERS = ["openai", "responses", "anthropic", "google"] as const;

/** A task with every stock tool in it; each answer depends on files that the call before has made. */
const TASK: Scene[] = [
  {
    text: "I look around first.",
    ...calls(["Glob", { pattern: "**/*.txt" }], ["Grep", { pattern: "colour" }]),
  },
  calls(["Read", { path: "notes/a.txt" }]),
  calls(["Edit", { path: "notes/a.txt", old_string: "colour", new_string: "color" }]),
  calls(["Write", { path: "notes/b.txt", content: "one\ntwo\nthree\n" }]),
  bash("cat notes/a.txt notes/b.txt | wc -l"),
  calls(["Read", { path: "notes/b.txt" }], ["Read", { path: "notes/a.txt" }]),
  bash("sort -r notes/b.txt > notes/c.txt; cat notes/c.txt; exit 3"),
  { text: "The colour is a color now.", chunks: 5 },
];

for (const provider of PROVIDERS) {
  test(`a task of many tool calls is completed with ${provider}'s protocol, streamed`, async () => {
    await using machine = new Machine();
    const model = await machine.play({ "fix the spelling": TASK });
    machine.write(
      join(machine.configDir, "providers.yaml"),
      `providers: { responses: { driver: openai, base_url: '${model.openaiUrl}', api_key_env: OPENAI_API_KEY, extra: { api: responses } } }\n`,
    );
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

    expect(model.requests.map(({ stream }) => stream)).toEqual(Array(8).fill(true));
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
      { text: "thinking", ...bash("echo 42") },
      { text: "It is\n42.", chunks: 4 },
    ],
  };

  test("as text: only the answer on stdout, the steps on stderr", async () => {
    await using machine = await Machine.playing(book);
    const { stdout, stderr, code } = await machine.run(["spawn", "say it"]);
    expect({ stdout, code }).toEqual({ stdout: "It is\n42.\n", code: 0 });
    expect(stderr).toContain("provider openai (RNIX_PROVIDER), model m, agent default");
    expect(stderr).toContain("Bash echo 42");
    expect(stderr).not.toContain("\u001b");

    const quiet = await machine.run(["spawn", "say it", "-q"]);
    expect(quiet).toMatchObject({ stdout: "It is\n42.\n", stderr: "", code: 0 });
  });

  test("as jsonl: the protocol's events, ended by exactly one complete", async () => {
    await using machine = await Machine.playing(book);
    const { stdout, code } = await machine.run(["spawn", "say it", "--output", "jsonl"]);
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

  test("as jsonl of a run that fails: complete has the reason, and there is no error event", async () => {
    await using machine = await Machine.playing({ "say it": [{ fault: { kind: "status", status: 401 } }] });
    for (const where of [[], ["--no-daemon"]]) {
      const { stdout, code } = await machine.run(["spawn", "say it", "--output", "jsonl", ...where]);
      const events = stdout
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line));
      const ends = events.filter(({ type }) => type === "complete" || type === "error");
      expect(ends).toMatchObject([
        { type: "complete", payload: { exit_code: code, exit_reason: "llm_error" } },
      ]);
      expect(events.at(-1)).toEqual(ends[0]);
      expect(code).toBe(1);
    }
  });

  test("at a terminal: each call with its result, and the answer once", async () => {
    await using machine = new Machine();
    const half = Promise.withResolvers<void>();
    await machine.play({
      "say it": [
        bash("echo 42"),
        async () => {
          await half.promise;
          return { text: "It is 42.", chunks: 3 };
        },
      ],
    });
    await using terminal = machine.terminal(["spawn", "say it"]);
    await terminal.until(/step 2/);
    half.resolve();
    const { code } = await terminal.done;
    const { transcript } = terminal.screen;
    expect(code).toBe(0);
    expect(transcript).toMatch(/● Bash echo 42 · \d+ms\n {2}│ 42\n/);
    expect(transcript.match(/It is 42\./g)).toHaveLength(1);
    expect(transcript).toMatch(/completed · 2 steps · 1 tool call/);
  });
});

describe("declared checks decide", () => {
  const book = {
    "make it": [calls(["Write", { path: "made.txt", content: "yes\n" }]), says("made")],
    "claim it": [says("made, I think")],
  };

  test("all passed: completed, each with its exit code", async () => {
    await using machine = await Machine.playing(book);
    const checks = ["--check", "test -f made.txt", "--check", "grep -q yes made.txt"];
    const { receipt, stderr } = await verdict(machine, ["make it", ...checks]);
    expect(receipt).toMatchObject({ exit_code: 0, exit_reason: "completed" });
    expect(receipt.checks).toEqual([
      { command: "test -f made.txt", exit_code: 0, elapsed_ms: expect.any(Number) },
      { command: "grep -q yes made.txt", exit_code: 0, elapsed_ms: expect.any(Number) },
    ]);
    expect(stderr).toContain("check test -f made.txt: passed");
  });

  test("one failed: check_failed with its output, whatever the agent says; no later check is run", async () => {
    await using machine = await Machine.playing(book);
    const checks = ["--check", "echo not there >&2; exit 7", "--check", "touch ran-anyway"];
    const { receipt, stderr } = await verdict(machine, ["claim it", ...checks, "--check-attempts", "1"]);
    expect(receipt).toMatchObject({ exit_code: 1, exit_reason: "check_failed", result: "made, I think" });
    expect(receipt.checks).toEqual([
      {
        command: "echo not there >&2; exit 7",
        exit_code: 7,
        output: "not there\n",
        elapsed_ms: expect.any(Number),
      },
    ]);
    expect(receipt.error?.message).toContain("echo not there >&2; exit 7");
    expect(stderr).toContain("not there");
    expect(machine.has("ran-anyway")).toBe(false);
  });

  test("one that exceeds check_timeout has failed, and is killed", async () => {
    await using machine = new Machine();
    machine.config({ check_timeout: "1s" });
    await machine.play(book);
    const { receipt } = await verdict(machine, [
      "claim it",
      "--check",
      "sleep 600 & wait $!",
      "--check-attempts",
      "1",
    ]);
    expect(receipt).toMatchObject({
      exit_reason: "check_failed",
      checks: [{ command: "sleep 600 & wait $!", exit_code: null }],
    });
  });
});

describe("files_changed", () => {
  test("in a git work tree is the difference of its status, also for changes by a shell command", async () => {
    await using machine = new Machine({ git: true });
    machine.write("dirty before.txt", "not of this run\n");
    await machine.play({
      "change it": [
        bash("mkdir -p sub && echo x > 'sub/ü 1.txt' && rm README.md"),
        calls(["Write", { path: "b.txt", content: "b" }]),
        says("done"),
      ],
      "look only": [calls(["Read", { path: "b.txt" }]), says("seen")],
    });
    const { receipt } = await verdict(machine, ["change it"]);
    expect(receipt.files_changed.toSorted()).toEqual(["README.md", "b.txt", "sub/ü 1.txt"]);
    expect(receipt.files_changed_complete).toBe(true);
    expect((await verdict(machine, ["look only"])).receipt).toMatchObject({
      files_changed: [],
      files_changed_complete: true,
    });
  });

  test("elsewhere are the files of Write and Edit, and the receipt says that there may be more", async () => {
    await using machine = await Machine.playing({
      "change it": [
        bash("echo x > unseen.txt"),
        calls(["Write", { path: "sub/b.txt", content: "b" }]),
        says("done"),
      ],
    });
    expect((await verdict(machine, ["change it"])).receipt).toMatchObject({
      files_changed: ["sub/b.txt"],
      files_changed_complete: false,
    });
  });
});

describe("--allow and --deny", () => {
  const attempts: [string, Record<string, unknown>][] = [
    ["Write", { path: "w.txt", content: "x" }],
    ["Bash", { command: "touch b.txt" }],
    ["Bash", { command: "echo $(touch s.txt)" }],
    ["Bash", { command: "git --version && touch g.txt" }],
    ["Bash", { command: "git --version > r.txt" }],
    ["Read", { path: "secret/key.txt" }],
    ["Read", { path: "secret/../secret/key.txt" }],
    ["Read", { path: "link" }],
    ["Read", { path: "ok.txt" }],
    ["Bash", { command: "git --version" }],
  ];

  test("hold against a model: a tool outside the rules is not offered, is denied, and has no effect", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "try it": [calls(...attempts), says("tried")] });
    machine.write("ok.txt", "fine\n");
    machine.write("secret/key.txt", "hidden\n");
    symlinkSync("secret/key.txt", join(machine.project, "link"));

    const flags = ["--allow", "Read", "--allow", "Bash(git *)", "--deny", "Read(secret/**)"];
    const { receipt } = await verdict(machine, ["try it", ...flags]);

    expect(machine.has("w.txt")).toBe(false);
    expect(receipt).toMatchObject({ exit_code: 0, files_changed: [] });
    const [first, last] = model.requests;
    expect(first && toolNames(first)).toEqual(["Bash", "Read"]);
    const results = (last && toolResults(last)) ?? [];
    expect(results).toHaveLength(attempts.length);
    for (const result of results.slice(0, -2)) expect(result).toMatch(/^Error (PERMISSION|NOT_FOUND)/);
    expect(results.at(-2)).toContain("fine");
    expect(results.at(-1)).toContain("git version");
    for (const file of ["w.txt", "b.txt", "s.txt", "g.txt", "r.txt"]) expect(machine.has(file)).toBe(false);
    expect(results.join("\n")).not.toContain("hidden");
  });
});
