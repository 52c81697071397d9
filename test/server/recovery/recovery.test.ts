import { describe, expect, test } from "bun:test";
import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { ProcInfo } from "../../../src/kernel/types.ts";
import { realClock } from "../../../src/lib/clock.ts";
import { loggerTo } from "../../../src/lib/logger.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { KernelLocks } from "../../../src/server/daemon/kernel-locks.ts";
import { Recovery } from "../../../src/server/recovery/recovery.ts";
import { SupervisedRuns } from "../../../src/server/recovery/supervised-runs.ts";
import { FileLock } from "../../../src/store/files/file-lock.ts";
import { RunStore } from "../../../src/store/runs/run-store.ts";
import type { JournalEntry, StepRecord } from "../../../src/store/runs/schema.ts";
import { procInfo } from "../../support/samples.ts";
import { TempDir } from "../support/fixture.ts";

const DEAD = "dead-kernel";
const LIVE = "live-kernel";
const T0 = 1_767_225_600_000;

function uuidOf(n: number): string {
  return `01900000-0000-7000-8000-${String(n).padStart(12, "0")}`;
}

function used(tokens: number) {
  return { tokens_used: tokens, cost_usd: null, steps_used: 1, elapsed_ms: tokens };
}

function stepRecord(step: number): StepRecord {
  return {
    v: 1,
    step,
    ts: new Date(T0 + step * 1000).toISOString(),
    messages: [{ role: "assistant", content: `step ${step}` }],
    raw_response: "",
    action: "tool_call",
    summary: "",
    tool_calls: [],
    usage: { input_tokens: 10, output_tokens: 5, cached_tokens: 0 },
    tokens_used: 15,
    so_far: { ...used(15 * step), steps_used: step },
  };
}

function answer(step: number): JournalEntry {
  return {
    t: "answer",
    v: 1,
    step,
    ts: new Date(T0 + step * 1000).toISOString(),
    message: { role: "assistant", content: "", tool_calls: [{ id: "c", name: "Bash", input: {} }] },
    usage: { input_tokens: 10, output_tokens: 5, cached_tokens: 0 },
    so_far: { ...used(15 * step), steps_used: step },
  };
}

function started(step: number): JournalEntry {
  const ts = new Date(T0 + step * 1000 + 500).toISOString();
  return { t: "call_start", step, ts, id: "c", name: "Bash", path: "/dev/shell", input: {}, safe: false };
}

function inTheWay(file: string): void {
  rmSync(file);
  mkdirSync(file);
}

