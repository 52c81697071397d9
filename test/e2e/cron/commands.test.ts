import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { AddedJob, JobInfo, LedgerRow } from "../../../src/plugin/index.ts";
import { until } from "../../support/until.ts";
import { binary } from "../support/binary.ts";
import { ledgerOf } from "../support/cron-machine.ts";
import { writeKeys } from "../support/keys-file.ts";
import { Machine } from "../support/machine.ts";
import { type Book, bash, calls, says } from "../support/scenes.ts";

/** Runs of jobs have no shell: their key is in the user's file. */
async function machineWith(book: Book): Promise<Machine> {
  const machine = new Machine();
  await machine.play(book);
  writeKeys(machine);
  return machine;
}

async function json<T>(machine: Machine, ...args: string[]): Promise<T> {
  const { stdout, stderr, code } = await machine.run([...args, "--json"]);
  if (code !== 0) throw new Error(`rnix ${args.join(" ")}: ${code}: ${stderr}`);
  const value: T = JSON.parse(stdout);
  return value;
}

/** Waits until the rows of the job look like this. */
async function became(
  machine: Machine,
  job: string,
  wanted: (all: LedgerRow[]) => boolean,
): Promise<LedgerRow[]> {
  let all: LedgerRow[] = [];
  await until(
    async () => {
      all = (await ledgerOf(machine.project)).filter((row) => row.job === job);
      return wanted(all);
    },
    () => `${job}: ${String(wanted)}: ${JSON.stringify(all.at(-1))}`,
  );
  return all;
}

describe("rnix cron add", () => {
  let machine: Machine;
  beforeAll(async () => {
    machine = await machineWith({ "": [says("ok")] });
  });
  afterAll(async () => {
    expect(await machine.close()).toEqual([]);
  });

  test("shows the next five times and every warning, and takes the flags of a spawn", async () => {
    const added = await machine.run([
      "cron",
      "add",
      "0 3 1 * 1",
      "update the dependencies",
      "--name",
      "nightly",
      "--tz",
      "Europe/Berlin",
      "--agent",
      "coder",
      "--max-steps",
      "7",
      "--check",
      "true",
      "--env",
      "LEVEL=1",
      "--retry",
      "2",
      "--backoff",
      "1s..5s",
      "--deliver",
      "./report.md",
      "--deliver-when",
      "on-change",
      "--expires",
      "30d",
    ]);
    expect(added.code).toBe(0);
    expect(added.stdout).toMatch(
      /^job nightly\n {2}0 3 1 \* 1 \(Europe\/Berlin\)\n(?: {2}\w{3} \d{4}-\d\d-\d\d 03:00 {2}in .*\n){5}$/,
    );
    expect(added.stderr).toContain("warning: Day of month (1) and day of week (1) are both set");
    expect(added.stderr).toContain("rnix cron install");
    const [job] = await json<JobInfo[]>(machine, "cron", "list");
    expect(job).toMatchObject({
      name: "nightly",
      trigger: { cron: "0 3 1 * 1", tz: "Europe/Berlin" },
      run: {
        agent: "coder",
        max_steps: 7,
        check: ["true"],
        env: { LEVEL: "1" },
        model: "m",
        provider: "openai",
      },
      retry: { max: 2, from: "1s", to: "5s" },
      deliver: [{ to: `>${join(machine.project, "report.md")}`, when: "on-change" }],
      creator: { kind: "user" },
      state: "enabled",
    });
    const shown = await machine.run(["cron", "show", "nightly"]);
    expect(shown.stdout).toContain("checks    true");
    expect(shown.stdout).toContain("it has not been due yet");
    const replaced = ["cron", "add", "@every 1h", "x", "--name", "nightly"];
    expect((await machine.run(replaced)).code).toBe(64);
    await machine.ok([...replaced, "--replace"]);
    expect((await machine.run(["cron"])).stdout).toContain("@every 1h");
  });

  test.each([
    [
      "an expression that is none",
      ["61 * * * *", "x"],
      /"61 \* \* \* \*" is no schedule.*Expected five fields/,
    ],
    ["a word with a mistake", ["@dayly", "x"], /"@dayly" is no schedule: it is one word\. Expected five/],
    ["too few fields", ["5 4 * *", "x"], /"5 4 \* \*" is no schedule: it has 4 fields\. Expected five/],
    ["a zone that is none", ["0 3 * * *", "x", "--tz", "Mars/Base"], /"Mars\/Base" is no time zone/],
    [
      "a time that is over",
      ["--at", "2001-01-01T00:00", "x"],
      /No instant is left: 2001-01-01T00:00 is over/,
    ],
    ["no schedule", ["x"], /expected SCHEDULE and INTENT/],
    [
      "two triggers",
      ["--at", "2027-01-01T00:00", "--after", "b", "x"],
      /--at and --after exclude each other/,
    ],
    [
      "a policy that is none",
      ["@daily", "x", "--overlap", "maybe"],
      /--overlap: expected one of skip, queue/,
    ],
    ["a duration that is none", ["@daily", "x", "--grace", "soon"], /--grace: expected a duration/],
    ["waits without retries", ["@daily", "x", "--backoff", "1m"], /--backoff belongs to --retry/],
    ["an agent that is not there", ["@daily", "x", "--agent", "nobody"], /nobody/],
    ["a job that is not there", ["--after", "nothing", "x"], /there is no job nothing/],
    ["an unknown flag", ["@daily", "x", "--overlop", "skip"], /did you mean --overlap/],
  ])("of %s is wrong usage", async (_, args, problem) => {
    const { code, stderr } = await machine.run(["cron", "add", ...args]);
    expect(stderr).toMatch(problem);
    expect(code).toBe(64);
  });

  test("that is refused has added nothing", async () => {
    expect((await json<JobInfo[]>(machine, "cron", "list")).map(({ name }) => name)).toEqual(["nightly"]);
  });

  test("of a job whose key only this shell has is refused", async () => {
    machine.remove(join(machine.configDir, "env"));
    const { code, stderr } = await machine.run(["cron", "add", "@daily", "x"]);
    expect(code).toBe(64);
    expect(stderr).toContain("OPENAI_API_KEY");
  });
});

