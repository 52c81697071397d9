import { describe, expect, test } from "bun:test";
import { chmodSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ModelServer, RecordedRequest } from "../support/model-server/server.ts";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import { bash, type Scene, says } from "./support/scenes.ts";
import { recordOf, verdict } from "./support/verdict.ts";

/** Part of every key, so that a key is found wherever it appears. */
const MARK = "sk-marked";
const KEYS = {
  OPENAI_API_KEY: `${MARK}-openai`,
  OPENROUTER_API_KEY: `${MARK}-openrouter`,
  GEMINI_API_KEY: `${MARK}-gemini`,
  GOOGLE_GENERATIVE_AI_API_KEY: `${MARK}-google`,
  CURSOR_API_KEY: `${MARK}-cursor`,
  WORK_TOKEN: `${MARK}-work`,
  COPY_OF_IT: `${MARK}-openai`,
};

/** What the request carried for a key: a provider that is careless repeats it. */
function keyOf({ headers }: RecordedRequest): string {
  return headers.get("authorization") ?? headers.get("x-api-key") ?? headers.get("x-goog-api-key") ?? "none";
}

const echoes =
  (status: number): Scene =>
  (request) => ({
    fault: { kind: "status", status, message: `I do not like ${keyOf(request)}` },
  });

/** Environments and command lines of everything that belongs to the machine, and of its parents no more. */
function shownBySystem(machine: Machine): string {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map((pid) => ["environ", "cmdline"].map((file) => read(`/proc/${pid}/${file}`)).join(" "))
    .filter((text) => text.includes(machine.root))
    .join("\n");
}

function read(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return ""; // It has ended meanwhile.
  }
}

/** A machine with a key of every kind: in the environment, in the user's file, and from a command. */
async function withKeys(book: Record<string, Scene[]>): Promise<{ machine: Machine; model: ModelServer }> {
  const machine = new Machine();
  machine.config({ model_retries: 1 });
  const model = await machine.play(book);
  Object.assign(machine.env, KEYS);
  delete machine.env.ANTHROPIC_API_KEY;
  chmodSync(machine.write(join(machine.configDir, "env"), `ANTHROPIC_API_KEY=${MARK}-anthropic\n`), 0o600);
  machine.write(vaultOf(machine), `${MARK}-command\n`);
  machine.write(
    join(machine.configDir, "providers.yaml"),
    `providers:
  google: { base_url: "${model.url}/v1beta" }
  openrouter: { base_url: "${model.openaiUrl}" }
  work: { driver: openai, base_url: "${model.openaiUrl}", api_key_env: WORK_TOKEN, default_model: m }
  vault: { driver: openai, base_url: "${model.openaiUrl}", api_key_command: cat ${vaultOf(machine)}, default_model: m }
  locked: { driver: openai, base_url: "${model.openaiUrl}", api_key_command: 'cat ${vaultOf(machine)}; cat ${vaultOf(machine)} >&2; exit 3', default_model: m }
`,
  );
  return { machine, model };
}

/** Files that hold keys on purpose. */
const KEPT = ["config/rnix/env", "config/rnix/vault"];

function vaultOf({ configDir }: Machine): string {
  return join(configDir, "vault");
}

/** Every way in which a run ends that uses a key. */
const ENDINGS = {
  "let in": [bash("env; tr '\\0' '\\n' < /proc/$PPID/environ; cat /proc/$PPID/cmdline"), says("done")],
  "turned away": [echoes(401)],
  "sent back": [echoes(400)],
  "worn out": [echoes(503)],
  "refused in a stream": [
    ((request) => ({
      fault: { kind: "error_event", code: "server_error", message: `what is ${keyOf(request)}` },
    })) satisfies Scene,
  ],
};

function requireHidden(machine: Machine, seen: readonly string[]): void {
  for (const text of seen) expect(text).not.toContain(MARK);
  expect(shownBySystem(machine)).not.toContain(MARK);
  expect(machine.search(MARK).sort()).toEqual(KEPT);
}

