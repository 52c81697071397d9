import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findProject } from "../../../src/config/project/project.ts";
import { Trust } from "../../../src/config/trust/trust.ts";
import type { InitPlan, InitUnitStatus } from "../../../src/kernel/init-manager.ts";
import { loggerTo } from "../../../src/lib/logger.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { Workspaces } from "../../../src/server/plan/workspace.ts";
import { DaemonInit } from "../../../src/server/recovery/init-service.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { until } from "../../support/until.ts";
import { Home } from "../support/home.ts";
import { refusal } from "../support/refusal.ts";

const uid = process.getuid?.() ?? 0;
const YAML = "services: [{ name: queue, type: command, config: { command: [x] } }]\n";

/** A DaemonInit in front of a kernel that the test decides for. */
class Booting implements AsyncDisposable {
  readonly home = new Home();
  readonly clock = new FakeClock();
  readonly booted: InitPlan[] = [];
  readonly logged: string[] = [];
  readonly known: string[] = [this.home.project];
  units: InitUnitStatus[] = [];
  /** What becomes of a boot. */
  boot: (plan: InitPlan) => Promise<void> = async () => undefined;
  readonly init: DaemonInit;

  constructor() {
    const unused = (): never => {
      throw new Error("nothing is planned here");
    };
    const workspaces = new Workspaces({
      user: this.home.paths,
      uid,
      bases: { open: unused },
      plugins: { lease: unused, list: unused, review: unused },
      hasRuns: () => false,
      embedded: { agents: async () => [], skills: async () => [] },
    });
    this.init = new DaemonInit({
      kernel: {
        initBoot: (plan) => {
          this.booted.push(plan);
          return this.boot(plan);
        },
        initStatus: () => this.units,
      },
      user: this.home.paths,
      env: this.home.env,
      clock: this.clock,
      projects: () => this.known,
      spawn: {
        workspaces,
        clock: this.clock,
        keys: { of: unused, fetched: [] },
        parent: unused,
        models: unused,
        sandbox: { probe: unused, isFirstNotice: unused },
        services: unused,
        remember: unused,
        worktrees: unused,
        networkProblem: unused,
      },
      before: async () => undefined,
      logger: loggerTo((_level, source, text) => this.logged.push(`${source}: ${text}`)),
    });
  }

  usersFile(yaml = YAML): void {
    writeFileSync(join(this.home.paths.configDir, "init.yaml"), yaml);
  }

  projectsFile(dir = this.home.project): string {
    mkdirSync(join(dir, ".rnix"), { recursive: true });
    const file = join(dir, ".rnix/init.yaml");
    writeFileSync(file, YAML);
    const project = findProject({ cwd: dir, home: this.home.dir, uid, env: {} });
    new Trust(this.home.paths.dataDir, project).follow([], 0);
    return file;
  }

  ready(cwd = this.home.project): Promise<string[]> {
    return this.init.ready({ cwd, env: this.home.env });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.home[Symbol.asyncDispose]();
    expect(this.clock.pending).toBe(0);
  }
}

const refused = new SyscallError("UNAVAILABLE", "The required command queue did not come up: no port");

describe("init.yaml for the daemon", () => {
  test("has no units before it is started, inside a command, and without a file", async () => {
    await using b = new Booting();
    b.usersFile();
    expect(await b.ready()).toEqual([]);
    await b.init.started();
    expect([b.init.starting, b.booted.length]).toEqual([false, 0]);

    await using empty = new Booting();
    await empty.init.start();
    expect(await empty.ready()).toEqual([]);
    expect([empty.init.starting, empty.booted.length]).toEqual([false, 0]);
  });

  test("starts the user's units first, then those of all existing projects in parallel", async () => {
    await using b = new Booting();
    const user = Promise.withResolvers<void>();
    b.boot = ({ project }) => (project === null ? user.promise : Promise.resolve());
    b.usersFile();
    b.projectsFile();
    b.known.push(join(b.home.dir, "gone"), join(b.home.dir, "without"));
    mkdirSync(join(b.home.dir, "without"));
    const started = b.init.start();
    const run = b.ready();
    await until(() => b.booted.length === 1);
    expect(b.init.starting).toBe(true);
    user.resolve();
    await Promise.all([started, run, b.init.started()]);
    expect(b.booted.map(({ project }) => project)).toEqual([null, b.home.project]);
    expect(b.init.starting).toBe(false);
  });

  test("of the user that does not start fails the daemon's start, waiting clients and new runs", async () => {
    await using b = new Booting();
    b.boot = async () => {
      throw refused;
    };
    b.usersFile();
    const errors = await Promise.all([b.init.start(), b.init.started(), b.ready()].map(refusal));
    const file = join(b.home.paths.configDir, "init.yaml");
    for (const { code, message } of errors) {
      expect([code, message]).toEqual(["UNAVAILABLE", `${file}: ${refused.message}`]);
    }
    expect(b.init.starting).toBe(true);
  });

  test("of a project is started once for all waiting runs, and again after a failure", async () => {
    await using b = new Booting();
    await b.init.start();
    const file = b.projectsFile();
    const first = Promise.withResolvers<void>();
    b.boot = () => first.promise;
    const waiting = Promise.all([b.ready(), b.ready(), b.ready()].map(refusal));
    await until(() => b.booted.length === 1);
    first.reject(refused);
    for (const { message } of await waiting) expect(message).toBe(`${file}: ${refused.message}`);
    expect(b.init.status().problems).toEqual([{ path: file, message: `${file}: ${refused.message}` }]);

    b.boot = async () => undefined;
    expect(await b.ready()).toEqual([]);
    expect(await b.ready()).toEqual([]);
    expect(b.booted.map(({ project }) => project)).toEqual([b.home.project, b.home.project]);
    expect(b.init.status().problems).toEqual([]);
  });

  test("that fails at the daemon's start is logged, and does not affect other projects", async () => {
    await using b = new Booting();
    b.boot = async () => {
      throw refused;
    };
    b.projectsFile();
    const other = join(b.home.dir, "other");
    mkdirSync(join(other, ".rnix"), { recursive: true });
    await b.init.start();
    await until(() => b.logged.length === 1);
    expect(b.logged[0]).toStartWith(`init ${b.home.project}: `);
    expect(await b.ready(other)).toEqual([]);
  });

  test("delays a run for less time than its client waits", async () => {
    await using b = new Booting();
    const never = Promise.withResolvers<void>();
    b.boot = () => never.promise;
    b.usersFile();
    b.units = [
      {
        project: null,
        name: "queue",
        type: "command",
        required: true,
        state: "starting",
        sinceMs: 0,
        pid: null,
        restarts: 0,
        error: null,
      },
    ];
    const starting = b.init.start();
    const run = refusal(b.ready());
    await b.clock.advance(25_000);
    const { code, message } = await run;
    expect(code).toBe("UNAVAILABLE");
    expect(message).toContain("it waits for the command queue");
    never.resolve();
    await starting;
  });
});
