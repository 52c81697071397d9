import { describe, expect, test } from "bun:test";
import { TreeBudget, UNLIMITED } from "../../../src/kernel/budget/budget.ts";
import { type HolderName, type ReapPorts, reapProcess } from "../../../src/kernel/lifetime/reap.ts";
import { factsOf } from "../../../src/kernel/permission/coverage.ts";
import { Permissions } from "../../../src/kernel/permission/permissions.ts";
import { Process } from "../../../src/kernel/process/process.ts";
import { bareAgent } from "../../../src/kernel/process/process-spec.ts";
import { ProcessTable } from "../../../src/kernel/process/process-table.ts";
import { Channel } from "../../../src/lib/channel.ts";
import { SIGKILL, SIGPAUSE, SIGTERM } from "../../../src/lib/signals.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { FakeClock, settled } from "../../support/fake-clock.ts";
import { KernelHarness, says, silent } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

/** The steps of the seeds (2.5), and what ends or is given back between and behind them. */
const ORDER = [
  "1 orphans",
  "2 cancel",
  "3 task",
  "programs",
  "units",
  "mounts",
  "4 channels",
  "5 messages",
  "6 groups",
  "7 signals",
  "8 threads",
  "9 coroutines",
  "10 context",
  "11 state",
  "12 table",
  "budget",
  "devices",
];

/** A process of which every step of the reap is seen, in a kernel that is none. `broken` are steps that throw. */
class Observed {
  readonly steps: string[] = [];
  readonly warnings: string[] = [];
  readonly table = new ProcessTable();
  readonly parent: Process;
  readonly proc: Process;
  readonly running: Process;
  readonly zombie: Process;
  readonly ports: ReapPorts;
  readonly #h: KernelHarness;
  readonly #broken: ReadonlySet<string>;
  #pid = 0;

