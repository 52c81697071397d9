import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CallingRun, JobCaller } from "../../src/cron/ports.ts";
import { Schedules } from "../../src/cron/schedules.ts";
import type { JobRequest } from "../../src/plugin/index.ts";
import { FileLock } from "../../src/store/files/file-lock.ts";
import { RecordKey } from "../../src/store/runs/record-key.ts";
import { FakeClock } from "../support/fake-clock.ts";

let root: string;
let clock: FakeClock;
const key = RecordKey.temporary();
/** What the pre-flight finds. */
let faults: string[];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "rnix-cron-"));
  clock = new FakeClock(Date.parse("2026-03-01T12:00:00Z"));
  faults = [];
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function schedules(): Schedules {
  return new Schedules({
    clock,
    random: () => 0.5,
    uuid: () => crypto.randomUUID(),
    userDataDir: join(root, "user"),
    runs: false,
    seal: key.sealOf("cron"),
    lock: (path) => FileLock.acquire(path, 5000),
    tryLock: (path) => FileLock.tryAcquire(path),
    complete: async (request) => request,
    preflight: async () => ({ problems: faults }),
    start: () => Promise.reject(new Error("starts nothing")),
    outcome: async () => null,
    stop: async () => undefined,
    gate: () => Promise.reject(new Error("runs nothing")),
    agentBudget: () => ({ tokens_used: 7, tokens: 1000 }),
    notify: () => undefined,
    log: () => undefined,
  });
}

function caller(run: CallingRun | null = null, name = "p"): JobCaller {
  const dir = join(root, name);
  return {
    project: { id: name, dir, dataDir: join(dir, ".rnix/data"), trusted: true },
    cwd: dir,
    env: {},
    run,
  };
}

function aRun(uuid: string, jobId: string | null = null): CallingRun {
  const permissions = { allow: [["Read"]], deny: [] };
  const rights = { permissions, max_steps: 10, context_budget: 1000, max_cost: null, timeout_ms: 60_000 };
  return { uuid, agent: "default", jobId, rights, model: null };
}

function job(change: Partial<JobRequest> = {}): JobRequest {
  return {
    name: "nightly",
    trigger: { cron: "0 3 * * *", tz: "Europe/Berlin" },
    intent: "tidy",
    run: {},
    ...change,
  };
}

