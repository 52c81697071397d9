import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { Client } from "../../../src/client/client.ts";
import { overStream } from "../../../src/client/session.ts";
import { loggerTo } from "../../../src/lib/logger.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import type { SpawnRequest } from "../../../src/protocol/methods.ts";
import { type DaemonPorts, runDaemon } from "../../../src/server/daemon/daemon.ts";
import type { InitService } from "../../../src/server/recovery/init-service.ts";
import { FileLock } from "../../../src/store/files/file-lock.ts";
import { RunStore } from "../../../src/store/runs/run-store.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { until } from "../../support/until.ts";
import { FakeKernel } from "../support/fake-kernel.ts";
import { fakeSystem, NO_INIT, TempDir } from "../support/fixture.ts";
import { refusal } from "../support/refusal.ts";

const RUN: SpawnRequest = { intent: "run", cwd: "/w", env: {}, trust: true };
const IDLE_MS = 60_000;
const CHECK_MS = 5_000;
const GRACE_MS = 10_000;
const DRAIN_MS = 7_000;

/** A daemon in this process, with a fake kernel and a clock moved by hand. */
class TestDaemon implements AsyncDisposable {
  readonly dir = new TempDir();
  readonly clock = new FakeClock();
  readonly kernel: FakeKernel;
  readonly logged: string[] = [];
  readonly logger = loggerTo((_level, _source, text) => this.logged.push(text));
  readonly paths = {
    socket: join(this.dir.path, "d", "rnix.sock"),
    pidFile: join(this.dir.path, "d", "rnix.pid"),
    lockFile: join(this.dir.path, "d", "rnix.lock"),
  };
  signal: (now: boolean) => void = () => undefined;
  closed = 0;
  ended: Promise<unknown> = Promise.resolve("");
  init: InitService = NO_INIT;

  readonly #runs = new RunStore(this.dir.path);

  constructor() {
    this.kernel = new FakeKernel(this.#runs);
  }

  ports(more: Partial<DaemonPorts> = {}): DaemonPorts {
    return {
      paths: this.paths,
      uid: process.getuid?.() ?? 0,
      clock: this.clock,
      tryLock: (path) => FileLock.tryAcquire(path),
      idle: { afterMs: IDLE_MS, everyMs: CHECK_MS },
      graceMs: GRACE_MS,
      drainMs: DRAIN_MS,
      logFile: "",
      logger: this.logger,
      onSignal: (stop) => {
        this.signal = stop;
        return () => undefined;
      },
      boot: async (host) => ({
        system: fakeSystem(this.dir.path, this.kernel, this.#runs, {
          clock: this.clock,
          logger: this.logger,
          host,
          init: this.init,
        }),
        close: async () => void this.closed++,
      }),
      ...more,
    };
  }

  async start(more: Partial<DaemonPorts> = {}): Promise<void> {
    this.ended = runDaemon(this.ports(more));
    await until(() => existsSync(this.paths.socket));
  }

  async client(): Promise<Client> {
    const stream = await new Promise<Socket>((resolve, reject) => {
      const socket = connect(this.paths.socket);
      socket.once("connect", () => resolve(socket));
      socket.once("error", reject);
    });
    return new Client(overStream(stream));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.signal(true);
    await this.ended;
    this.dir[Symbol.dispose]();
  }
}

const isRunning = (daemon: TestDaemon): boolean => existsSync(daemon.paths.socket);

