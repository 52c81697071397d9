import { expect, test } from "bun:test";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";
import { toolResults } from "../../support/requests.ts";
import { bash, calls, says } from "../../support/scenes.ts";
import { recordOf, verdict } from "../../support/verdict.ts";

/** In every key, and in no other program of this machine. */
const MARK = `sk-${crypto.randomUUID()}`;
/** Another provider's, of which a program prints parts. */
const SLOW = `rt-${crypto.randomUUID()}`;
/** What `/proc` shows of every program: keys in environments, and command lines with what --env gave. */
const EVERY_PROCESS =
  "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -a _API_KEY=; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -a HELD_";

test("a tool finds no key in the environment of waiting commands, nor a value of --env", async () => {
  await using machine = new Machine();
  const model = await machine.play({
    "hold on": [bash("touch held; until test -e go; do sleep 0.02; done"), says("held")],
    "look around": [bash(EVERY_PROCESS), says("looked")],
  });
  const keys = {
    OPENAI_API_KEY: `${MARK}-openai`,
    ANTHROPIC_API_KEY: `${MARK}-anthropic`,
  };
  Object.assign(machine.env, keys);
  const given = ["--env", `HELD_ONE=${MARK}-given`, `--env=HELD_TWO=${MARK}-more`];
  const holding = machine.start(["spawn", "hold on", ...given]);
  await machine.held();
  const waiting = [
    ["wait", "1"],
    ["attach", "1"],
    ["log", "-f", "1"],
  ].map((args) => machine.start(args));
  // One that waits for its own stdin has not connected yet.
  const typing = machine.start(["spawn", "never said", "--stdin"], { stdin: "open" });
  await machine.until(["ps"], /hold on/);
  const other = await machine.run(["spawn", "look around", "-q"]);
  const alone = await machine.run(["spawn", "look around", "--no-daemon", ...given, "-q"]);
  const results = model.requests.flatMap(toolResults).filter((text) => text.includes("HELD_"));
  expect(results.length).toBeGreaterThanOrEqual(2);
  for (const text of results) {
    expect(text).not.toContain(MARK);
    expect(text).toMatch(/^HELD_ONE=\*+$/m);
    expect(text).toMatch(/^--env=HELD_TWO=\*+$/m);
    expect(text).toMatch(/^OPENAI_API_KEY=\*+$/m);
  }
  expect([other.code, alone.code]).toEqual([0, 0]);
  machine.write("go", "");
  typing.signal("SIGTERM");
  await Promise.all([holding, typing, ...waiting].map(({ done }) => done));
  // The run has the values themselves, as for every variable that the user names.
  expect(machine.search(MARK)).not.toContainEqual(expect.stringContaining("steps.jsonl"));
});

test("keys of all providers are redacted in what tools read, print and write, and in records", async () => {
  await using machine = new Machine();
  const keys = {
    OPENAI_API_KEY: `${MARK}-openai`,
    ANTHROPIC_API_KEY: `${MARK}-anthropic`,
    WORK_TOKEN: `${MARK}-work`,
    OPENROUTER_API_KEY: SLOW,
  };
  const copies = {
    DATABASE_URL: `postgres://u:${keys.ANTHROPIC_API_KEY}@host/db`,
    AUTH_HEADER: `Bearer ${keys.WORK_TOKEN}`,
  };
  const vault = machine.write(join(machine.configDir, "vault"), `${MARK}-command\n`);
  const book = {
    "fetch a key": [says("fetched")],
    "look around": [
      calls(
        ["Read", { path: "notes.txt" }],
        ["Bash", { command: "cat notes.txt; env" }],
        // Slowly, cut in the middle of a key.
        [
          "Bash",
          {
            command: `printf ${SLOW.slice(0, 20)}; sleep 0.1; printf ${SLOW.slice(20)}; printf ${SLOW.slice(0, 20)}; sleep 0.1; echo em`,
          },
        ],
        [
          "Bash",
          {
            command: `i=0; while [ $i -lt 9000 ]; do echo "$i ${keys.WORK_TOKEN.replace("sk-", 'sk-""')}"; i=$((i+1)); done`,
          },
        ],
        ["Bash", { command: `no-such-program-${MARK}-openai` }],
      ),
      // A model that repeats what it has read, in pieces.
      {
        reasoning: `it is ${keys.ANTHROPIC_API_KEY}, I think`,
        text: `the key is ${keys.WORK_TOKEN}!`,
        chunks: 40,
      },
    ],
  };
  const model = await machine.play(book);
  Object.assign(machine.env, keys, copies);
  chmodSync(machine.write(join(machine.configDir, "env"), `GEMINI_API_KEY=${MARK}-gemini\n`), 0o600);
  machine.write(
    join(machine.configDir, "providers.yaml"),
    `providers:
  work: { driver: openai, base_url: "${model.openaiUrl}", api_key_env: WORK_TOKEN, default_model: m }
  vault: { driver: openai, base_url: "${model.openaiUrl}", api_key_command: cat ${vault}, default_model: m }
`,
  );
  const all = ["openai", "anthropic", "work", "gemini", "command"].map((name) => `${MARK}-${name}`);
  machine.write("notes.txt", `${all.join("\n")}\n`);
  expect((await verdict(machine, ["fetch a key", "--provider", "vault"])).receipt.exit_code).toBe(0);
  const seen: string[] = [];
  for (const provider of ["openai", "anthropic"]) {
    const { receipt, stderr } = await verdict(machine, [
      "look around",
      "--provider",
      provider,
      "--model",
      "m",
    ]);
    expect(receipt).toMatchObject({ exit_code: 0, result: "the key is [key]!" });
    seen.push(stderr, JSON.stringify(receipt), JSON.stringify(recordOf(machine, receipt.uuid)));
    for (const args of [["log"], ["show", "--json"], ["strace", "--json"]]) {
      const [name = "", ...flags] = args;
      seen.push((await machine.run([name, receipt.uuid, ...flags])).stdout);
    }
    const [read = "", printed = "", slow = "", long = ""] = model.requests.flatMap(toolResults).slice(-5);
    expect(read.match(/\[key\]/g)).toHaveLength(5);
    expect(printed.match(/\[key\]/g)).toHaveLength(5);
    expect(printed).not.toMatch(/DATABASE_URL|AUTH_HEADER/);
    expect(slow).toBe(`[key]${SLOW.slice(0, 20)}em`);
    expect(long).toContain("8999 [key]");
    seen.push(...model.requests.map(({ text }) => text));
  }
  for (const text of seen) {
    expect(text).not.toContain(MARK);
    expect(text).not.toContain(SLOW);
  }
  // The long output's file is among what was searched.
  const kept = ["config/rnix/env", "config/rnix/vault", "project/notes.txt"];
  expect(machine.search(MARK).sort()).toEqual(kept);
  expect(machine.search("8999 [key]").length).toBeGreaterThan(0);
});
