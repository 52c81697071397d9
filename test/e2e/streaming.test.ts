import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { until } from "../support/until.ts";
import { binary } from "./support/binary.ts";
import { Machine } from "./support/machine.ts";
import { Running } from "./support/running.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { Receipt } from "./support/verdict.ts";

/** Far more than a terminal, a pipe or a socket holds. */
const LONG = "word ".repeat(200_000);
const TALK = { text: LONG, chunks: 2000 };
/** Talks, then shows that the run has come past it. */
const TALK_AND_ACT = { ...TALK, ...bash("touch acted") };

const Line = z.looseObject({
  type: z.string(),
  payload: z.looseObject({ step: z.number().optional(), text: z.string().optional() }).optional(),
  dropped: z.number().optional(),
});

function linesOf(stdout: string): z.infer<typeof Line>[] {
  return stdout
    .trimEnd()
    .split("\n")
    .map((line) => Line.parse(JSON.parse(line)));
}

function words(lines: readonly z.infer<typeof Line>[], type: string, step: number): string {
  const deltas = lines.filter((line) => line.type === type && line.payload?.step === step);
  return deltas.map(({ payload }) => payload?.text ?? "").join("");
}

describe.each([["with the daemon"], ["--no-daemon"]])("%s", (how) => {
  const more = how === "--no-daemon" ? [how] : [];

  test("a stopped terminal (Ctrl-S) does not delay the run, and shows the rest when it continues", async () => {
    await using machine = await Machine.playing({ talk: [TALK_AND_ACT, says("that was all")] });
    const command = machine.startAtTerminal(["spawn", "talk", ...more]);
    await command.shows(/step 1/);
    command.type("\x13");
    await until(() => machine.has("acted"), "the call after the words");
    expect(command.screen).not.toContain("that was all");
    command.type("\x11");
    const { screen, code } = await command.done;
    expect(code).toBe(0);
    expect(screen).toContain("that was all");
    expect(screen).toContain("completed");
  });

  test("an unread pipe does not delay the run, and its reader gets every word in the end", async () => {
    await using machine = await Machine.playing({ talk: [TALK_AND_ACT, says("that was all")] });
    const line = `"$0" spawn talk --output jsonl "$@" | { until test -e read; do sleep 0.02; done; cat; }`;
    const command = new Running({
      argv: ["sh", "-c", line, binary(), ...more],
      cwd: machine.project,
      env: machine.env,
    });
    await until(() => machine.has("acted"), "the call after the words");
    machine.write("read", "");
    const lines = linesOf((await command.done).stdout);
    expect(words(lines, "text_delta", 1)).toBe(LONG);
    expect(lines.at(-1)).toMatchObject({
      type: "complete",
      payload: { exit_code: 0, result: "that was all" },
    });
    expect(lines.at(-1)?.dropped).toBeUndefined();
  });

  test("a pipe that its reader closed ends no run, and the exit code is the run's", async () => {
    await using machine = await Machine.playing({ talk: [TALK_AND_ACT, says("that was all")] });
    const line = `{ "$0" spawn talk --output jsonl --check "exit 3" "$@"; echo $? > code; } | head -n 1`;
    const command = new Running({
      argv: ["sh", "-c", line, binary(), ...more],
      cwd: machine.project,
      env: machine.env,
    });
    await command.done;
    await until(() => machine.has("code"), "the command's end");
    expect(machine.has("acted")).toBe(true);
    expect(machine.read("code")).toBe("1\n");
  });
});

test("a stopped command (SIGSTOP) does not delay its run, and prints everything when it continues", async () => {
  await using machine = await Machine.playing({ talk: [TALK_AND_ACT, TALK] });
  const command = machine.start(["spawn", "talk", "--output", "jsonl"]);
  await command.stdout.has(/"event":"spawn"/);
  command.signal("SIGSTOP");
  const receipt = await machine.until(["wait", "1", "--json"], /"exit_code":0/);
  expect(Receipt.parse(JSON.parse(receipt)).result).toBe(LONG);
  command.signal("SIGCONT");
  const lines = linesOf((await command.done).stdout);
  expect(words(lines, "text_delta", 1)).toBe(LONG);
  expect(words(lines, "text_delta", 2)).toBe(LONG);
});

test("reasoning is streamed apart from the answer, and is in the log of the ended run", async () => {
  await using machine = new Machine();
  const model = await machine.play({
    think: [
      { reasoning: "first I look", ...calls(["Glob", { pattern: "*" }]) },
      { reasoning: "now I know", text: "42" },
    ],
  });
  const { stdout } = await machine.run(["spawn", "think", "--provider", "anthropic", "--output", "jsonl"]);
  const lines = linesOf(stdout);
  expect(words(lines, "reasoning_delta", 1)).toBe("first I look");
  expect(words(lines, "reasoning_delta", 2)).toBe("now I know");
  expect(words(lines, "text_delta", 2)).toBe("42");
  expect(lines.at(-1)?.payload).toMatchObject({ result: "42" });
  const { stdout: log } = await machine.run(["log", "1"]);
  expect(log.replaceAll("\n", " ")).toMatch(/first I look.*now I know.*42/);
  expect((await machine.run(["steps", "1", "2"])).stdout).toContain("thoughts\nnow I know\n");
  const { stdout: step } = await machine.run(["steps", "1", "2", "--json"]);
  expect(JSON.parse(step)).toMatchObject({ reasoning: "now I know", raw_response: "42" });
  // Earlier reasoning is not sent with the next request; a provider's signature may be.
  expect(model.requests).toHaveLength(2);
});

test("control characters in a model's answer do not move the cursor of a terminal", async () => {
  await using machine = new Machine();
  machine.write("schema.json", '{"type":"object","additionalProperties":{"type":"number"}}');
  const wrong = '{"\\u001b[2J\\u001b]0;owned\\u0007": "no number"}';
  await machine.play({ count: [says(wrong)] });
  const { stderr, code } = await machine.run(["spawn", "count", "--output-schema", "schema.json"]);
  expect(code).toBe(1);
  expect(stderr).toContain("asked for again");
  expect(stderr).not.toContain("\x1b");
  expect(stderr).not.toContain("\x07");
});

test("an answer that breaks off and is retried is shown once in plain lines on a terminal", async () => {
  await using machine = new Machine();
  machine.config({ model_retries: 1 });
  await machine.play({
    talk: [{ text: "It began so, and then", chunks: 6, fault: { kind: "cut" } }, says("It is done.")],
  });
  const { screen, code } = await machine.startAtTerminal(["spawn", "talk"], { env: { NO_COLOR: "1" } }).done;
  expect(code).toBe(0);
  expect(screen.split("It is done.")).toHaveLength(2);
});