describe("the idle stop", () => {
  test("comes after a minute without work, and not before", async () => {
    await using daemon = new TestDaemon();
    await daemon.start();
    await daemon.clock.advance(IDLE_MS - 1);
    expect(isRunning(daemon)).toBe(true);
    await daemon.clock.advance(1);
    expect(await daemon.ended).toBe("stopped");
    expect(daemon.closed).toBe(1);
    expect(daemon.clock.pending).toBe(0);
  });

  test("waits for a connected client, and counts again from its disconnect", async () => {
    await using daemon = new TestDaemon();
    await daemon.start();
    const client = await daemon.client();
    await client.request("ping", {});
    await daemon.clock.advance(10 * IDLE_MS);
    expect(isRunning(daemon)).toBe(true);
    const { connections } = await client.request("daemon_status", {});
    expect(connections).toBe(1);
    client.close();
    await untilIdle(daemon);
    await daemon.clock.advance(IDLE_MS - CHECK_MS);
    expect(isRunning(daemon)).toBe(true);
    await daemon.clock.advance(2 * CHECK_MS);
    expect(await daemon.ended).toBe("stopped");
  });

  test("counts again from a client that connected and disconnected between two looks", async () => {
    await using daemon = new TestDaemon();
    await daemon.start();
    for (let passed = 0; passed <= 2 * IDLE_MS; passed += CHECK_MS) {
      const client = await daemon.client();
      await client.request("ping", {});
      client.close();
      await untilIdle(daemon);
      await daemon.clock.advance(CHECK_MS);
      expect(isRunning(daemon)).toBe(true);
    }
    await daemon.clock.advance(IDLE_MS);
    expect(await daemon.ended).toBe("stopped");
  });

  test("waits for a detached process", async () => {
    await using daemon = new TestDaemon();
    await daemon.start();
    const client = await daemon.client();
    const { answer } = await client.open("spawn", { ...RUN, detach: true });
    client.close();
    await daemon.clock.advance(10 * IDLE_MS);
    expect(isRunning(daemon)).toBe(true);
    await daemon.kernel.finish(answer.pid, { code: 0, reason: "completed" });
    await daemon.clock.advance(IDLE_MS + CHECK_MS);
    expect(await daemon.ended).toBe("stopped");
  });

  test("never comes when it is set to unlimited", async () => {
    await using daemon = new TestDaemon();
    await daemon.start({ idle: { afterMs: null, everyMs: CHECK_MS } });
    await daemon.clock.advance(100 * IDLE_MS);
    expect(isRunning(daemon)).toBe(true);
  });
});

describe("a shutdown", () => {
  test("under load suspends every run, sends each client its end, and leaves nothing", async () => {
    await using daemon = new TestDaemon();
    await daemon.start();
    const clients = await Promise.all(Array.from({ length: 30 }, () => daemon.client()));
    const runs = await Promise.all(clients.map((client) => client.open("spawn", RUN)));
    const reasons = runs.map(async (run) => {
      let deltas = 0;
      for await (const event of run) {
        if (event.type === "text_delta") deltas++;
        if (event.type === "complete")
          return `${event.payload.exit_code} ${event.payload.exit_reason} ${deltas > 0}`;
      }
      return "cut";
    });
    for (const { pid } of daemon.kernel.processes.listProcs()) {
      for (let i = 0; i < 50; i++)
        daemon.kernel.emit(pid, { event: "text_delta", step: 1, text: "x".repeat(100) });
    }
    const stopper = await daemon.client();
    expect(await stopper.request("shutdown", {})).toEqual({ pid: process.pid });
    expect(await Promise.all(reasons)).toEqual(Array.from({ length: 30 }, () => "75 suspended true"));
    expect(await daemon.ended).toBe("stopped");
    expect([daemon.paths.socket, daemon.paths.pidFile, daemon.paths.lockFile].filter(existsSync)).toEqual([]);
    expect(daemon.kernel.shutdowns).toMatchObject([{ now: false }]);
    expect(daemon.clock.pending).toBe(0);
  });

  test("drains running calls when the client requests it, answers how many, and takes at most the drain time longer", async () => {
    await using daemon = new TestDaemon();
    await daemon.start();
    const client = await daemon.client();
    const { answer } = await client.open("spawn", { ...RUN, detach: true });
    daemon.kernel.stuck.add(answer.pid);
    daemon.kernel.lifecycle.callsUnderWay = 2;
    const stopping = await (await daemon.client()).request("shutdown", { restart: true });
    expect(stopping).toEqual({ pid: process.pid, draining: { calls: 2, ms: DRAIN_MS } });
    await daemon.clock.advance(DRAIN_MS + GRACE_MS);
    expect(daemon.kernel.shutdowns).toEqual([{ now: false, cause: "restart", drainMs: DRAIN_MS }]);
    await daemon.clock.advance(5_000);
    expect(await daemon.ended).toBe("stopped");
    expect(daemon.kernel.shutdowns[1]).toMatchObject({ now: true });
  });

  test("by a signal waits for no call", async () => {
    await using daemon = new TestDaemon();
    await daemon.start();
    daemon.kernel.lifecycle.callsUnderWay = 2;
    daemon.signal(false);
    expect(await daemon.ended).toBe("stopped");
    expect(daemon.kernel.shutdowns).toEqual([{ now: false, cause: "stop", drainMs: 0 }]);
  });

  test("with `now` kills", async () => {
    await using daemon = new TestDaemon();
    await daemon.start();
    const run = await (await daemon.client()).open("spawn", RUN);
    await (await daemon.client()).request("shutdown", { now: true });
    const reasons: string[] = [];
    for await (const event of run) if (event.type === "complete") reasons.push(event.payload.exit_reason);
    expect(reasons).toEqual(["killed"]);
    expect(await daemon.ended).toBe("stopped");
  });

  test("kills programs that do not end within the grace period", async () => {
    await using daemon = new TestDaemon();
    await daemon.start();
    const client = await daemon.client();
    const { answer } = await client.open("spawn", { ...RUN, detach: true });
    daemon.kernel.stuck.add(answer.pid);
    daemon.signal(false);
    await daemon.clock.advance(GRACE_MS + 5_000);
    expect(await daemon.ended).toBe("stopped");
    expect(daemon.kernel.shutdowns).toMatchObject([{ now: false }, { now: true }]);
  });

  test("is shortened by a second signal", async () => {
    await using daemon = new TestDaemon();
    await daemon.start();
    const { answer } = await (await daemon.client()).open("spawn", { ...RUN, detach: true });
    daemon.kernel.stuck.add(answer.pid);
    daemon.signal(false);
    daemon.signal(true);
    expect(await daemon.ended).toBe("stopped");
    expect(daemon.kernel.shutdowns).toMatchObject([{ now: false }, { now: true }]);
  });

  test("serves until the last process has ended", async () => {
    await using daemon = new TestDaemon();
    await daemon.start();
    const client = await daemon.client();
    const { answer } = await (await daemon.client()).open("spawn", { ...RUN, detach: true });
    daemon.kernel.stuck.add(answer.pid);
    daemon.signal(false);
    expect((await client.request("list_procs", {})).processes).toHaveLength(1);
    await client.request("shutdown", { now: true });
    expect(await daemon.ended).toBe("stopped");
  });
});