test.concurrent("a job runs at its times, is shown, paused and removed; its answer is delivered and in the morning's report", async () => {
  await using machine = await machineWith({ "count the files": [says("There are **3** files.")] });
  const added = await json<AddedJob>(
    machine,
    "cron",
    "add",
    "@every 1s",
    "count the files",
    "--name",
    "count",
    "--deliver",
    ">>./log.txt",
    "--deliver",
    'cat > "$RNIX_JOB.json"',
    "--overlap",
    "queue",
  );
  expect(added.next).toHaveLength(5);
  await became(machine, "count", (all) => all.filter(({ state }) => state === "ran").length >= 2);
  expect((await machine.run(["cron", "disable", "count"])).stderr).toBe("job count: disabled by the user\n");
  const all = await became(machine, "count", (now) =>
    now.every(
      ({ state, delivery = [] }) => state === "ran" && delivery.every((one) => one.state === "delivered"),
    ),
  );
  expect(machine.read("log.txt")).toBe("There are **3** files.\n".repeat(all.length));
  expect(JSON.parse(machine.read("count.json"))).toMatchObject({
    event: "answer",
    job: "count",
    state: "ran",
    result: "There are **3** files.",
  });

  const history = await machine.run(["cron", "history", "count"]);
  expect(history.stdout).toMatch(/^\++ {2}\+ \d+ ran\n\nDUE +STATE +LATE +TIME +TOKENS +COST +RUN +WHAT\n/);
  expect(history.stdout).toContain("There are **3** files.");
  expect((await machine.run(["cron", "list"])).stdout).toMatch(
    /count +disabled +- +\d\d:\d\d ran +@every 1s/,
  );
  const shown = await json<{ job: JobInfo; runs: LedgerRow[] }>(machine, "cron", "show", "count");
  expect(shown.job.state).toBe("disabled");
  expect(shown.runs).toEqual(all);

  const extra = await json<LedgerRow>(machine, "cron", "run", "count");
  expect(extra).toMatchObject({ extra: true });
  await became(machine, "count", (now) => now.length === all.length + 1 && now.at(-1)?.state === "ran");

  const report = await json<object>(machine, "morning");
  expect(report).toMatchObject({
    runs: { done: all.length + 1, failed: 0 },
    jobs: [{ job: "count", last: { state: "ran" } }],
    attention: [],
  });
  expect((await machine.run(["morning", "--markdown"])).stdout).toContain("There are \\*\\*3\\*\\* files.");
  await machine.ok(["cron", "rm", "count"]);
  expect((await machine.run(["cron", "show", "count"])).code).toBe(64);
  expect(await json<LedgerRow[]>(machine, "cron", "history")).toHaveLength(all.length + 1);
});

