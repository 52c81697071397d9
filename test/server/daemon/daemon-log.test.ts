import { expect, test } from "bun:test";
import { mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { logLevel, textLogger } from "../../../src/lib/logger.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { LoopDelay } from "../../../src/server/daemon/daemon.ts";
import { DaemonLog, openDaemonLog } from "../../../src/server/daemon/daemon-log.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { TempDir } from "../support/fixture.ts";

test("the daemon's log has two files of bounded size, which only its user can read", () => {
  using dir = new TempDir();
  const path = join(dir.path, "sub", "daemon.log");
  const log = new DaemonLog(path, new FakeClock(), 1000);
  for (let i = 0; i < 100; i++) log.write(`line ${i}`);
  expect([statSync(path).size <= 1000, statSync(`${path}.1`).size <= 1000]).toEqual([true, true]);
  expect((statSync(path).mode & 0o777).toString(8)).toBe("600");
  expect(readFileSync(path, "utf8").trimEnd().split("\n").at(-1)).toEndWith("line 99");
});

test("the daemon's log counts lines that could not be written", () => {
  using dir = new TempDir();
  const path = join(dir.path, "daemon.log");
  const log = new DaemonLog(path, new FakeClock());
  mkdirSync(path);
  log.write("lost");
  log.write("lost");
  rmSync(path, { recursive: true });
  log.write("kept");
  expect(readFileSync(path, "utf8")).toContain("(2 lines before this one could not be written) kept");
});

test("a pipe instead of the daemon's log does not block, and a removed folder is created again", () => {
  using dir = new TempDir();
  const path = join(dir.path, "sub", "daemon.log");
  const log = new DaemonLog(path, new FakeClock());
  log.write("first");
  rmSync(path);
  expect(Bun.spawnSync(["mkfifo", path]).success).toBe(true);
  expect(() => openDaemonLog(path)).toThrow();
  log.write("lost");
  rmSync(join(dir.path, "sub"), { recursive: true });
  log.write("kept");
  expect(readFileSync(path, "utf8")).toContain("(1 line before this one could not be written) kept");
});

test("RNIX_LOG chooses the lowest level that is logged, and refuses an unknown one", () => {
  expect([logLevel({}, "info"), logLevel({ RNIX_LOG: "debug" }, "info")]).toEqual(["info", "debug"]);
  expect(() => logLevel({ RNIX_LOG: "loud" }, "info")).toThrow(SyscallError);
  const lines: string[] = [];
  const logger = textLogger("info", (line) => void lines.push(line));
  logger.debug("a", "one");
  logger.info("b", "two");
  logger.warn("c", "three");
  expect(lines).toEqual(["info b: two", "warn c: three"]);
});

test("the loop delay is how late timers were in the last minute", async () => {
  const clock = new FakeClock();
  const probe = new LoopDelay(clock);
  expect(probe.read()).toEqual({ p50: 0, max: 0 });
  await clock.advance(120_000);
  expect(probe.read()).toEqual({ p50: 0, max: 0 });
  probe.close();
  expect(clock.pending).toBe(0);
});
