import { beforeEach, describe, expect, test } from "bun:test";
import { tmpdir } from "node:os";
import plugin from "../../plugins/cron/index.ts";
import {
  type JobInfo,
  type JobRequest,
  O_RDONLY,
  O_RDWR,
  type OpenFlag,
  type Schedule,
  SyscallError,
} from "../../src/plugin/index.ts";
import { testContext } from "../support/conformance/context.ts";
import { describePlugin } from "../support/conformance/plugin.ts";
import { exchange, text } from "../support/conformance/vfs-file.ts";

/** The jobs of a project, without a scheduler: what each test needs is that the calls arrive. */
class Jobs implements Schedule {
  readonly jobs: JobInfo[] = [];
  readonly asked: unknown[] = [];

  async add(job: JobRequest) {
    this.asked.push(job);
    const made: JobInfo = {
      ...job,
      id: `id-${job.name}`,
      project: "/p",
      creator: { kind: "user" },
      state: "enabled",
      reason: null,
      created_at: "2027-01-01T00:00:00.000Z",
      next_at: "2027-01-02T03:00:00.000Z",
      last: null,
    };
    this.jobs.push(made);
    return { job: made, next: ["2027-01-02T03:00:00.000Z"], warnings: ["a question"] };
  }
  list = async () => this.jobs;
  remove = async (name: string) => this.#named(name);
  enable = async (name: string) => this.#named(name);
  disable = async (name: string) => this.#named(name);
  async run(name: string): Promise<never> {
    throw new SyscallError("UNAVAILABLE", `${name} can't run now.`);
  }
  async history(query: object) {
    this.asked.push(query);
    return [];
  }
  next = async (query: { count: number }) => ({ instants: Array(query.count).fill("t"), warnings: [] });

  #named(name: string): JobInfo {
    const job = this.jobs.find((one) => one.name === name);
    if (!job) throw new SyscallError("NOT_FOUND", `There is no job ${name}.`);
    return job;
  }
}

const never = new AbortController().signal;
const JOB = { name: "nightly", trigger: { cron: "0 3 * * *" }, intent: "go", run: {} };
let jobs: Jobs;
beforeEach(() => {
  jobs = new Jobs();
});

async function call(input: object | null, subpath = "", flags: OpenFlag = O_RDWR): Promise<string> {
  const { context } = testContext(tmpdir(), { schedule: jobs });
  const file = await plugin.devices["/dev/cron"].factory(subpath, flags, context);
  try {
    if (input === null) return text(await file.read(100_000, never));
    return text(await exchange(file, JSON.stringify(input)));
  } finally {
    await file.close();
  }
}

describe("the tool CronCreate", () => {
  test.each([
    [
      { cron: "0 3 * * *", tz: "Europe/Berlin" },
      { cron: "0 3 * * *", tz: "Europe/Berlin" },
    ],
    [{ every: "15m" }, { every: "15m" }],
    [{ at: "2027-01-05T09:00" }, { at: "2027-01-05T09:00" }],
    [{ on_change: ["src/**"] }, { on_change: ["src/**"] }],
    [{ after: "build" }, { after: "build" }],
  ])("of %p makes a job with its trigger", async (given, trigger) => {
    const said = await call({
      op: "CronCreate",
      name: "a",
      intent: "go",
      max_tokens: 5,
      model: "m",
      ...given,
    });
    expect(jobs.asked).toEqual([
      { name: "a", intent: "go", trigger, run: { model: "m", context_budget: 5 } },
    ]);
    expect(said).toBe(
      "The job a is scheduled. Its next times: 2027-01-02T03:00:00.000Z.\nWarning: a question",
    );
  });

  test.each([[{}], [{ cron: "* * * * *", every: "5m" }]])("of %p is refused", async (given) => {
    await expect(call({ op: "CronCreate", name: "a", intent: "go", ...given })).rejects.toMatchObject({
      code: "INVALID",
    });
    expect(jobs.jobs).toEqual([]);
  });
});

test("CronList and CronDelete answer in words", async () => {
  expect(await call({ op: "CronList" })).toBe("This project has no scheduled jobs.");
  await jobs.add(JOB);
  expect(await call({ op: "CronList" })).toContain(
    'nightly: {"cron":"0 3 * * *"}, enabled, made by the user',
  );
  expect(await call({ op: "CronDelete", name: "nightly" })).toBe("The job nightly is removed.");
  await expect(call({ op: "CronDelete", name: "other" })).rejects.toMatchObject({ code: "NOT_FOUND" });
});

test("the command's operations answer in JSON", async () => {
  expect(JSON.parse(await call({ op: "add", job: JOB })).job).toMatchObject(JOB);
  expect(JSON.parse(await call({ op: "list" }))).toMatchObject([{ name: "nightly" }]);
  const shown = JSON.parse(await call({ op: "show", name: "nightly", count: 2, limit: 7 }));
  expect(shown).toMatchObject({ job: { name: "nightly" }, next: ["t", "t"], runs: [] });
  expect(jobs.asked.at(-1)).toEqual({ name: "nightly", limit: 7 });
  await expect(call({ op: "run", name: "nightly" })).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await expect(call({ op: "add", job: "nightly" })).rejects.toMatchObject({ code: "INVALID" });
});

test("a read lists the jobs, or shows one of them", async () => {
  await jobs.add(JOB);
  expect(JSON.parse(await call(null, "", O_RDONLY))).toMatchObject([{ name: "nightly" }]);
  expect(JSON.parse(await call(null, "/nightly", O_RDONLY))).toMatchObject({ job: JOB, runs: [] });
  await expect(call(null, "/other", O_RDONLY)).rejects.toMatchObject({ code: "NOT_FOUND" });
});

describePlugin("cron", () => import("../../plugins/cron/index.ts"), {
  setup: () => ({ schedule: new Jobs() }),
  operations: [
    {
      title: "lists no jobs",
      device: "/dev/cron",
      input: { op: "CronList" },
      answer: (answer) => expect(answer).toBe("This project has no scheduled jobs."),
    },
    { title: "refuses an unknown operation", device: "/dev/cron", input: { op: "fly" }, error: "INVALID" },
    { title: "refuses what is not JSON", device: "/dev/cron", input: "fly", error: "INVALID" },
    {
      title: "takes no operation below the device",
      device: "/dev/cron/nightly",
      input: { op: "CronList" },
      error: "PERMISSION",
    },
  ],
});