test.concurrent("morning counts runs at a terminal in one line, and lists those without a person", async () => {
  await using machine = await machineWith({ "by night": [says("done")], "by hand": [says("done")] });
  await machine.ok(["spawn", "by night"]);
  expect((await machine.startAtTerminal(["spawn", "by hand"]).done).code).toBe(0);
  const failing = ["spawn", "by hand", "--check", "false", "--check-attempts", "1"];
  expect((await machine.startAtTerminal(failing).done).code).toBe(1);
  expect(await json<object>(machine, "morning")).toMatchObject({
    other_runs: [{ what: "by night: done", state: "done" }],
    interactive: { runs: 2, failed: 1 },
  });
  expect((await machine.run(["morning"])).stdout).toMatch(/\n2 runs of yours at a terminal, 1 failed, /);
});

test.concurrent("a job that fails again and again is paused: list, morning and doctor say why", async () => {
  await using machine = await machineWith({ "do it": [says("done")] });
  await machine.run([
    "cron",
    "add",
    "@every 1s",
    "do it",
    "--name",
    "bad",
    "--check",
    "echo broken; false",
    "--check-attempts",
    "1",
    "--pause-after",
    "1",
    "--on-failure",
    'event=$(cat); echo "$event" >> failed.jsonl',
  ]);
  await until(
    () => machine.has("failed.jsonl") && machine.read("failed.jsonl").includes("job_paused"),
    "the pause and its hook",
  );
  const listed = await machine.run(["cron", "list"]);
  expect(listed.stdout).toMatch(/bad is paused.*[^.]; to run it again: rnix cron enable bad/);
  const shown = (await machine.run(["cron", "show", "bad"])).stdout;
  expect(shown).not.toContain("\nnext\n");
  expect(shown).toMatch(/the last failure: rnix log [\w-]{18}\n$/);
  expect(JSON.parse(machine.read("failed.jsonl").split("\n")[0] ?? "")).toMatchObject({
    job: "bad",
    project: machine.project,
  });
  const morning = await machine.run(["morning"]);
  expect(morning.stdout).toMatch(/Jobs that need you\nFAILED bad \(project\) is paused/);
  expect(morning.stdout).toContain("rnix log ");
  const doctor = await machine.run(["doctor"]);
  expect(doctor.code).toBe(1);
  expect(doctor.stdout).toMatch(/schedules.*: bad is paused/);
});

test.concurrent("doctor says that nothing starts the daemon after a reboot, and where the key is missing", async () => {
  await using machine = await machineWith({ "": [says("ok")] });
  await machine.run(["cron", "add", "@daily", "x"]);
  machine.remove(join(machine.configDir, "env"));
  const { stdout, code } = await machine.run(["doctor"]);
  expect(code).toBe(1);
  expect(stdout).toMatch(/keys of jobs.*: none for x \(openai\)/);
  if (process.platform === "linux")
    expect(stdout).toMatch(/schedules after a reboot.*: nothing starts the daemon\n +rnix cron install/);
});

test.concurrent("cron is refused inside a run; its agent may ask for a job, and nobody there means no", async () => {
  await using machine = await machineWith({
    "plant a job": [
      bash(`"$RNIX" cron list; "$RNIX" morning | head -1`),
      calls(["CronCreate", { name: "own", intent: "x", every: "1h" }]),
      says("done"),
    ],
  });
  const run = await machine.run(["spawn", "plant a job", "--env", `RNIX=${binary()}`, "--output", "json"]);
  expect(run.code).toBe(0);
  const log = await machine.run(["log"]);
  expect(log.stdout).toContain("refused inside a run");
  // What ran may be read there; questions are left out.
  expect(log.stdout).toMatch(/Since .*: 0 done/);
  expect(log.stdout).toContain("denied: CronCreate(own) needs a person's yes");
  expect(await json<JobInfo[]>(machine, "cron", "list")).toEqual([]);
});