describe("the units of init.yaml", () => {
  /** An init that the test decides upon. */
  function undecided(daemon: TestDaemon): PromiseWithResolvers<void> {
    const up = Promise.withResolvers<void>();
    daemon.init = { ...NO_INIT, start: () => up.promise, started: () => up.promise, starting: true };
    return up;
  }

  test("start after the socket is open, and a client can wait for them", async () => {
    await using daemon = new TestDaemon();
    const up = undecided(daemon);
    await daemon.start();
    const client = await daemon.client();
    expect(await client.request("ping", {})).toMatchObject({ starting: true });
    const answers: string[] = [];
    const started = client.request("ping", { started: true }).then(() => answers.push("up"));
    const other = await daemon.client();
    await other.request("daemon_status", {});
    other.close();
    expect(answers).toEqual([]);
    up.resolve();
    await started;
    client.close();
  });

  test("end the daemon when one does not start, and every waiting client gets the reason", async () => {
    await using daemon = new TestDaemon();
    const up = undecided(daemon);
    await daemon.start();
    const why = new SyscallError("UNAVAILABLE", "init.yaml: the required command db did not come up");
    const clients = await Promise.all(Array.from({ length: 20 }, () => daemon.client()));
    const refusals = clients.map((client) => refusal(client.request("ping", { started: true })));
    // All of them have been heard.
    await (await daemon.client()).request("daemon_status", {});
    up.reject(why);
    for (const error of await Promise.all(refusals)) {
      expect([error.code, error.message]).toEqual(["UNAVAILABLE", why.message]);
    }
    expect(await daemon.ended).toEqual({ failed: why });
    expect([daemon.closed, isRunning(daemon), daemon.clock.pending]).toEqual([1, false, 0]);
  });

  test("prevent the idle stop while they start, but not a shutdown", async () => {
    await using daemon = new TestDaemon();
    const up = undecided(daemon);
    await daemon.start();
    await daemon.clock.advance(10 * IDLE_MS);
    expect(isRunning(daemon)).toBe(true);
    daemon.signal(false);
    up.reject(new SyscallError("CANCELLED", "called off"));
    expect(await daemon.ended).toBe("stopped");
  });
});

