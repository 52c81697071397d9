import { afterAll, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until as holds } from "../support/until.ts";

const MAIN = join(import.meta.dir, "../../src/main.ts");
const base = realpathSync(mkdtempSync(join(tmpdir(), "rnix-program-")));
const work = join(base, "work");
mkdirSync(work);
mkdirSync(join(base, "run"), { mode: 0o700 });
mkdirSync(join(base, "config/rnix"), { recursive: true });
// The daemon starts from its sources here, on machines that may be busy.
writeFileSync(join(base, "config/rnix/config.yaml"), "socket_wait: 20s\n");

const ENV: Record<string, string> = {
  PATH: process.env.PATH ?? "",
  HOME: join(base, "home"),
  XDG_RUNTIME_DIR: join(base, "run"),
  XDG_DATA_HOME: join(base, "data"),
  XDG_CONFIG_HOME: join(base, "config"),
};

afterAll(async () => {
  await rnix(["daemon", "stop", "--now"]);
  rmSync(base, { recursive: true, force: true });
});

interface Ran {
  code: number | null;
  out: string;
  err: string;
}

function start(args: string[], env: Record<string, string> = {}) {
  return Bun.spawn([process.execPath, MAIN, ...args], {
    cwd: work,
    env: { ...ENV, ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
}

async function rnix(args: string[], env: Record<string, string> = {}): Promise<Ran> {
  const child = start(args, env);
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { code, out, err };
}

/** A script for the replay driver in the project's folder. */
function script(name: string, responses: object[]): string {
  writeFileSync(join(work, name), JSON.stringify({ responses }));
  return name;
}

/** Reads until the text has come; the end of the stream is a failure. */
async function until(stream: ReadableStream<Uint8Array>, text: string): Promise<void> {
  const decoder = new TextDecoder();
  let seen = "";
  for await (const chunk of stream) {
    seen += decoder.decode(chunk, { stream: true });
    if (seen.includes(text)) return;
  }
  throw new Error(`the output ended without ${JSON.stringify(text)}: ${seen}`);
}

const answer = script("answer.json", [{ text: "Forty-two." }]);
const sleepy = script("sleepy.json", [
  { text: "I wait.", tool_calls: [{ name: "Bash", input: { command: "touch begun; sleep 600" } }] },
  { text: "Awake." },
]);
const replay = (name: string) => ["--provider", "replay", "--model", name];

describe("rnix demo", () => {
  const root = join(base, "data/rnix/demo");

  test("fixes a real bug without a key or a network, checks it, and leaves only the record", async () => {
    const before = readdirSync(work);
    const { code, out, err } = await rnix(["demo"]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    for (const line of [
      "FAIL: expected 42, got 19",
      "Plan",
      "Read total.sh",
      "Edit",
      "PASS: the total is 42",
      "check sh test.sh: passed",
      "fixed: the project's own test",
    ]) {
      expect(out).toContain(line);
    }
    expect(out.indexOf("FAIL: expected 42")).toBeLessThan(out.indexOf("PASS: the total is 42"));
    const pid = / log (\d+)/.exec(out)?.[1] ?? "";
    expect((await rnix(["log", pid])).out).toContain("Edit");
    expect(readdirSync(root)).toEqual([".rnix"]);
    expect(readdirSync(work)).toEqual(before);
  });

  test("fails on a machine where the bug can't be fixed", async () => {
    const { code, out } = await rnix(["demo"], { PATH: join(base, "nothing-here") });
    expect(code).toBe(1);
    expect(out).toContain("the bug is not fixed");
    expect(readdirSync(root)).toEqual([".rnix"]);
  });
});

describe("rnix spawn", () => {
  test.each([[[]], [["--no-daemon"]]])("%j: only the answer on stdout", async (flags) => {
    const { code, out, err } = await rnix(["spawn", "what is it?", ...replay(answer), ...flags]);
    expect({ code, out }).toEqual({ code: 0, out: "Forty-two.\n" });
    expect(err).toContain("provider replay (--provider), model answer.json");
  });

  test("--output json and jsonl end with the receipt", async () => {
    const json = await rnix(["spawn", "x", ...replay(answer), "--output", "json"]);
    const receipt = JSON.parse(json.out);
    expect(receipt).toMatchObject({ exit_code: 0, result: "Forty-two.", steps: 1 });
    expect(receipt.event).toBeUndefined();
    const jsonl = await rnix(["spawn", "x", ...replay(answer), "--output", "jsonl"]);
    const events: { type: string }[] = jsonl.out
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(events.filter(({ type }) => type === "complete" || type === "error")).toHaveLength(1);
    expect(events.at(-1)?.type).toBe("complete");
  });

  test("an unknown agent is exit 64, and nothing was started", async () => {
    const { code, err } = await rnix(["spawn", "x", "--agent", "codr", ...replay(answer)]);
    expect(code).toBe(64);
    expect(err).toContain("codr");
    expect(err).toContain("coder");
  });

  test.each(["SIGINT", "SIGTERM"] as const)("%s suspends the run: 75", async (signal) => {
    const child = start(["spawn", "x", ...replay(sleepy)]);
    await until(child.stderr, "sleep 600");
    child.kill(signal);
    expect(await child.exited).toBe(75);
  });

  test("a killed command does not end its run", async () => {
    const child = start(["spawn", "x", ...replay(sleepy), "--output", "jsonl"]);
    await until(child.stdout, "sleep 600");
    child.kill("SIGKILL");
    await child.exited;
    const [process] = JSON.parse((await rnix(["ps", "--json"])).out);
    expect(process).toMatchObject({ state: "running", model: "sleepy.json" });
    expect((await rnix(["kill", String(process.pid)])).code).toBe(0);
    expect((await rnix(["wait", process.uuid])).code).toBe(143);
  });
});

describe("the output", () => {
  test("that its reader closed ends the command without an error", async () => {
    const shell = `"$BUN" "$MAIN" completions fish | head -n 1 >/dev/null; echo "\${PIPESTATUS[0]}"`;
    const ran = Bun.spawnSync(["bash", "-c", shell], { env: { ...ENV, BUN: process.execPath, MAIN } });
    expect({ out: ran.stdout.toString(), err: ran.stderr.toString() }).toEqual({ out: "0\n", err: "" });
  });

  test("that its reader closed ends a command that prints a JSON document with an error", async () => {
    const run = (line: string): string[] => {
      const shell = `exec 3> >(true); wait $!; "$BUN" "$MAIN" ${line} >&3; echo $?`;
      const env = { ...ENV, BUN: process.execPath, MAIN };
      const { stdout, stderr } = Bun.spawnSync(["bash", "-c", shell], { env, cwd: work });
      return [stdout.toString(), stderr.toString()];
    };
    const lost = expect.stringContaining("could not write the output: its reader closed it");
    for (const line of [
      "config --json",
      "models --json",
      `spawn x ${replay(answer).join(" ")} --output json`,
    ])
      expect([line, ...run(line)]).toEqual([line, "1\n", lost]);
    expect(run("config")).toEqual(["0\n", ""]);
  });

  // A line, and more than is written in one go.
  for (const args of [["version"], ["completions", "fish"]]) {
    test.skipIf(process.platform !== "linux")(`that can't be written is an error: ${args[0]}`, () => {
      const ran = Bun.spawnSync([process.execPath, MAIN, ...args], {
        env: ENV,
        stdout: Bun.file("/dev/full"),
      });
      expect(ran.exitCode).toBe(1);
      expect(ran.stderr.toString()).toContain("could not write the output");
    });
  }

  test.skipIf(process.platform !== "linux")("to a closed stdout is an error, to /dev/null it is not", () => {
    const version = [process.execPath, MAIN, "version", "--json"];
    for (const [redirected, code] of [
      [">&-", 1],
      [">&- <&-", 1],
      [">/dev/null", 0],
      ["2>&- >/dev/null", 0],
    ] as const) {
      const ran = Bun.spawnSync(["sh", "-c", `"$@" ${redirected}`, "sh", ...version], { env: ENV });
      expect([redirected, ran.exitCode]).toEqual([redirected, code]);
      if (code !== 0) expect(ran.stderr.toString()).toContain("stdout is closed");
    }
    const ignored = Bun.spawnSync(version, { env: ENV, stdout: "ignore" });
    expect(ignored.exitCode).toBe(0);
  });
});

/** A run whose tool sleeps, and the daemon that holds it. */
async function runningSleep(): Promise<{ spawned: Bun.Subprocess; status: { pid: number } }> {
  rmSync(join(work, "begun"), { force: true });
  // In a sandbox the program would end with its daemon.
  const spawned = start(["spawn", "x", "--sandbox", "off", ...replay(sleepy)]);
  // It is printed before it begins.
  await holds(() => existsSync(join(work, "begun")), "the call");
  return { spawned, status: JSON.parse((await rnix(["daemon", "status", "--json"])).out) };
}

describe("rnix daemon", () => {
  test("starts, prints its state and stops, and says when no daemon runs", async () => {
    expect((await rnix(["daemon", "start"])).code).toBe(0);
    expect(JSON.parse((await rnix(["daemon", "status", "--json"])).out)).toMatchObject({ running: true });
    expect(await rnix(["daemon", "stop"])).toMatchObject({
      code: 0,
      err: expect.stringContaining("has stopped"),
    });
    expect(await rnix(["daemon", "status"])).toMatchObject({ code: 69, out: "no daemon is running\n" });
    expect((await rnix(["daemon", "stop"])).code).toBe(0);
    expect((await rnix(["daemon", "logs"])).out).toContain("listening on");
    expect(await rnix(["ps"])).toMatchObject({ code: 0, out: expect.stringContaining("PID"), err: "" });
    expect(JSON.parse((await rnix(["daemon", "status", "--json"])).out)).toMatchObject({ running: true });
  });

  test("rnix doctor finds the programs of a dead daemon, before the next one ends them", async () => {
    const { spawned, status } = await runningSleep();
    process.kill(status.pid, "SIGKILL");
    await spawned.exited;
    const { code, out } = await rnix(["doctor"], { OPENAI_API_KEY: "key-of-a-test" });
    expect(code).toBe(1);
    expect(out).toMatch(/FAILED programs left running: 1 program of an rnix that has died: .*sleep 600/);
    // A daemon waits a moment for their end, and then opens its socket all the same.
    const isNothingLeft = async (): Promise<boolean> =>
      (await rnix(["doctor"])).out.includes("ok programs left running: none");
    await holds(isNothingLeft, "the end of what was left");
  });

  test("rnix doctor starts it and finds the problems", async () => {
    const { code, out } = await rnix(["doctor"], { OPENAI_API_KEY: "key-of-a-test" });
    expect(out).toMatch(/^ok daemon: PID \d+/m);
    expect(out).toMatch(/^ok providers: openai /m);
    expect(out).not.toContain("key-of-a-test");
    expect(code).toBe(0);
  });
});