test.concurrent("an agent that is allowed to makes a job with its own rights and an end; it can't remove the user's", async () => {
  await using machine = await machineWith({
    "plan more": [
      calls(["CronCreate", { name: "own", intent: "x", every: "1h" }]),
      calls(["CronDelete", { name: "mine" }]),
      calls(["CronList", {}]),
      says("done"),
    ],
    "plan again": [calls(["CronCreate", { name: "next", intent: "x", every: "1h" }]), says("done")],
    x: [says("ok")],
  });
  machine.write(
    "agents/planner/agent.yaml",
    "name: planner\ndescription: Plans\nallowed_tools: [CronCreate, CronDelete, CronList, Read]\n",
  );
  machine.write("agents/planner/instructions.md", "Plan.\n");
  await machine.run(["cron", "add", "@daily", "x", "--name", "mine"]);
  const spawned = ["spawn", "plan more", "--agent", "planner", "--model", "small", "--trust"];
  await machine.ok([...spawned, "--taint", "refuse"]);
  const stored = readFileSync(join(machine.project, ".rnix/data/cron/jobs.json"), "utf8");
  expect(stored).toContain('"taint":"refuse"');
  const jobs = await json<JobInfo[]>(machine, "cron", "list");
  expect(jobs.map(({ name }) => name)).toEqual(["mine", "own"]);
  expect(jobs[1]).toMatchObject({
    creator: { kind: "run", agent: "planner" },
    expires_at: expect.any(String),
    run: { provider: "openai", model: "small" },
  });
  const log = await machine.run(["log"]);
  expect(log.stdout).toContain("was made by the user");
  // What it uses counts in the budget of all such jobs, and stays in it when it is removed.
  const { uuid } = await json<LedgerRow>(machine, "cron", "run", "own");
  await became(machine, "own", (rows) => rows.some((row) => row.uuid === uuid && row.ended !== null));
  const [, used] = await json<JobInfo[]>(machine, "cron", "list");
  expect(used?.shared_budget?.tokens_used).toBeGreaterThan(0);
  expect((await machine.ok(["cron"])).stdout).toMatch(
    /^\d+ of 1.0M tokens used today by all jobs that runs/m,
  );
  await machine.ok(["cron", "rm", "own"]);
  await machine.ok(["daemon", "stop"]);
  await machine.ok(["spawn", "plan again", "--agent", "planner", "--model", "small", "--trust"]);
  const [, again] = await json<JobInfo[]>(machine, "cron", "list");
  expect(again?.shared_budget).toEqual(used?.shared_budget);
});

test.concurrent("a job that a child of a job's run makes ends with that job", async () => {
  await using machine = await machineWith({
    "ask a child": [calls(["Agent", { intent: "go deeper", agent: "planner" }]), says("done")],
    "go deeper": [
      calls(["CronCreate", { name: "late", intent: "x", every: "1h", expires_at: inDays(20) }]),
      calls(["CronCreate", { name: "deep", intent: "x", every: "1h" }]),
      says("done"),
    ],
  });
  const folder = join(machine.configDir, "agents/planner");
  machine.write(
    join(folder, "agent.yaml"),
    "name: planner\ndescription: Plans\nallowed_tools: [CronCreate, Agent, Read]\n",
  );
  machine.write(join(folder, "instructions.md"), "Plan.\n");
  const end = inDays(2);
  await machine.run([
    "cron",
    "add",
    "@daily",
    "ask a child",
    "--name",
    "job",
    "--agent",
    "planner",
    "--expires",
    end,
  ]);
  const started = await machine.run(["cron", "run", "job"]);
  expect(started.stdout).toMatch(/^[0-9a-f-]{36}\n$/);
  await machine.until(["cron", "history", "job"], /ran/);
  const jobs = await json<JobInfo[]>(machine, "cron", "list");
  expect(jobs.map(({ name }) => name)).toEqual(["job", "deep"]);
  expect(Date.parse(jobs[1]?.expires_at ?? "")).toBe(Date.parse(end));
});

