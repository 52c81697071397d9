import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { type DaemonOptions, dialDaemon, ensureDaemon } from "../../src/client/daemon.ts";
import { PROTOCOL } from "../../src/protocol/frame.ts";
import { SUPERSEDED } from "../../src/server/daemon/superseded-signal.ts";
import { FileLock } from "../../src/store/files/file-lock.ts";
import { commit, version } from "../../src/version.ts";
import { Home } from "../server/support/home.ts";
import { refusal, wireCode } from "../server/support/refusal.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { isAlive } from "../support/is-alive.ts";
import { until } from "../support/until.ts";

const PROGRAM = join(import.meta.dir, "../server/support/daemon-program.ts");
const COMMAND = [process.execPath, PROGRAM];

function options(home: Home, more: Partial<DaemonOptions> = {}): DaemonOptions {
  return { env: home.env, version, build: commit, command: COMMAND, ...more };
}

const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8);

describe("the daemon", () => {
  test("is started by the first client and found by the second", async () => {
    await using home = new Home();
    expect(await dialDaemon(options(home))).toBeNull();
    const first = await ensureDaemon(options(home));
    const pid = home.daemonPid();
    const second = await ensureDaemon(options(home));
    expect((await first.request("ping", {})).pid).toBe(pid);
    expect((await second.request("ping", {})).pid).toBe(pid);
    first.close();
    second.close();
  });

  test("admits no other user: mode 0700 for its folder, 0600 for its files, with any umask", async () => {
    await using home = new Home();
    const umask = process.umask(0);
    try {
      (await ensureDaemon(options(home))).close();
    } finally {
      process.umask(umask);
    }
    const { socket, pidFile, lockFile, dataDir } = home.paths;
    expect(mode(dirname(socket))).toBe("700");
    expect([socket, pidFile, lockFile, join(dataDir, "daemon.log")].map(mode)).toEqual([
      "600",
      "600",
      "600",
      "600",
    ]);
  });

  test("has only the path variables of its starter, its own session and its own folder", async () => {
    await using home = new Home();
    const env = {
      ...home.env,
      ANTHROPIC_API_KEY: "sk-secret-of-the-starter",
      BUN_OPTIONS: "",
      RNIX_PROVIDER: "openai",
      RNIX_CHILD: "x",
      LANG: "C.UTF-8",
    };
    (await ensureDaemon(options(home, { env }))).close();
    const pid = home.daemonPid();
    const names = readFileSync(`/proc/${pid}/environ`, "utf8")
      .split("\0")
      .map((pair) => pair.split("=")[0] ?? "")
      .filter((name) => name !== "");
    // How its runtime compiles, and how many requests it has under way, is set by us.
    const ours = /^BUN_(JSC_thresholdForJIT|JSC_useFTLJIT|CONFIG_MAX_HTTP_REQUESTS)/;
    expect(names.filter((name) => !ours.test(name)).sort()).toEqual([
      "HOME",
      "LANG",
      "PATH",
      "XDG_CONFIG_HOME",
      "XDG_DATA_HOME",
      "XDG_RUNTIME_DIR",
    ]);
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [, , group, session] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    expect([group, session]).toEqual([String(pid), String(pid)]);
    expect(readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("rnix\0")).toBe(true);
  });

  test("runs once when ten clients start it at the same time", async () => {
    await using home = new Home();
    const clients = await Promise.all(Array.from({ length: 10 }, () => ensureDaemon(options(home))));
    const pids = await Promise.all(clients.map(async (client) => (await client.request("ping", {})).pid));
    expect(new Set(pids)).toEqual(new Set([home.daemonPid()]));
    for (const client of clients) client.close();
    // Every second daemon has exited.
    await until(() => home.running().length === 1);
  });

  test("runs once when two are started at the same time: the other exits with 0", async () => {
    await using home = new Home();
    const start = () => Bun.spawn(COMMAND, { env: home.env, stdio: ["ignore", "ignore", "ignore"] });
    const [a, b] = [start(), start()];
    const loser = await Promise.race([a.exited.then(() => a), b.exited.then(() => b)]);
    expect(loser.exitCode).toBe(0);
    const winner = loser === a ? b : a;
    await until(async () => {
      const client = await dialDaemon(options(home));
      client?.close();
      return client !== null;
    });
    expect(home.daemonPid()).toBe(winner.pid);
    winner.kill("SIGTERM");
    expect(await winner.exited).toBe(0);
  });

  test("that starts late, after its starter found another, does not start when the other has stopped", async () => {
    await using home = new Home();
    const [came, go] = [join(home.dir, "came"), join(home.dir, "go")];
    const slow = ["sh", "-c", `echo $$ > ${came}; until [ -e ${go} ]; do sleep 0.01; done; exec "$@"`, "sh"];
    const second = ensureDaemon(options(home, { command: [...slow, ...COMMAND] }));
    await until(() => existsSync(came) && readFileSync(came, "utf8").endsWith("\n"));
    const late = Number(readFileSync(came, "utf8"));
    const first = await ensureDaemon(options(home));
    const { pid } = await first.request("ping", {});
    expect((await (await second).request("ping", {})).pid).toBe(pid);
    await first.request("shutdown", {});
    await until(() => !isAlive(pid));
    writeFileSync(go, "");
    await until(() => !isAlive(late));
    expect(await dialDaemon(options(home))).toBeNull();
  });

  test("that holds the lock ignores the signal of a client that no longer needs it; one that waits for the lock exits", async () => {
    await using home = new Home();
    const client = await ensureDaemon(options(home));
    const waiting = Bun.spawn(COMMAND, { env: home.env, stdio: ["ignore", "ignore", "ignore"] });
    waiting.kill(SUPERSEDED);
    await waiting.exited;
    expect(waiting.signalCode).toBe(SUPERSEDED);
    process.kill(home.daemonPid(), SUPERSEDED);
    expect((await client.request("ping", {})).pid).toBe(home.daemonPid());
    client.close();
  });

  test("is started over the socket of a killed daemon", async () => {
    await using home = new Home();
    (await ensureDaemon(options(home))).close();
    const first = home.daemonPid();
    process.kill(first, "SIGKILL");
    await until(() => !isAlive(first));
    expect(existsSync(home.paths.socket)).toBe(true);
    const client = await ensureDaemon(options(home));
    expect((await client.request("ping", {})).pid).not.toBe(first);
    expect(home.daemonPid()).not.toBe(first);
    client.close();
  });

  test("removes its socket, PID file and locks when it is stopped", async () => {
    await using home = new Home();
    const client = await ensureDaemon(options(home));
    const pid = home.daemonPid();
    expect(await client.request("shutdown", {})).toEqual({ pid });
    await until(() => !isAlive(pid));
    const { socket, pidFile, lockFile, dataDir } = home.paths;
    expect([socket, pidFile, lockFile].filter(existsSync)).toEqual([]);
    expect([...new Bun.Glob("kernels/*").scanSync(dataDir)]).toEqual([]);
    expect(await dialDaemon(options(home))).toBeNull();
  });

  test("ends on SIGTERM as on a shutdown", async () => {
    await using home = new Home();
    (await ensureDaemon(options(home))).close();
    const pid = home.daemonPid();
    process.kill(pid, "SIGTERM");
    await until(() => !isAlive(pid));
    expect(existsSync(home.paths.socket)).toBe(false);
    expect(home.log()).toContain("stopped");
  });

  test("stops by itself after the idle time of config.yaml", async () => {
    await using home = new Home();
    writeFileSync(
      join(home.paths.configDir, "config.yaml"),
      "daemon_idle_stop: 200ms\ndaemon_idle_check: 20ms\nsocket_wait: 20s\n",
    );
    const client = await ensureDaemon(options(home));
    const pid = home.daemonPid();
    expect((await client.request("daemon_status", {})).connections).toBe(1);
    client.close();
    await until(() => !isAlive(pid));
    expect(home.log()).toContain("nothing to do: stopping");
    expect(existsSync(home.paths.socket)).toBe(false);
  });
});