describe("a job", () => {
  test("is added with its next five instants, listed, changed and removed", async () => {
    const mine = schedules().of(caller());
    const added = await mine.add(job());
    expect(added.next).toHaveLength(5);
    expect(added.next[0]).toBe("2026-03-02T02:00:00.000Z");
    expect(added.job).toMatchObject({
      name: "nightly",
      state: "enabled",
      next_at: added.next[0],
      last: null,
    });
    expect(await schedules().of(caller()).list()).toEqual([added.job]);

    expect(await mine.disable("nightly")).toMatchObject({ state: "disabled", next_at: null });
    expect(await mine.enable("nightly")).toMatchObject({ state: "enabled", reason: null });
    const edited = await mine.add(job({ intent: "more", replace: true }));
    expect(edited.job).toMatchObject({ id: added.job.id, created_at: added.job.created_at, intent: "more" });
    await mine.remove("nightly");
    expect(await mine.list()).toEqual([]);
  });

  test("of two kernels at once is never lost", async () => {
    const names = Array.from({ length: 20 }, (_, i) => `job${i}`);
    await Promise.all(names.map((name) => schedules().of(caller()).add(job({ name }))));
    expect((await schedules().of(caller()).list()).map(({ name }) => name).sort()).toEqual(names.sort());
  });

  test("of a project that has moved is taken over with its folder", async () => {
    const run = { cwd: join(root, "p", "sub") };
    await schedules().of(caller()).add(job({ run }));
    renameSync(join(root, "p"), join(root, "moved"));
    const moved = schedules().of(caller(null, "moved"));
    expect(await moved.enable("nightly")).toMatchObject({
      project: join(root, "moved"),
      run: { cwd: join(root, "moved", "sub") },
      state: "enabled",
    });
  });

  test("of a folder that shares its data folder stays there when it is enabled elsewhere", async () => {
    const shared = (name: string): JobCaller => {
      const one = caller(null, name);
      return { ...one, project: { ...one.project, dataDir: join(root, "shared") } };
    };
    await schedules().of(shared("p")).add(job());
    await schedules().of(shared("p")).disable("nightly");
    expect(await schedules().of(shared("q")).enable("nightly")).toMatchObject({ project: join(root, "p") });
  });

  test.each(["jobs.json", "runs.jsonl"])(
    "of a project is shown beside another whose %s can't be read, which is named",
    async (file) => {
      await schedules().of(caller()).add(job());
      await schedules().of(caller(null, "other")).add(job());
      const broken = join(root, "other/.rnix/data/cron", file);
      rmSync(broken, { force: true });
      symlinkSync(join(root, "elsewhere"), broken);
      const all = schedules().of(caller());
      expect(await all.list({ all_projects: true })).toMatchObject([
        { name: "nightly", state: "enabled", project: join(root, "p") },
        { state: "blocked", project: join(root, "other"), reason: expect.stringContaining(file) },
      ]);
      expect(await all.history({ limit: 10, all_projects: true })).toEqual([]);
      const own = schedules().of(caller(null, "other"));
      expect(await own.list().catch(String)).toContain(file);
    },
  );

  test("that can't be added leaves its project out of the list of projects", async () => {
    const dir = join(root, "clone/.rnix/data/cron");
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, "jobs.json"), "{}");
    const clone = schedules().of(caller(null, "clone"));
    expect(await clone.add(job()).catch(String)).toContain("were not made by you");
    expect(await schedules().of(caller()).list({ all_projects: true })).toEqual([]);
  });

  test("is refused with every problem", async () => {
    const wrong = { trigger: { cron: "61 3 * * *" }, expires_at: "2020-01-01", on_silence: "mail" } as const;
    const error = await schedules().of(caller()).add(job(wrong)).catch(String);
    expect(error).toContain("minute: 61");
    expect(error).toContain("expires_at: 2020-01-01 is over");
    expect(error).toContain("on_silence");
  });

  test.each(["/etc/*", "../other/**", "src/../../x", "~/notes/*"])(
    "is refused when it waits for a change outside of its project: %s",
    async (glob) => {
      const error = await schedules()
        .of(caller())
        .add(job({ trigger: { on_change: ["src/..a/**", glob] } }))
        .catch(String);
      expect(error).toContain(`got ${JSON.stringify(glob)}`);
      expect(error).not.toContain("..a");
    },
  );

  test("is refused where a run of it could not begin", async () => {
    faults = ["there is no agent nobody", "no key"];
    const error = await schedules().of(caller()).add(job()).catch(String);
    expect(error).toContain("- there is no agent nobody\n- no key");
    expect(await schedules().of(caller()).list()).toEqual([]);
  });

  test.each([
    [{ grace: "soon" }, "grace"],
    [{ retry: { max: 3, from: "1h", to: "1m" } }, "retry"],
    [{ name: "a b" }, "name"],
    [{ if_input: true }, "if_input"],
    [{ trigger: { at: "2020-01-01T00:00Z" } }, "is over"],
    [{ trigger: { cron: "0 0 30 2 *" } }, "no date fits"],
    [{ trigger: { after: "nobody" } }, "there is no job nobody"],
    [{ trigger: { after: "nightly" } }, "can't follow itself"],
  ] as [Partial<JobRequest>, string][])("with %j is refused", async (change, says) => {
    expect(await schedules().of(caller()).add(job(change)).catch(String)).toContain(says);
  });

  test("may not start itself through others", async () => {
    const mine = schedules().of(caller());
    await mine.add(job({ name: "a" }));
    await mine.add(job({ name: "b", trigger: { after: "a" } }));
    const ring = mine.add(job({ name: "a", trigger: { after: "b" }, replace: true }));
    expect(await ring.catch(String)).toContain("start each other: a after b after a");
  });

  test("of a file that this user's Rnix has not written does not run", async () => {
    const mine = schedules().of(caller());
    await mine.add(job());
    const file = join(root, "p/.rnix/data/cron/jobs.json");
    writeFileSync(file, readFileSync(file, "utf8").replace("tidy", "rm -rf"));
    expect(await schedules().of(caller()).list().catch(String)).toContain("not made by you");
  });

  describe("of an older file that was put back", () => {
    const dir = (): string => join(root, "p/.rnix/data/cron");
    const file = (): string => join(dir(), "jobs.json");
    const names = async (): Promise<unknown> =>
      schedules()
        .of(caller())
        .list()
        .then((jobs) => jobs.map(({ name }) => name), String);

    /** The files with the job, and without it. */
    async function versions(): Promise<Buffer[]> {
      await schedules()
        .of(caller())
        .add(job({ name: "other" }));
      await schedules().of(caller()).add(job());
      const old = readFileSync(file());
      await schedules().of(caller()).remove("nightly");
      return [old, readFileSync(file())];
    }

    test("does not run, and the newest does", async () => {
      const [old = "", newest = ""] = await versions();
      const mine = schedules();
      writeFileSync(file(), old);
      expect(await names()).toContain("older than the last ones");
      expect(
        await mine
          .of(caller())
          .add(job({ name: "more" }))
          .catch(String),
      ).toContain("older than");
      writeFileSync(file(), newest);
      expect(await names()).toEqual(["other"]);
    });

    test("does not run after the newest was removed, nor beside new jobs", async () => {
      const [old = "", newest = ""] = await versions();
      rmSync(file());
      expect(await names()).toEqual([]);
      writeFileSync(file(), old);
      expect(await names()).toContain("older than");
      rmSync(file());
      await schedules()
        .of(caller())
        .add(job({ name: "again" }));
      for (const text of [old, newest]) {
        writeFileSync(file(), text);
        expect(await names()).toContain("older than");
      }
    });

    test("does not run in another data folder, and the newest runs where it was moved or copied to", async () => {
      const [old = "", newest = ""] = await versions();
      const other = join(root, "q/.rnix/data/cron");
      const there = async (): Promise<unknown> =>
        schedules()
          .of(caller(null, "q"))
          .list()
          .then((jobs) => jobs.map(({ name }) => name), String);
      mkdirSync(other, { recursive: true });
      writeFileSync(join(other, "jobs.json"), old);
      expect(await there()).toContain("older than");
      writeFileSync(join(other, "jobs.json"), newest);
      expect(await there()).toEqual(["other"]);
      await schedules()
        .of(caller(null, "q"))
        .add(job({ name: "more" }));
      expect(await there()).toEqual(["other", "more"]);
      expect(await names()).toEqual(["other"]);
    });

    test("is not known as the newest when its number was removed", async () => {
      await versions();
      rmSync(join(root, "user/cron/newest"), { recursive: true });
      expect(await names()).toContain("older than");
    });
  });

  test("of another project is listed with all_projects only", async () => {
    await schedules().of(caller()).add(job());
    await schedules()
      .of(caller(null, "q"))
      .add(job({ name: "other" }));
    const mine = schedules().of(caller());
    expect((await mine.list()).map(({ name }) => name)).toEqual(["nightly"]);
    expect((await mine.list({ all_projects: true })).map(({ name }) => name).sort()).toEqual([
      "nightly",
      "other",
    ]);
  });
});

