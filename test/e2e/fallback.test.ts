import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { RecordedRequest } from "../support/model-server/server.ts";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import { bash, type Scene, says } from "./support/scenes.ts";
import { recordOf, verdict } from "./support/verdict.ts";

const HOLD = bash("touch held; until test -e go; do sleep 0.02; done");

/** Only some models are there. */
const only =
  (models: string[], scene: Scene): Scene =>
  (request) => {
    if (!models.includes(request.model))
      return { fault: { kind: "status", status: 404, message: "no such" } };
    return typeof scene === "function" ? scene(request) : scene;
  };

const limited: Scene = {
  fault: { kind: "status", status: 429, headers: { "retry-after": "3600" }, message: "come back" },
};

/** An agent of the user's that names its models. */
function agent(machine: Machine, models: object): void {
  const dir = join(machine.configDir, "agents", "careful");
  machine.write(
    join(dir, "agent.yaml"),
    `name: careful\ndescription: goes on\nmodels: ${JSON.stringify(models)}\n`,
  );
  machine.write(join(dir, "instructions.md"), "Be careful.\n");
}

/** Removes the model from the environment, so that the agent's setting counts. */
const AGENTS = { RNIX_MODEL: undefined, RNIX_PROVIDER: undefined };

const asked = (requests: RecordedRequest[]): string[] =>
  requests.map(({ model, path }) => `${model} ${path}`);

describe("an agent's fallback models", () => {
  test("are used in order, across providers; the command, log, show and steps name the change", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "do it": [
        only(["c"], limited),
        only(["c"], limited),
        limited,
        (request) => (request.path.includes("messages") ? says("done by another") : limited),
      ],
    });
    agent(machine, { provider: "openai", preferred: "a", fallback: ["b", "c", "anthropic/d"] });
    const { receipt, stderr, info } = await verdict(machine, ["do it", "--agent", "careful"], {
      env: AGENTS,
    });
    expect(receipt).toMatchObject({
      exit_code: 0,
      result: "done by another",
      provider: "anthropic",
      model: "d",
      steps: 1,
    });
    expect(asked(model.requests)).toEqual([
      "a /v1/chat/completions",
      "b /v1/chat/completions",
      "c /v1/chat/completions",
      "d /v1/messages",
    ]);
    expect(info.switches.map(({ to, error }) => [to.provider, to.model, error?.code])).toEqual([
      ["openai", "b", "NOT_FOUND"],
      ["openai", "c", "NOT_FOUND"],
      ["anthropic", "d", "EXHAUSTED"],
    ]);
    for (const command of ["log", "show"]) {
      const { stdout } = await machine.run([command, receipt.uuid]);
      for (const text of ["429", "come back"]) expect(stdout).toContain(text);
      expect(stdout).toContain(command === "log" ? "continues with anthropic/d" : "d of anthropic");
    }
    expect(stderr).toContain("openai/c failed (EXHAUSTED");
    const steps = await machine.run(["steps", receipt.uuid, "1", "--json"]);
    expect(JSON.parse(steps.stdout).switches).toHaveLength(3);
  });

  test("of other providers are not used when a flag names the provider", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "do it": [only(["b"], says("done"))] });
    agent(machine, { provider: "openai", preferred: "a", fallback: ["anthropic/d", "b"] });
    const { receipt, stderr } = await verdict(
      machine,
      ["do it", "--agent", "careful", "--provider", "openai"],
      { env: AGENTS },
    );
    expect(receipt).toMatchObject({ exit_code: 0, provider: "openai", model: "b" });
    expect(stderr).toContain(
      "The fallback anthropic/d is left out: it belongs to another provider than openai",
    );
    expect(asked(model.requests).join()).not.toContain("messages");
  });

  test.each([
    ["is suspended and resumed", (machine: Machine) => machine.run(["suspend", "1"])],
    [
      "was killed with its daemon",
      async (machine: Machine) => {
        machine.killDaemon();
        await machine.run(["daemon", "start"]);
      },
    ],
  ])("stay in use in a run that %s, and the later ones are still available", async (_, cut) => {
    await using machine = new Machine();
    const model = await machine.play({
      "do it": [only(["b", "c"], HOLD), only(["b", "c"], HOLD), only(["c"], says("done"))],
    });
    agent(machine, { provider: "openai", preferred: "a", fallback: ["b", "c"] });
    const run = machine.start(["spawn", "do it", "--agent", "careful", "--detach"], { env: AGENTS });
    const uuid = (await run.done).stdout.split(" ")[1]?.trim() ?? "";
    await machine.held();
    await cut(machine);
    await until(() => recordOf(machine, uuid).state === "suspended", "its record");
    // A changed agent file counts for new runs only.
    agent(machine, { provider: "openai", preferred: "z", fallback: [] });
    expect(recordOf(machine, uuid)).toMatchObject({
      state: "suspended",
      model: "b",
      fallback: [{ provider: "openai", model: "c" }],
    });
    machine.write("go", "");
    const before = model.requests.length;
    const resumed = await machine.run(["resume", uuid, "--output", "json"], { env: AGENTS });
    expect(JSON.parse(resumed.stdout)).toMatchObject({ exit_code: 0, result: "done", model: "c" });
    expect(asked(model.requests.slice(before))[0]).toStartWith("b ");
    expect(recordOf(machine, uuid).switches.map(({ from, to }) => `${from.model}-${to.model}`)).toEqual([
      "a-b",
      "b-c",
    ]);
  });
});