describe("a key is only where its user put it", () => {
  // Side by side: most of the time goes into waits before retries.
  test.concurrent.each([
    ["openai", "openai"],
    ["anthropic", "anthropic"],
    ["google", "gemini"],
    ["openrouter", "openrouter"],
    ["work", "work"],
    ["vault", "command"],
  ])("for every ending of the runs that use it, with the provider %s", async (provider, key) => {
    const made = await withKeys(ENDINGS);
    await using machine = made.machine;
    const seen: string[] = [];
    for (const intent of Object.keys(ENDINGS)) {
      for (const where of intent === "let in" ? [[], ["--no-daemon"]] : [[]]) {
        const args = [intent, "--provider", provider, "--model", "m", ...where];
        const { receipt, stderr } = await verdict(machine, args);
        seen.push(stderr, JSON.stringify(receipt), JSON.stringify(recordOf(machine, receipt.uuid)));
        for (const command of [["log"], ["show", "--json"], ["strace", "--json"]]) {
          const [name = "", ...flags] = command;
          if (where.length === 0) seen.push((await machine.run([name, receipt.uuid, ...flags])).stdout);
        }
      }
    }
    // It was used, and no other one.
    const used = made.model.requests.map((request) => keyOf(request).replace("Bearer ", ""));
    expect([...new Set(used)]).toEqual([`${MARK}-${key}`]);
    // The environments that its tool has printed are in there.
    for (const request of made.model.requests) expect(request.text).not.toContain(MARK);
    requireHidden(machine, seen);
  });

  test("when it is given by --env, its command fails, or the providers are listed", async () => {
    const made = await withKeys(ENDINGS);
    await using machine = made.machine;
    const { model } = made;
    const seen: string[] = [];
    // Values of --env are recorded for the tools' variables, but not values of keys.
    const given = ["OPENAI_API_KEY", "WORK_TOKEN"].flatMap((name) => ["--env", `${name}=${MARK}-given`]);
    for (const provider of ["openai", "work"]) {
      const args = ["let in", "--provider", provider, "--model", "m", "--env", "PLAIN=plain", ...given];
      // A key that no run has any more is redacted no longer.
      const { receipt, info } = await verdict(machine, args, { env: { COPY_OF_IT: undefined } });
      seen.push(JSON.stringify(receipt), JSON.stringify(info));
      expect(info.env.values).toMatchObject({ PLAIN: "plain" });
      for (const request of model.requests.splice(0)) {
        expect(keyOf(request)).toBe(`Bearer ${MARK}-given`);
        expect(request.text).not.toContain(MARK);
      }
    }
    const { stdout, stderr, code } = await machine.run(["spawn", "let in", "--provider", "locked"]);
    expect(code).toBe(69);
    expect(stderr).toContain("ended with 3");
    seen.push(stdout, stderr);
    for (const flags of [[], ["--json"], ["--probe"]]) {
      const listed = await machine.run(["providers", ...flags]);
      seen.push(listed.stdout, listed.stderr);
    }
    requireHidden(machine, seen);
  });

  test("also with a foreground daemon, which has its shell's environment", async () => {
    const made = await withKeys({
      "let in": [bash("env; tr '\\0' '\\n' < /proc/$PPID/environ"), says("done")],
    });
    await using machine = made.machine;
    const daemon = machine.start(["daemon", "start", "--foreground"], { env: { RNIX_LOG: "debug" } });
    await until(() => machine.daemonPid !== null, "the daemon");
    const { receipt } = await verdict(machine, ["let in", "--model", "m"]);
    expect(receipt.exit_code).toBe(0);
    expect(made.model.requests).toHaveLength(2);
    for (const request of made.model.requests) expect(request.text).not.toContain(MARK);
    expect(shownBySystem(machine)).not.toContain(MARK);
    await machine.ok(["daemon", "stop"]);
    const { stdout, stderr } = await daemon.done;
    expect(stdout + stderr).not.toContain(MARK);
    expect(machine.search(MARK).sort()).toEqual(KEPT);
  });

  test("also while a tool, a key command and --no-daemon commands run", async () => {
    const hold = "touch held-$$; until test -e go; do sleep 0.02; done";
    const made = await withKeys({
      "hold one": [bash(hold), says("done")],
      "hold two": [bash(hold), says("done")],
      "hold three": [says("done")],
    });
    await using machine = made.machine;
    const waits = `cat ${vaultOf(machine)}; cd ${machine.project}; touch asked; until test -e go; do sleep 0.02; done`;
    machine.write(
      join(machine.configDir, "providers.yaml"),
      `providers:
  work: { driver: openai, api_key_env: WORK_TOKEN }
  vault: { driver: openai, base_url: "${made.model.openaiUrl}", api_key_command: '${waits}' }
`,
    );
    const spawn = (intent: string, ...flags: string[]) =>
      machine.start(["spawn", intent, "-q", "--model", "m", ...flags]);
    const detached = spawn("hold one", "--detach");
    const running = [spawn("hold two", "--no-daemon"), spawn("hold three", "--provider", "vault")];
    expect((await detached.done).code).toBe(0);
    const held = () => readdirSync(machine.project).filter((name) => name.startsWith("held")).length === 2;
    await until(() => held() && machine.has("asked"), "what is to be held");
    const shown = shownBySystem(machine).split("\n");
    for (const text of shown) expect(text).not.toContain(MARK);
    for (const one of ["--internal", "--no-daemon", "touch held", "touch asked", "\0hold three\0"]) {
      expect(shown.filter((text) => text.includes(one))).not.toBeEmpty();
    }
    machine.write("go", "");
    await Promise.all(running.map(({ done }) => done));
    await machine.ok(["wait", "1"]);
    expect(machine.search(MARK).sort()).toEqual(KEPT);
  });
});