describe("a job made by a run", () => {
  test("has the run's rights and an expiry", async () => {
    const { job: made } = await schedules()
      .of(caller(aRun("u1")))
      .add(job());
    expect(made.creator).toEqual({ kind: "run", uuid: "u1", agent: "default" });
    expect(made.expires_at).toBe("2026-03-08T12:00:00.000Z");
    const late = schedules()
      .of(caller(aRun("u1")))
      .add(job({ name: "b", expires_at: "2027-01-01" }));
    expect(await late.catch(String)).toContain("at the latest");
  });

  test("has at least five minutes between its times, and a budget of the day that all such jobs share", async () => {
    const run = schedules().of(caller(aRun("u1")));
    for (const trigger of [
      { every: "4m" },
      { cron: "* 9 * * *" },
      { cron: "*/20 * * * * *" },
      { cron: "0,3 9 1 * *" },
    ])
      expect(await run.add(job({ trigger })).catch(String)).toContain("at least 5m between its times");
    const { job: made } = await run.add(job({ trigger: { every: "5m" } }));
    expect(made.shared_budget).toEqual({ tokens_used: 7, tokens: 1000 });
    const { job: ofUser } = await schedules()
      .of(caller())
      .add(job({ name: "d", trigger: { every: "1m" } }));
    expect(ofUser.shared_budget).toBeUndefined();
  });

  test("of a job with an expiry ends with that job", async () => {
    const { job: first } = await schedules()
      .of(caller(aRun("u1")))
      .add(job());
    clock.set(clock.now() + 5 * 86_400_000);
    const { job: second } = await schedules()
      .of(caller(aRun("u2", first.id)))
      .add(job({ name: "b" }));
    expect(second.expires_at).toBe(first.expires_at);
  });

  test("is not made by a run whose own job was disabled or removed meanwhile", async () => {
    const user = schedules().of(caller());
    const { job: first } = await user.add(job());
    const run = schedules().of(caller(aRun("u2", first.id)));
    await user.disable("nightly");
    expect(await run.add(job({ name: "b" })).catch(String)).toContain("can make no other job");
    await user.enable("nightly");
    await run.add(job({ name: "b" }));
    await user.remove("nightly");
    expect(await run.add(job({ name: "c" })).catch(String)).toContain("can make no other job");
  });

  test("changes no job of the user or of another run", async () => {
    await schedules().of(caller()).add(job());
    const run = schedules().of(caller(aRun("u1")));
    const changes = [run.remove("nightly"), run.enable("nightly"), run.add(job({ replace: true }))];
    for (const refused of await Promise.all(changes.map((change) => change.catch(String))))
      expect(refused).toContain("was made by the user");
    await run.add(job({ name: "mine" }));
    const other = schedules().of(caller(aRun("u2")));
    expect(await other.disable("mine").catch(String)).toContain("was made by the run u1");
    await run.remove("mine");
  });

  test("stays away when the user has removed or disabled it", async () => {
    const run = schedules().of(caller(aRun("u1")));
    const user = schedules().of(caller());
    await run.add(job());
    await user.disable("nightly");
    expect(await run.enable("nightly").catch(String)).toContain("only the user can enable it");
    expect(await run.add(job({ replace: true })).catch(String)).toContain("only the user can change it");
    await user.remove("nightly");
    expect(await run.add(job()).catch(String)).toContain("no run can add it again");
    await user.add(job());
  });
});

test("the next instants of an expression are shown with its warnings", async () => {
  const { instants, warnings } = await schedules()
    .of(caller())
    .next({ expression: "0 0 13 * 5", tz: "UTC", count: 3 });
  expect(instants).toEqual(["2026-03-06", "2026-03-13", "2026-03-20"].map((day) => `${day}T00:00:00.000Z`));
  expect(warnings).toHaveLength(1);
});