  constructor(h: KernelHarness, broken: readonly string[] = []) {
    this.#h = h;
    this.#broken = new Set(broken);
    this.parent = this.#process(0);
    this.proc = this.#process(this.parent.pid, (step) => this.#seen(step));
    this.running = this.#process(this.proc.pid);
    this.zombie = this.#process(this.proc.pid);
    this.parent.family.children.push(this.proc.pid);
    this.proc.family.children.push(this.running.pid, this.zombie.pid);
    for (const ended of [this.proc, this.zombie]) ended.terminate({ code: 0, reason: "completed" });
    this.proc.signal.addEventListener("abort", () => {
      // Orphans have no port: they are seen by what has become of them.
      if (this.running.family.ppid === 0 && this.zombie.family.ppid === 0) this.#seen("1 orphans");
      this.#seen("2 cancel");
    });
    this.proc.tracers.add(new Channel(1, () => this.#seen("4 channels")));
    this.ports = {
      table: {
        find: (pid) => this.table.find(pid),
        remove: (proc) => {
          if (proc === this.proc) {
            // Step 11 has no port either.
            if (proc.state === "dead") this.#seen("11 state");
            this.#seen("12 table");
          }
          this.table.remove(proc);
        },
      },
      contexts: { ctxFree: (id) => this.#of(id, "10 context") },
      children: { endOwner: async (uuid) => this.#of(uuid, "programs") },
      holders: {
        mounts: this.#holder("mounts"),
        units: this.#holder("units"),
        messages: this.#holder("messages", 5),
        groups: this.#holder("groups", 6),
        signals: this.#holder("signals", 7),
        threads: this.#holder("threads", 8),
        coroutines: this.#holder("coroutines", 9),
      },
      task: async (proc) => {
        if (proc !== this.proc) return;
        this.#seen("3 task");
      },
      warn: (_source, text) => this.warnings.push(text),
    };
  }

  #seen(step: string): void {
    this.steps.push(step);
    if (this.#broken.has(step)) throw new Error(`broken ${step}`);
  }

  #of(whose: string | number, step: string): void {
    if (whose === this.proc.uuid || whose === this.proc.conversation.id) this.#seen(step);
  }

  #holder(name: HolderName, step?: number) {
    return {
      size: 0,
      clear: async (proc: Process): Promise<void> => {
        if (proc !== this.proc) return;
        // One that takes its time holds up the next.
        await new Promise((resolve) => setImmediate(resolve));
        this.#seen(step === undefined ? name : `${step} ${name}`);
      },
    };
  }

  #process(ppid: number, seen: (step: string) => void = () => undefined): Process {
    const opts = this.#h.opts();
    const { namespace, release } = opts.devices;
    opts.devices = {
      ...opts.devices,
      release: () => {
        release();
        seen("devices");
      },
    };
    const treeBudget = new TreeBudget(UNLIMITED);
    const close = treeBudget.close.bind(treeBudget);
    treeBudget.close = () => {
      close();
      seen("budget");
    };
    const uuid = Bun.randomUUIDv7();
    const pid = ++this.#pid;
    const proc = new Process({
      pid,
      uuid,
      ppid,
      parentUuid: null,
      tree: uuid,
      originUuid: null,
      depth: 0,
      intent: "be observed",
      kind: "command",
      agent: bareAgent("none"),
      opts,
      namespace,
      permissions: Permissions.of({
        allow: ["*"],
        deny: [],
        ...factsOf(namespace),
        projectDir: opts.project.dir,
        cwd: opts.cwd,
      }),
      record: this.#h.runs.create(uuid, { events_per_run: 1 }),
      budget: treeBudget,
      checks: [],
      kernelId: "test",
      version: "test",
      clock: new FakeClock(),
    });
    proc.conversation.id = pid;
    this.table.add(proc);
    proc.start();
    return proc;
  }

  /** Gives back what no reap is to. */
  end(): void {
    for (const left of this.table.all()) left.spec.opts.devices.release();
  }
}

describe("the reap", () => {
  test("ends the trace of a client that attached while the process was reaped", async () => {
    await using h = new KernelHarness({ model: silent });
    const observed = new Observed(h);
    let ended = false;
    const { messages } = observed.ports.holders;
    const clear = messages.clear.bind(messages);
    messages.clear = async (proc) => {
      await clear(proc);
      observed.proc.tracers.add(new Channel(1, () => (ended = true)));
    };
    await reapProcess(observed.ports, observed.proc);
    expect(ended).toBe(true);
    observed.end();
  });

  test("frees in the order of the seeds, each once, for any caller", async () => {
    await using h = new KernelHarness({ model: silent });
    const observed = new Observed(h);
    const { ports, proc } = observed;
    const reaps = [reapProcess(ports, proc), reapProcess(ports, proc)];
    await until(() => observed.steps.includes("6 groups"));
    reaps.push(reapProcess(ports, proc));
    await Promise.all(reaps);
    await reapProcess(ports, proc);
    expect(observed.steps).toEqual(ORDER);
    expect(observed.warnings).toEqual([]);
    observed.end();
  });

  test("gives running children to PID 0 and reaps the ended ones; its parent forgets it", async () => {
    await using h = new KernelHarness({ model: silent });
    const observed = new Observed(h);
    const { ports, proc, parent, running, zombie, table } = observed;
    await reapProcess(ports, proc);
    expect([running.family.ppid, running.state, table.find(running.pid)]).toEqual([0, "running", running]);
    await until(() => table.find(zombie.pid) === undefined);
    expect([zombie.family.ppid, zombie.state]).toEqual([0, "dead"]);
    expect(parent.family.children).toEqual([]);
    observed.end();
  });

  test.each(ORDER.slice(2).filter((step) => step !== "11 state"))(
    "goes on when a step fails: %s",
    async (broken) => {
      await using h = new KernelHarness({ model: silent });
      const observed = new Observed(h, [broken]);
      await reapProcess(observed.ports, observed.proc);
      expect(observed.steps).toEqual(ORDER);
      expect(observed.warnings).toHaveLength(1);
      expect(observed.warnings[0]).toContain(`broken ${broken}`);
      expect(observed.proc.state).toBe("dead");
      observed.end();
      // The table itself was broken: the process is still in it, with its released resources.
      if (broken === "12 table") h.leases++;
    },
  );

  test("treats a process that was never in the table as reaped", async () => {
    await using h = new KernelHarness({ model: silent });
    const observed = new Observed(h);
    observed.table.remove(observed.proc);
    await reapProcess(observed.ports, observed.proc);
    expect(observed.steps).toEqual([]);
    observed.proc.spec.opts.devices.release();
    observed.end();
  });
});

describe("the end of a process releases every caller that waits for it or for something of it", () => {
  test.each(["a kill", "a kill while it is paused", "its own end"])("%s", async (how) => {
    const answer = Promise.withResolvers<void>();
    await using h = new KernelHarness({
      model: async (_request, signal) => {
        signal.addEventListener("abort", () => answer.reject(signal.reason), { once: true });
        await answer.promise;
        return says("done");
      },
    });
    const { kernel } = h;
    const pid = await h.spawn("go", { timeout_ms: null });
    await until(() => h.requests.length === 1);
    const tid = await kernel.concurrency.spawnThread(
      pid,
      "waits",
      ({ signal }) => new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve())),
    );
    const coid = await kernel.concurrency.spawnCoroutine(
      pid,
      "waits",
      ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", () => resolve("released"))),
    );
    if (how === "a kill while it is paused") kernel.processes.kill(pid, SIGPAUSE);
    const settled: Record<string, string> = {};
    const note = async (name: string, work: Promise<unknown>): Promise<void> => {
      const came = await work.then(
        () => "came back",
        (error: unknown) => (error instanceof SyscallError ? error.code : String(error)),
      );
      settled[name] = came;
    };
    const drain = async (channel: AsyncIterable<unknown>): Promise<void> => {
      for await (const _event of channel);
    };
    const waits = [
      note("wait", kernel.processes.wait(pid)),
      note("second wait", kernel.processes.wait(pid)),
      note("recv", kernel.ipc.recv(pid)),
      note("join", kernel.concurrency.joinThread(pid, tid)),
      note("resume", kernel.concurrency.resumeCoroutine(pid, coid)),
      note("attach", drain(kernel.attach(pid))),
      note("trace", drain(kernel.attachDebug(pid))),
    ];
    if (how === "its own end") answer.resolve();
    else kernel.processes.kill(pid, SIGKILL);
    await Promise.all(waits);
    expect(settled).toEqual({
      wait: "came back",
      "second wait": "came back",
      recv: how === "its own end" ? "CLOSED" : "CANCELLED",
      join: "CANCELLED",
      resume: "CANCELLED",
      attach: "came back",
      trace: "came back",
    });
  });

  test("a process that waits for another is released when it is killed, and never waits for itself", async () => {
    await using h = new KernelHarness({ model: silent });
    const { kernel } = h;
    const other = await h.spawn("go");
    const outcome = Promise.withResolvers<unknown[]>();
    const waiter = await kernel.processes.spawnTask(
      "command",
      async (proc) => {
        const itself = await kernel.processes.wait(proc.pid, proc).catch((error: unknown) => error);
        const another = await kernel.processes.wait(other, proc).catch((error: unknown) => error);
        outcome.resolve([itself, another]);
        return { kind: "finished" };
      },
      "wait",
      null,
      { ...h.opts(), provider: null },
    );
    await settled();
    kernel.processes.kill(waiter, SIGTERM);
    expect(await kernel.processes.wait(waiter)).toMatchObject({ code: 143 });
    expect(await outcome.promise).toMatchObject([{ code: "INVALID" }, { code: "CANCELLED" }]);
    expect(kernel.processes.info(other).state).toBe("running");
  });
});