describe("a daemon whose socket is deleted", () => {
  const looked = async (daemon: TestDaemon, logged: RegExp): Promise<void> =>
    until(async () => {
      await daemon.clock.advance(1_000);
      return daemon.logged.some((line) => logged.test(line));
    });

  test.each(["its socket", "its whole folder"])("recreates it: %s", async (what) => {
    await using daemon = new TestDaemon();
    await daemon.start();
    const early = await daemon.client();
    const run = await early.open("spawn", RUN);
    rmSync(what === "its socket" ? daemon.paths.socket : dirname(daemon.paths.socket), { recursive: true });
    await looked(daemon, /was removed: listening there again/);
    const late = await daemon.client();
    expect((await late.request("list_procs", {})).processes).toHaveLength(1);
    expect(readFileSync(daemon.paths.pidFile, "utf8")).toBe(`${process.pid}\n`);
    expect(FileLock.tryAcquire(daemon.paths.lockFile)).toBeNull();
    await daemon.kernel.finish(run.answer.pid, { code: 0, reason: "completed" });
    for (const client of [early, late]) client.close();
    daemon.signal(false);
    expect(await daemon.ended).toBe("stopped");
    expect(readdirSync(dirname(daemon.paths.socket))).toEqual([]);
    expect(daemon.clock.pending).toBe(0);
  });

  test("is not mistaken for another daemon that listens there", async () => {
    await using daemon = new TestDaemon();
    await daemon.start();
    const early = await daemon.client();
    await early.request("ping", {});
    rmSync(daemon.paths.socket);
    const other = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => other.listen(daemon.paths.socket, resolve));
    await looked(daemon, /listening there again/);
    const client = await daemon.client();
    expect((await client.request("list_procs", {})).processes).toEqual([]);
    for (const one of [early, client]) one.close();
    other.close();
  });

  test("suspends all runs when another daemon has replaced it, and leaves the files of that one", async () => {
    await using daemon = new TestDaemon();
    await daemon.start();
    const client = await daemon.client();
    const run = await client.open("spawn", RUN);
    const { socket, lockFile, pidFile } = daemon.paths;
    rmSync(dirname(socket), { recursive: true });
    mkdirSync(dirname(socket), { mode: 0o700 });
    const lock = FileLock.tryAcquire(lockFile);
    const files = [socket, pidFile];
    for (const file of files) writeFileSync(file, "another's");
    await looked(daemon, /another daemon has replaced it/);
    let end: unknown;
    for await (const event of run) if (event.type === "complete") end = event.payload.exit_reason;
    expect(end).toBe("suspended");
    expect(await daemon.ended).toBe("stopped");
    expect(files.map((file) => readFileSync(file, "utf8"))).toEqual(["another's", "another's"]);
    expect(FileLock.tryAcquire(lockFile)).toBeNull();
    lock?.release({ remove: true });
    client.close();
  });
});

describe("one instance", () => {
  test("exits when it finds another that answers", async () => {
    await using daemon = new TestDaemon();
    await daemon.start();
    expect(readFileSync(daemon.paths.pidFile, "utf8")).toBe(`${process.pid}\n`);
    expect(await runDaemon(daemon.ports())).toBe("already running");
    expect(isRunning(daemon)).toBe(true);
    expect(existsSync(daemon.paths.pidFile)).toBe(true);
  });

  test("waits for a daemon that is stopping, and replaces it", async () => {
    await using daemon = new TestDaemon();
    const predecessor = FileLock.tryAcquire(daemon.paths.lockFile);
    daemon.ended = runDaemon(daemon.ports());
    await daemon.clock.advance(1000);
    expect(isRunning(daemon)).toBe(false);
    predecessor?.release();
    await until(async () => {
      await daemon.clock.advance(20);
      return isRunning(daemon);
    });
  });

  test("fails after three seconds if the other neither answers nor stops", async () => {
    await using daemon = new TestDaemon();
    const other = FileLock.tryAcquire(daemon.paths.lockFile);
    let ended: unknown;
    const waiting = runDaemon(daemon.ports()).then((end) => {
      ended = end;
    });
    await until(async () => {
      await daemon.clock.advance(20);
      return ended !== undefined;
    });
    await waiting;
    expect(ended).toBe("blocked");
    expect(daemon.clock.monotonic()).toBeGreaterThanOrEqual(3000);
    other?.release();
  });

  test("releases everything when its boot fails", async () => {
    await using daemon = new TestDaemon();
    const boot = async () => {
      throw new SyscallError("INVALID", "config.yaml:1:1: no such setting");
    };
    expect((await refusal(runDaemon(daemon.ports({ boot })))).code).toBe("INVALID");
    expect([daemon.paths.socket, daemon.paths.pidFile, daemon.paths.lockFile].filter(existsSync)).toEqual([]);
    expect(daemon.clock.pending).toBe(0);
  });
});

/** Waits until the server has seen its clients disconnect: only the daemon's own timers are left. */
async function untilIdle(daemon: TestDaemon): Promise<void> {
  const probe = await daemon.client();
  await until(async () => (await probe.request("daemon_status", {})).connections === 1);
  probe.close();
  await new Promise((resolve) => setImmediate(resolve));
}