test("a run whose model does not exist resumes with the one that the resume names, as its hint says", async () => {
  await using machine = new Machine();
  const model = await machine.play({ "do it": [only(["b"], says("done"))] });
  const { receipt, stderr } = await verdict(machine, ["do it", "--model", "a"]);
  expect(receipt).toMatchObject({ exit_reason: "llm_error", error: { code: "NOT_FOUND" } });
  expect(stderr).toContain(`with another model: rnix resume ${receipt.uuid} --model MODEL`);
  const resumed = await machine.run(["resume", receipt.uuid, "--model", "b", "--output", "json"]);
  expect(JSON.parse(resumed.stdout)).toMatchObject({ exit_code: 0, result: "done", model: "b" });
  const { switches } = recordOf(machine, receipt.uuid);
  expect(switches).toMatchObject([{ step: 1, from: { model: "a" }, to: { model: "b" }, error: null }]);
  expect(asked(model.requests).at(-1)).toStartWith("b ");
  const log = await machine.run(["log", receipt.uuid]);
  expect(log.stdout).toMatch(/the user chose openai\/b instead of openai\/a[\s\S]*done/);
  const other = await machine.run(["resume", receipt.uuid, "again", "--provider", "no-such"]);
  expect(other).toMatchObject({ code: 64, stderr: expect.stringContaining("no-such") });
});

describe("a key that a command prints", () => {
  test("and that expires under many runs is fetched once for all of them", async () => {
    await using machine = new Machine();
    const good = new Set(["key-number-1"]);
    const keyOf = ({ headers }: RecordedRequest) =>
      headers.get("authorization")?.replace("Bearer ", "") ?? "";
    const model = await machine.model(async (request) => {
      if (!good.has(keyOf(request))) return { fault: { kind: "status", status: 401, message: "expired" } };
      if (request.assistantMessages > 0) return says("done");
      return { tool_calls: [{ name: "Bash", input: { command: "until test -e go; do sleep 0.02; done" } }] };
    });
    const counter = join(machine.configDir, "counter");
    machine.write(
      join(machine.configDir, "providers.yaml"),
      `providers: { rotating: { driver: openai, base_url: "${model.openaiUrl}", api_key_command: "echo >> ${counter}; echo key-number-$(wc -l < ${counter})", default_model: m } }\n`,
    );
    const runs = Array.from({ length: 8 }, (_, n) =>
      machine.run(["spawn", `wait ${n}`, "--provider", "rotating", "--output", "json"]),
    );
    await until(() => model.requests.length === 8, "all that begin");
    good.clear();
    good.add("key-number-2");
    machine.write("go", "");
    for (const { stdout } of await Promise.all(runs)) {
      expect(JSON.parse(stdout)).toMatchObject({ exit_code: 0, result: "done", steps: 2 });
    }
    expect(machine.read(counter)).toBe("\n\n");
    expect(new Set(model.requests.map(keyOf))).toEqual(new Set(["key-number-1", "key-number-2"]));
  });

  test("of an untrusted project is not run, and rnix trust shows its command", async () => {
    await using machine = await Machine.playing({ "do it": [says("done")] }, { git: true });
    machine.write(
      ".rnix/providers.yaml",
      'providers: { openai: { api_key_command: "touch stolen; echo x" } }\n',
    );
    const { receipt, stderr } = await verdict(machine, ["do it"]);
    expect(receipt.exit_code).toBe(0);
    expect(stderr).toContain("provider openai: api_key_command");
    expect(machine.has("stolen")).toBe(false);
    const shown = await machine.run(["trust", "--show"]);
    expect(shown.stdout + shown.stderr).toContain("touch stolen");
  });
});
