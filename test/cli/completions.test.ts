import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommandLine } from "../../src/cli/cli.ts";
import { candidates } from "../../src/cli/completion/candidates.ts";
import { SyscallError } from "../../src/plugin/index.ts";
import { FakeIo, type FakeOptions } from "./support.ts";

const dir = mkdtempSync(join(tmpdir(), "rnix-completions-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

async function script(shell: string): Promise<string> {
  const io = new FakeIo();
  expect(await runCommandLine(["completions", shell], io)).toBe(0);
  const file = join(dir, `rnix.${shell}`);
  await Bun.write(file, io.stdout.text);
  return file;
}

/** What may follow these words, the last one being typed. Values of a kind are shown as `<kind>`. */
async function offered(...words: string[]): Promise<string[]> {
  const found = await candidates(words, async (kind, typed) => [{ word: `<${kind}>${typed}`, about: "" }]);
  const last = words.at(-1) ?? "";
  const typed = last === "=" ? "" : last;
  const begins = found.words
    .map(({ word }) => word)
    .filter((word) => word.startsWith(typed) || word.includes("<"));
  return [...begins, ...(found.files ? ["FILES"] : [])];
}

describe("the script", () => {
  test.each(["bash", "zsh", "fish"])(
    "of %s is printed; test/e2e/completions.test.ts types into that shell",
    async (shell) => {
      expect(await Bun.file(await script(shell)).text()).toStartWith(
        shell === "zsh" ? "#compdef rnix\n" : `# ${shell} completion`,
      );
    },
  );

  test("of an unknown shell is refused with the nearest name", async () => {
    const io = new FakeIo();
    expect(await runCommandLine(["completions", "fihs"], io)).toBe(64);
    expect(io.stderr.text).toContain("expected bash, zsh, fish");
    expect(io.stderr.text).toContain("did you mean fish?");
  });
});

describe("what may follow", () => {
  test.each([
    [["sp"], ["spawn"]],
    [["comp"], ["compact", "completions"]],
    [
      ["daemon", "st"],
      ["start", "status", "stop"],
    ],
    [["daemon", "stop", "--n"], ["--now"]],
    [
      ["spawn", "--max"],
      ["--max-steps", "--max-cost"],
    ],
    [
      ["spawn", "x", "--output", "json"],
      ["json", "jsonl"],
    ],
    [
      ["spawn", "x", "--output=json"],
      ["--output=json", "--output=jsonl"],
    ],
    // Bash splits at "=" and ":".
    [
      ["spawn", "x", "--output", "=", "json"],
      ["json", "jsonl"],
    ],
    [
      ["spawn", "x", "--output", "="],
      ["text", "json", "jsonl"],
    ],
    [["spawn", "--model", "qwen", ":", "8"], ["<model>qwen:8"]],
    [
      ["spawn", "--sandbox", ""],
      ["auto", "required", "off"],
    ],
    [["completions", "f"], ["fish"]],
    [["spawn", "--agent", ""], ["<agent>"]],
    [["spawn", "--agent=co"], ["--agent=<agent>co"]],
    [["spawn", "--provider", "a", "--model", ""], ["<model>"]],
    [["spawn", "--allow", "Read,Gr"], ["Read,<tool>Gr"]],
    [["tools", "--agent", ""], ["<agent>"]],
    [["log", "-f", ""], ["<run>"]],
    [
      ["steps", "1", ""],
      ["--json", "--prompt"],
    ],
    [["deny", "1", ""], ["<tool>"]],
    [["deny", "1", "Bash", ""], ["<tool>"]],
    [["kill", "-s", "TERM", ""], ["<run>"]],
    [["kill", "1", ""], ["<run>"]],
    [
      ["replay", ""],
      ["<run>", "FILES"],
    ],
    [["spawn", "--add", ""], ["FILES"]],
    [["spawn", "--cwd", ""], ["FILES"]],
    [["spawn", "--max-steps", ""], []],
    [["plugins", "check", ""], ["FILES"]],
    [
      ["plugins", "check", "-"],
      ["--run", "--yes", "--json"],
    ],
    [
      ["wait", "3", ""],
      ["--timeout", "--json"],
    ],
    [["wait", "--", "-"], ["<run>-"]],
    [["nonsense", ""], []],
  ])("%j: %j", async (words, expected) => {
    const found = await offered(...words);
    for (const word of expected) expect(found).toContain(word);
    if (expected.length === 0) expect(found).toEqual([]);
  });

  test("a hidden flag is not offered", async () => {
    expect(await offered("daemon", "start", "--")).not.toContain("--internal");
  });
});

describe("values", () => {
  const agent = (name: string) => ({
    ...{ name, description: "Reviews\nmuch \u001b[31mred", source: "/a", skills: [], deferred_skills: [] },
    ...{
      allowed_tools: [],
      max_steps: null,
      context_budget: null,
      max_cost: null,
      timeout_ms: null,
      checks: [],
      notices: [],
    },
  });

  async function values(
    o: FakeOptions,
  ): Promise<{ out: string; sessions: unknown[]; err: string; code: number }> {
    const io = new FakeIo(o);
    const done = runCommandLine(["__complete", "spawn", "--agent", ""], io);
    const code = await done;
    return { out: io.stdout.text, sessions: io.sessions, err: io.stderr.text, code };
  }

  test("come from the daemon if one runs, on one line each, and never as a shell's code", async () => {
    const agents = [agent("reviewer"), agent("$(touch x)"), agent("a b")];
    const { out, sessions } = await values({ answers: { list_agents: { agents, diagnostics: [] } } });
    expect(out).toBe("reviewer\tReviews much red\n");
    expect(sessions).toEqual([{ onlyRunning: true }]);
  });

  test("come from disk if none runs, and none is started", async () => {
    const { sessions } = await values({
      down: true,
      answers: { list_agents: { agents: [agent("reviewer")], diagnostics: [] } },
    });
    expect(sessions).toEqual([{ onlyRunning: true }, { inside: true }]);
  });

  test("a failure offers nothing and prints nothing", async () => {
    const answers = { list_agents: new SyscallError("INTERNAL", "broken") };
    expect(await values({ answers })).toMatchObject({ code: 0, out: "", err: "" });
  });

  test("a daemon that does not answer within 200 ms is not waited for", async () => {
    const never = Promise.withResolvers<never>();
    const io = new FakeIo({ answers: { list_agents: { agents: [agent("reviewer")], diagnostics: [] } } });
    const open = io.session.bind(io);
    io.session = (o = {}) => (o.onlyRunning ? never.promise : open(o));
    const done = runCommandLine(["__complete", "spawn", "--agent", ""], io);
    await io.whenTimer();
    const [timer] = io.timers;
    expect(timer?.ms).toBe(200);
    timer?.fire();
    expect(await done).toBe(0);
    expect(io.stdout.text).toStartWith("reviewer\t");
  });
});