/** A user's data, with runs of a kernel that has died. */
class Left implements Disposable {
  readonly #dir = new TempDir();
  readonly store = new RunStore(join(this.#dir.path, "data"));
  readonly locks = new KernelLocks(join(this.#dir.path, "kernels"));
  readonly lockFile = join(this.#dir.path, "recovery.lock");
  readonly resumed: string[] = [];
  readonly logged: string[] = [];
  supervised = new SupervisedRuns();
  readonly #live: FileLock;
  #runs = 0;
  filled = true;
  /** What a resume does. */
  resume: (uuid: string) => Promise<void> = async () => undefined;

  constructor() {
    mkdirSync(join(this.#dir.path, "kernels"));
    writeFileSync(join(this.#dir.path, "kernels", DEAD), "");
    this.#live = this.locks.take(LIVE);
  }

  /** A run that was at work when its kernel died, after two steps, in a call of the third. */
  async cutOff(more: Partial<ProcInfo> = {}): Promise<string> {
    return this.add({ kernel: DEAD, created_at_ms: T0, state: "running", ...more });
  }

  async add(more: Partial<ProcInfo>): Promise<string> {
    const uuid = uuidOf(++this.#runs);
    const writer = this.store.create(uuid);
    writer.meta({ v: 1, system_prompt: "", tools: [] });
    writer.info(procInfo({ pid: this.#runs, uuid, ...more }));
    await writer.sync();
    for (const step of [1, 2]) writer.step(stepRecord(step));
    writer.journal(answer(3));
    writer.journal(started(3));
    await writer.sync();
    return uuid;
  }

  file(uuid: string, name: string): string {
    return join(this.store.dir(uuid), name);
  }

  recovery(): Recovery {
    this.supervised = new SupervisedRuns();
    return new Recovery({
      clock: { timer: (_ms, f) => realClock.timer(1, f) },
      lockFile: this.lockFile,
      locks: this.locks,
      dataDirs: () => [this.store.dataDir],
      open: () => this.store,
      supervised: this.supervised,
      endPrograms: async () => undefined,
      supervisedTaken: () => this.filled,
      find: async (uuid) => {
        const info = await this.store.info(uuid);
        return info ? { info, records: this.store } : undefined;
      },
      resume: async (uuid) => {
        await this.resume(uuid);
        this.resumed.push(uuid);
      },
      logger: loggerTo((level, _source, text) => this.logged.push(`${level}: ${text}`)),
    });
  }

  async recover(): Promise<void> {
    const recovery = this.recovery();
    await recovery.start();
    await recovery.close();
  }

  info(uuid: string): Promise<ProcInfo | null> {
    return this.store.info(uuid);
  }

  [Symbol.dispose](): void {
    this.#live.release({ remove: true });
    this.#dir[Symbol.dispose]();
  }
}

const SUSPENDED = {
  state: "suspended",
  exit_code: 75,
  exit_reason: "suspended",
  ended_at_ms: T0 + 3500,
  is_paused: false,
  steps: 3,
  tool_calls: 1,
  tokens_used: 45,
  usage: { input_tokens: 30, output_tokens: 15, cached_tokens: 0 },
  elapsed_ms: 45,
  steps_used: 3,
  suspended: { reason: "its rnix died", cause: "crash", wake: { on: "never" } },
  error: { code: "CLOSED", message: expect.stringContaining("rnix resume") },
  crashes: { step: 2, times: 1 },
};

describe("a run whose kernel has died", () => {
  test("is recorded as suspended, with the values of its records, and its kernel is removed", async () => {
    using left = new Left();
    const uuid = await left.cutOff();
    await left.recover();
    expect(await left.info(uuid)).toMatchObject(SUSPENDED);
    expect(left.resumed).toEqual([]);
    expect(left.locks.dead()).toEqual([]);
    expect(left.logged).toEqual([`info: run ${uuid} was cut off at step 3: suspended`]);
  });

  /** What a power loss or a torn write does to the files of a run, and what is brought back all the same. */
  const damages: [string, (left: Left, uuid: string) => void, Partial<ProcInfo>][] = [
    ["nothing at all", () => undefined, {}],
    [
      "a torn last line of the steps",
      (left, uuid) => appendFileSync(left.file(uuid, "steps.jsonl"), '{"v":1,"step":3,"ts":'),
      {},
    ],
    [
      "a zero-filled tail of the steps",
      (left, uuid) => appendFileSync(left.file(uuid, "steps.jsonl"), Buffer.alloc(4096)),
      {},
    ],
    [
      "a missing last step: later records are ignored",
      (left, uuid) => {
        const file = left.file(uuid, "steps.jsonl");
        truncateSync(file, readFileSync(file).indexOf(10) + 1);
      },
      {
        steps: 1,
        tool_calls: 0,
        tokens_used: 15,
        elapsed_ms: 15,
        steps_used: 1,
        ended_at_ms: T0 + 1000,
        usage: { input_tokens: 10, output_tokens: 5, cached_tokens: 0 },
        crashes: { step: 1, times: 1 },
      },
    ],
    [
      "a torn last line of the journal",
      (left, uuid) => appendFileSync(left.file(uuid, "step.journal"), '{"t":"call_e'),
      {},
    ],
    [
      "a zero-filled journal",
      (left, uuid) => writeFileSync(left.file(uuid, "step.journal"), Buffer.alloc(512)),
      {
        steps: 2,
        tool_calls: 0,
        tokens_used: 30,
        elapsed_ms: 30,
        steps_used: 2,
        ended_at_ms: T0 + 2000,
        usage: { input_tokens: 20, output_tokens: 10, cached_tokens: 0 },
      },
    ],
    ["no events", (left, uuid) => rmSync(left.file(uuid, "events.jsonl"), { force: true }), {}],
    [
      "an empty process record beside its older version",
      (left, uuid) => {
        renameSync(left.file(uuid, "proc-info.json"), left.file(uuid, "proc-info.json.before"));
        writeFileSync(left.file(uuid, "proc-info.json"), "");
      },
      {},
    ],
    [
      "a zero-filled process record beside its older version",
      (left, uuid) => {
        renameSync(left.file(uuid, "proc-info.json"), left.file(uuid, "proc-info.json.before"));
        writeFileSync(left.file(uuid, "proc-info.json"), Buffer.alloc(2048));
      },
      {},
    ],
    [
      "only the older version of the process record: the rename is missing",
      (left, uuid) => {
        renameSync(left.file(uuid, "proc-info.json"), left.file(uuid, "proc-info.json.before"));
        writeFileSync(left.file(uuid, "~proc-info.json.tmp"), '{"v":1,"pi');
      },
      {},
    ],
    [
      "a claim of a kernel that died while it resumed the run",
      (left, uuid) => writeFileSync(left.file(uuid, "resume.lock"), ""),
      {},
    ],
  ];

  test.each(damages)("is recovered after %s", async (_name, damage, differs) => {
    using left = new Left();
    const uuid = await left.cutOff({ resume_on_restart: true });
    damage(left, uuid);
    await left.recover();
    expect(await left.info(uuid)).toMatchObject({ ...SUSPENDED, ...differs });
    expect(left.resumed).toEqual([uuid]);
    // Whole from here on, with nothing beside it.
    expect(JSON.parse(readFileSync(left.file(uuid, "proc-info.json"), "utf8"))).toMatchObject({ uuid });
    expect(await Bun.file(left.file(uuid, "~proc-info.json.tmp")).exists()).toBe(false);
    expect(await Bun.file(left.file(uuid, "resume.lock")).exists()).toBe(false);
  });

  test.each<[string, string, RegExp]>([
    ["an empty record", "", /damaged/],
    ["a torn record", '{"v":1,"pid":', /damaged/],
    ["a record of zeros", "\0".repeat(300), /damaged/],
    ["a record of a newer rnix", '{"v":99,"kernel":"dead-kernel"}', /newer rnix/],
  ])("with %s is named and not changed, and the others are recovered", async (_name, text, why) => {
    using left = new Left();
    const damaged = await left.cutOff();
    const other = await left.cutOff();
    writeFileSync(left.file(damaged, "proc-info.json"), text);
    rmSync(left.file(damaged, "proc-info.json.before"), { force: true });
    await left.recover();
    expect(await left.info(other)).toMatchObject({ state: "suspended" });
    expect(readFileSync(left.file(damaged, "proc-info.json"), "utf8")).toBe(text);
    expect(left.logged).toContainEqual(
      expect.stringMatching(new RegExp(`^warn: run ${damaged} .*${why.source}`)),
    );
  });

  test.each([
    ["of a newer rnix", (file: string) => appendFileSync(file, '{"v":9}\n')],
    ["no file", inTheWay],
  ])(
    "whose steps can't be read (%s) is logged and left to the next start; the others are recovered",
    async (_, damage) => {
      using left = new Left();
      const [first, broken, last] = [
        await left.cutOff(),
        await left.cutOff({ resume_on_restart: true }),
        await left.cutOff({ resume_on_restart: true }),
      ];
      damage(left.file(broken, "steps.jsonl"));
      await left.recover();
      for (const uuid of [first, last]) expect(await left.info(uuid)).toMatchObject({ state: "suspended" });
      expect(await left.info(broken)).toMatchObject({ state: "running", ended_at_ms: null });
      expect(left.resumed).toEqual([last]);
      expect(left.logged.join("\n")).toContain(`warn: run ${broken}: what it did can't be read`);
      expect(left.locks.dead()).toEqual([DEAD]);
    },
  );

  test("that is not an agent is recorded as killed", async () => {
    using left = new Left();
    const uuid = await left.cutOff({ kind: "supervisor" });
    await left.recover();
    expect(await left.info(uuid)).toMatchObject({ state: "dead", exit_code: 137, suspended: null });
  });

  test("and that the user had paused stays suspended by the user", async () => {
    using left = new Left();
    const uuid = await left.cutOff({ is_paused: true, resume_on_restart: true });
    await left.recover();
    expect(await left.info(uuid)).toMatchObject({ state: "suspended", suspended: { cause: "asked" } });
    expect(left.resumed).toEqual([]);
  });
});

describe("recovery does not touch", () => {
  test.each<[string, Partial<ProcInfo>]>([
    ["a run of a kernel that lives", { kernel: LIVE }],
    ["a run of an unknown kernel", { kernel: "unknown-kernel" }],
    ["a run that has ended", { ended_at_ms: T0, state: "dead", exit_code: 0, exit_reason: "completed" }],
    [
      "a run that a person has suspended",
      {
        ended_at_ms: T0,
        state: "suspended",
        exit_reason: "suspended",
        resume_on_restart: true,
        suspended: { reason: "", cause: "asked", wake: { on: "never" } },
      },
    ],
  ])("%s", async (_name, more) => {
    using left = new Left();
    const uuid = await left.cutOff(more);
    const before = readFileSync(left.file(uuid, "proc-info.json"), "utf8");
    await left.recover();
    expect(readFileSync(left.file(uuid, "proc-info.json"), "utf8")).toBe(before);
    expect(left.resumed).toEqual([]);
  });

  test("any run when no kernel has died: no record is read", async () => {
    using left = new Left();
    left.locks.forget(DEAD);
    await left.cutOff();
    let asked = 0;
    const leftBy = left.store.leftBy.bind(left.store);
    left.store.leftBy = (kernels) => {
      asked++;
      return leftBy(kernels);
    };
    await left.recover();
    expect(asked).toBe(0);
  });

  test("any run while another rnix recovers", async () => {
    using left = new Left();
    const uuid = await left.cutOff();
    const first = FileLock.tryAcquire(left.lockFile);
    await left.recover();
    expect(await left.info(uuid)).toMatchObject({ state: "running" });
    expect(left.locks.dead()).toEqual([DEAD]);
    first?.release();
    await left.recover();
    expect(await left.info(uuid)).toMatchObject({ state: "suspended" });
  });

  test("a run that another rnix is resuming", async () => {
    using left = new Left();
    const uuid = await left.cutOff({ resume_on_restart: true });
    const claim = left.store.claim(uuid);
    await left.recover();
    expect(await left.info(uuid)).toMatchObject({ state: "running", kernel: DEAD });
    expect(left.resumed).toEqual([]);
    expect(left.locks.dead()).toEqual([DEAD]);
    claim?.release({ remove: true });
  });

  test("a run that another rnix has resumed: its dead kernel is removed", async () => {
    using left = new Left();
    const uuid = await left.cutOff();
    const claim = left.store.claim(uuid);
    const recovery = left.recovery();
    const started = recovery.start();
    const info = await left.info(uuid);
    if (!info) throw new Error("there is none");
    (await left.store.reopen(uuid)).info({ ...info, kernel: LIVE });
    claim?.release({ remove: true });
    await started;
    expect(left.locks.dead()).toEqual([]);
    expect(await left.info(uuid)).toMatchObject({ state: "running" });
    await recovery.close();
  });
});

describe("automatic resume", () => {
  const stopped = (cause: "stop" | "restart", more: Partial<ProcInfo> = {}): Partial<ProcInfo> => ({
    kernel: DEAD,
    ended_at_ms: T0,
    state: "suspended",
    exit_code: 75,
    exit_reason: "suspended",
    suspended: { reason: "rnix was stopped", cause, wake: { on: "never" } },
    ...more,
  });

  test.each<[string, Partial<ProcInfo>, boolean]>([
    ["a run that was marked, after a crash", { kernel: DEAD, resume_on_restart: true }, true],
    ["no other after a crash", { kernel: DEAD }, false],
    ["a run that was marked, after a stop", stopped("stop", { resume_on_restart: true }), true],
    ["no other after a stop", stopped("stop"), false],
    ["any run after a restart", stopped("restart"), true],
    [
      "below an agent that has not ended",
      { kernel: DEAD, resume_on_restart: true, parent_uuid: uuidOf(1) },
      false,
    ],
  ])("%s", async (_name, more, goesOn) => {
    using left = new Left();
    await left.cutOff();
    const uuid = await left.add(more);
    await left.recover();
    expect(left.resumed).toEqual(goesOn ? [uuid] : []);
  });

  test("does not apply to a live kernel that was checked before it had its lock", async () => {
    using left = new Left();
    const uuid = await left.add({ kernel: LIVE, created_at_ms: T0, state: "running" });
    left.locks.dead = () => [LIVE];
    await left.recover();
    expect(await left.store.info(uuid)).toMatchObject({ state: "running", ended_at_ms: null });
    expect(left.logged).toEqual([]);
    expect(left.locks.isAlive(LIVE)).toBe(true);
  });

  test("resumes a few runs at a time", async () => {
    using left = new Left();
    for (let n = 0; n < 40; n++) await left.cutOff({ resume_on_restart: true });
    let [now, most] = [0, 0];
    left.resume = async () => {
      most = Math.max(most, ++now);
      await new Promise(setImmediate);
      now--;
    };
    await left.recover();
    expect(left.resumed).toHaveLength(40);
    expect(most).toBe(4);
  });

  test("leaves a run that can't be resumed suspended with the reason, and resumes the others", async () => {
    using left = new Left();
    const without = await left.cutOff({ resume_on_restart: true });
    const other = await left.cutOff({ resume_on_restart: true });
    left.resume = async (uuid) => {
      if (uuid === without) throw new SyscallError("UNAVAILABLE", "There is no key for openai.");
    };
    await left.recover();
    expect(left.resumed).toEqual([other]);
    expect(await left.info(without)).toMatchObject({
      state: "suspended",
      suspended: { cause: "crash" },
      error: { message: expect.stringMatching(/no key for openai\. Resume it: rnix resume/) },
    });
  });

  test("stops for a run that has crashed rnix three times at one step", async () => {
    using left = new Left();
    const uuid = await left.cutOff({ resume_on_restart: true, crashes: { step: 2, times: 2 } });
    const moved = await left.cutOff({ resume_on_restart: true, crashes: { step: 1, times: 2 } });
    await left.recover();
    expect(left.resumed).toEqual([moved]);
    expect(await left.info(uuid)).toMatchObject({
      crashes: { step: 2, times: 3 },
      error: { message: expect.stringContaining("died 3 times at step 3") },
    });
  });

  test("happens at the next start when rnix is stopped meanwhile", async () => {
    using left = new Left();
    for (let n = 0; n < 10; n++) await left.cutOff({ resume_on_restart: true });
    const recovery = left.recovery();
    left.resume = async () => {
      recovery.stop();
      throw new SyscallError("UNAVAILABLE", "The kernel is shutting down.");
    };
    await recovery.start();
    await recovery.close();
    expect(left.resumed).toEqual([]);
    expect(left.locks.dead()).toEqual([DEAD]);
    left.resume = async () => undefined;
    await left.recover();
    expect(left.resumed).toHaveLength(10);
    expect(left.locks.dead()).toEqual([]);
  });
});

describe("a unit of an init.yaml", () => {
  test("gets its last run, once, and no earlier run", async () => {
    using left = new Left();
    await left.cutOff({ supervised: "user night/watch" });
    const last = await left.cutOff({ supervised: "user night/watch" });
    const recovery = left.recovery();
    const early = left.supervised.take("user night/watch");
    void recovery.start();
    expect(await early).toBeUndefined();
    expect((await left.supervised.take("user night/watch"))?.info.uuid).toBe(last);
    expect(await left.supervised.take("user night/watch")).toBeUndefined();
    expect(left.resumed).toEqual([]);
    await recovery.close();
  });

  test("that did not get its run before a crash gets it at the next start", async () => {
    using left = new Left();
    await left.cutOff({ supervised: "user night/watch" });
    await left.recovery().start();
    expect(left.locks.dead()).toEqual([DEAD]);
  });

  test("keeps its run until init.yaml has started once without using it", async () => {
    using left = new Left();
    await left.cutOff({ supervised: "user night/watch" });
    left.filled = false;
    await left.recover();
    expect(left.locks.dead()).toEqual([DEAD]);
    left.filled = true;
    await left.recover();
    expect(left.locks.dead()).toEqual([]);
  });
});

describe("parents and children", () => {
  test("a parent gets the verdicts of its children, and their usage since its last count", async () => {
    using left = new Left();
    const parent = await left.cutOff();
    const late = { parent_uuid: parent, created_at_ms: T0 + 3600 };
    const child = await left.cutOff(late);
    await left.cutOff({ parent_uuid: child, created_at_ms: T0 + 3700 });
    const ended = await left.cutOff({
      ...late,
      ended_at_ms: T0 + 3800,
      state: "dead",
      exit_code: 0,
      exit_reason: "completed",
      tokens_used: 7,
      steps_used: 1,
    });
    await left.recover();
    const info = await left.info(parent);
    expect(info?.children).toMatchObject([
      { uuid: child, exit_reason: "suspended", tokens_used: 90 },
      { uuid: ended, exit_code: 0, tokens_used: 7 },
    ]);
    expect(info).toMatchObject({ tokens_used: 45 + 90 + 7, steps_used: 3 + 6 + 1 });
  });

  test("only the root is resumed, which resumes its children", async () => {
    using left = new Left();
    const parent = await left.cutOff({ resume_on_restart: true });
    await left.cutOff({ resume_on_restart: true, parent_uuid: parent });
    await left.recover();
    expect(left.resumed).toEqual([parent]);
  });
});

test("the records of old runs in the index are not read", async () => {
  using left = new Left();
  for (let n = 0; n < 40; n++) {
    await left.add({ kernel: DEAD, ended_at_ms: T0, state: "dead", exit_code: 0, exit_reason: "completed" });
  }
  await left.store.list();
  const uuid = await left.cutOff();
  let read = 0;
  const info = left.store.info.bind(left.store);
  left.store.info = (one) => {
    read++;
    return info(one);
  };
  await left.recover();
  expect(read).toBeLessThan(5);
  expect(await left.info(uuid)).toMatchObject({ state: "suspended" });
});