describe("a client gets an error", () => {
  test("VERSION for a daemon of another version, with how to restart it", async () => {
    await using home = new Home();
    (await ensureDaemon(options(home))).close();
    for (const other of [{ version: "99.0.0" }, { build: "another" }]) {
      const error = await refusal(ensureDaemon(options(home, other)));
      expect([error.code, wireCode(error)]).toEqual(["UNAVAILABLE", "VERSION"]);
      expect(error.message).toContain("rnix daemon stop");
    }
    const client = await ensureDaemon(options(home, { version: "99.0.0", anyVersion: true }));
    const pid = home.daemonPid();
    await client.request("shutdown", {});
    await until(() => !isAlive(pid));
  });

  test("VERSION for a daemon of the same version with another protocol, and sends it no further request", async () => {
    await using home = new Home();
    mkdirSync(dirname(home.paths.socket), { mode: 0o700 });
    const asked: string[] = [];
    const identity = { version, build: commit, protocol: PROTOCOL + 1, pid: 1, started_at_ms: 1 };
    const later = createServer((stream) =>
      stream.on("data", (line) => {
        const { method, id } = JSON.parse(String(line));
        asked.push(method);
        stream.write(`${JSON.stringify({ ok: true, id, payload: identity })}\n`);
      }),
    ).listen(home.paths.socket);
    try {
      const error = await refusal(ensureDaemon(options(home)));
      expect([error.code, wireCode(error)]).toEqual(["UNAVAILABLE", "VERSION"]);
      expect(asked).toEqual(["ping"]);
    } finally {
      later.close();
    }
  });

  test("with the reason when the daemon did not start, and the end of its log", async () => {
    await using home = new Home();
    mkdirSync(home.paths.dataDir, { recursive: true });
    writeFileSync(join(home.paths.dataDir, "kernels"), "a file where a folder is expected");
    const error = await refusal(ensureDaemon(options(home)));
    expect([error.code, error.message.includes("kernels")]).toEqual(["UNAVAILABLE", true]);
  });

  test("with the message of a daemon that did not start, not only its stack", async () => {
    await using home = new Home();
    mkdirSync(home.paths.socket, { recursive: true, mode: 0o700 });
    const error = await refusal(ensureDaemon(options(home)));
    expect(error.code).toBe("UNAVAILABLE");
    expect(error.message).toContain(home.paths.socket);
    expect(error.message).not.toMatch(/^ +at /m);
    rmSync(home.paths.socket, { recursive: true });
  });

  test("with the reason when a starting daemon died after the connection", async () => {
    await using home = new Home();
    const command = [process.execPath, join(import.meta.dir, "../server/support/dying-daemon.ts")];
    const error = await refusal(ensureDaemon(options(home, { command })));
    expect(error.code).toBe("UNAVAILABLE");
    expect(error.message).toMatch(/^The daemon ended with 69[\s\S]*did not come up$/);
    rmSync(home.paths.socket);
  });

  test("with line and column of a mistake in config.yaml", async () => {
    await using home = new Home();
    writeFileSync(join(home.paths.configDir, "config.yaml"), "no_such_setting: 1\n");
    const error = await refusal(ensureDaemon(options(home)));
    expect([error.code, error.message.includes("config.yaml:1:1")]).toEqual(["INVALID", true]);
  });

  test("when the daemon's log can't be written", async () => {
    await using home = new Home();
    writeFileSync(join(home.dir, "data"), "a file where a folder is expected");
    const error = await refusal(ensureDaemon(options(home)));
    expect([error.code, error.message.includes("XDG_DATA_HOME")]).toEqual(["UNAVAILABLE", true]);
  });

  test("when the daemon's program can't be started", async () => {
    await using home = new Home();
    const command = [join(home.dir, "no-such-program")];
    expect((await refusal(ensureDaemon(options(home, { command })))).code).toBe("UNAVAILABLE");
  });

  test("when a daemon that holds the lock does not answer", async () => {
    await using home = new Home();
    writeFileSync(join(home.paths.configDir, "config.yaml"), "socket_wait: 300ms\nsocket_retry: 20ms\n");
    using _lock = held(home.paths.lockFile);
    expect((await refusal(ensureDaemon(options(home)))).code).toBe("UNAVAILABLE");
  });

  test("with the answer of a daemon without free connections, not that none runs", async () => {
    await using home = new Home();
    mkdirSync(dirname(home.paths.socket), { mode: 0o700 });
    const error = { code: "UNAVAILABLE", message: "The server has 1024 connections already." };
    const full = createServer((socket) => {
      socket.once("data", () => socket.end(`${JSON.stringify({ ok: false, error })}\n`));
    }).listen(home.paths.socket);
    try {
      for (const ask of [dialDaemon, ensureDaemon]) {
        expect(await refusal(ask(options(home)))).toMatchObject({ ...error, code: "UNAVAILABLE" });
      }
    } finally {
      full.close();
    }
  });

  test("when a program that listens on the socket does not answer", async () => {
    await using home = new Home();
    mkdirSync(dirname(home.paths.socket), { mode: 0o700 });
    const mute = createServer(() => undefined).listen(home.paths.socket);
    const clock = new FakeClock();
    try {
      let error: unknown;
      void ensureDaemon(options(home, { clock })).catch((thrown: unknown) => {
        error = thrown;
      });
      await until(async () => {
        await clock.advance(100);
        return error !== undefined;
      });
      expect(error).toMatchObject({ code: "UNAVAILABLE" });
      expect(clock.pending).toBe(0);
    } finally {
      mute.close();
    }
  });

  test("when the socket's folder is not safe, and sends nothing", async () => {
    await using home = new Home();
    mkdirSync(dirname(home.paths.socket));
    chmodSync(dirname(home.paths.socket), 0o777);
    expect((await refusal(ensureDaemon(options(home)))).code).toBe("PERMISSION");
    expect((await refusal(dialDaemon(options(home)))).code).toBe("PERMISSION");
  });

  test("inside a run, where no daemon is started", async () => {
    await using home = new Home();
    const env = { ...home.env, RNIX_UNIT: "00000000-0000-7000-8000-000000000001" };
    expect((await refusal(ensureDaemon(options(home, { env })))).code).toBe("UNAVAILABLE");
    expect(existsSync(home.paths.socket)).toBe(false);
  });
});

function held(path: string): Disposable {
  const lock = FileLock.tryAcquire(path);
  if (!lock) throw new Error("the lock is held already");
  return { [Symbol.dispose]: () => lock.release() };
}