test("a job takes neither key nor address from the user's shell, and rnix cron add says where to write them", async () => {
  await using machine = await Machine.playing({ "": [says("ok")] });
  const add = (): Promise<{ code: number | null; stderr: string }> =>
    machine.run(["cron", "add", "@daily", "look", "--name", "job"]);
  const file = join(machine.configDir, "env");
  const { OPENAI_API_KEY: key, OPENAI_BASE_URL: url } = machine.env;

  const keyless = await add();
  expect(keyless.code).toBe(64);
  expect(keyless.stderr).toContain("a job takes none from your shell: write OPENAI_API_KEY=");
  delete machine.env.RNIX_PROVIDER;
  expect((await add()).stderr).toContain("No model provider found, and a job takes no key from your shell");

  chmodSync(machine.write(file, `OPENAI_API_KEY=${key}\n`), 0o600);
  const elsewhere = await add();
  expect(elsewhere.code).toBe(64);
  expect(elsewhere.stderr).toContain(`write OPENAI_BASE_URL=${url} into ~/.config/rnix/env`);

  machine.write(file, `OPENAI_API_KEY=${key}\nOPENAI_BASE_URL=${url}\n`);
  expect((await add()).code).toBe(0);
  // The model is the one that rnix spawn has with the same flag.
  await machine.run(["cron", "add", "@daily", "look", "--name", "other", "--provider", "openai"]);
  expect(await json<JobInfo[]>(machine, "cron", "list")).toMatchObject([
    { run: { provider: "openai", model: "m" } },
    { run: { provider: "openai", model: "m" } },
  ]);

  machine.write(file, "");
  await machine.run(["cron", "run", "job"]);
  await machine.until(["cron", "list"], /job is blocked: .*[^.]; it runs again when the cause is gone/);
});

function inDays(days: number): string {
  return new Date(Date.now() + days * 86_400_000).toISOString();
}

test("an interval is a flag, too, and takes no time zone", async () => {
  await using machine = new Machine();
  machine.write("script.yaml", "responses:\n  - text: done\n");
  const model = ["--provider", "replay", "--model", "script.yaml"];
  const add = (...args: string[]) => machine.run(["cron", "add", ...args, ...model]);
  expect(await add("--every", "10s", "look", "--name", "look")).toMatchObject({ code: 0 });
  expect((await machine.run(["cron", "list"])).stdout).toContain("@every 10s");
  for (const zone of ["Mars/Base", "Europe/Berlin"])
    expect(await add("@every 2h", "look", "--name", "other", "--tz", zone)).toMatchObject({
      code: 64,
      stderr: expect.stringContaining("--tz belongs to"),
    });
});

test("the model's name is checked: against the service's list, or else with a warning", async () => {
  await using machine = new Machine();
  const server = await machine.model({ turns: [], models: ["m", "large-two"] });
  writeKeys(machine);
  const add = (name: string, ...args: string[]) =>
    machine.run(["cron", "add", "@daily", "look", "--name", name, ...args]);
  const fine = expect.not.stringContaining("warning");
  expect(await add("right", "--model", "large-two")).toMatchObject({ code: 0, stderr: fine });
  expect(await add("wrong", "--model", "large-tow")).toMatchObject({
    code: 64,
    stderr: expect.stringMatching(/openai has no model "large-tow"\. Did you mean large-two\?/),
  });
  expect(await add("other", "--model", "never-heard-of")).toMatchObject({ code: 64 });
  // Known by the user's file, though no list has it.
  const entry = `base_url: "${server.openaiUrl}", models: { own: { context_window: 64000 } }`;
  machine.write(`${machine.configDir}/providers.yaml`, `providers:\n  openai: { ${entry} }\n`);
  expect(await add("own", "--model", "own")).toMatchObject({ code: 0, stderr: fine });
  // Nothing answers there.
  const gone = 'gone: { driver: openai-compatible, base_url: "http://127.0.0.1:1/v1" }';
  machine.write(`${machine.configDir}/providers.yaml`, `providers:\n  ${gone}\n`);
  expect(await add("unknown", "--provider", "gone", "--model", "x")).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('warning: no list of gone has the model "x"'),
  });
  expect((await json<JobInfo[]>(machine, "cron", "list")).map(({ name }) => name)).toEqual([
    "right",
    "own",
    "unknown",
  ]);
});

test("a job runs when its project is idle, once for each time, and the agent dream may be one", async () => {
  await using machine = await machineWith({ work: [says("worked")], "Tidy the memory": [says("tidied")] });
  const job = ["--on-idle", "1s", "--name", "dream", "--agent", "dream", "--budget-per-day", "100000"];
  await machine.ok(["cron", "add", ...job, "Tidy the memory"]);
  expect((await machine.ok(["cron", "list"])).stdout).toContain("after 1s idle");
  const ran = (times: number) => (all: LedgerRow[]) =>
    all.filter(({ state, cause }) => state === "ran" && cause?.startsWith("idle since ")).length === times;
  for (const times of [1, 2]) {
    await machine.ok(["spawn", "work"]);
    await became(machine, "dream", ran(times));
  }
});
