import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { SIGKILL } from "../../../src/lib/signals.ts";
import { isAlive } from "../../support/is-alive.ts";
import { Supervised } from "../../support/supervised.ts";
import { until } from "../../support/until.ts";

const sh = (script: string) => ({ argv: ["/bin/sh", "-c", script] });

/** A program that says its PID in a file and then waits. */
function service(s: Supervised, name: string): { argv: string[]; pid(): number; runs(): boolean } {
  const file = join(s.h.project, name);
  return {
    ...sh(`echo $$ > ${file}; exec sleep 600`),
    pid: () => Number(readFileSync(file, "utf8")),
    runs: () => existsSync(file) && readFileSync(file, "utf8").endsWith("\n"),
  };
}

describe("a supervised program", () => {
  test("is a process in the run's folder and environment, and ends with its supervisor", async () => {
    await using s = new Supervised();
    const { argv, pid: unix, runs } = service(s, "pid");
    const top = await s.spawn(s.spec("one_for_one", [s.command("db", { argv })]));
    await until(runs);
    expect(s.h.kernel.processes.info(s.pid(top, "db"))).toMatchObject({
      kind: "command",
      ppid: top,
      intent: argv.join(" "),
      timeout_ms: null,
    });
    expect(isAlive(unix())).toBe(true);
    await s.h.kernel.supervisors.stopSupervisor(top);
    expect(isAlive(unix())).toBe(false);
  });

  test("that ends with 0 is done, and one that fails is restarted", async () => {
    await using s = new Supervised();
    const top = await s.spawn(
      s.spec("one_for_one", [
        s.command("once", sh("echo ready"), { restart: "transient" }),
        s.command("bad", sh("echo broken pipe >&2; exit 3"), { restart: "transient" }),
      ]),
    );
    await until(() => s.child(top, "once").state === "ended" && s.child(top, "bad").restartInMs !== null);
    expect(s.child(top, "once").exit).toEqual({ code: 0, reason: "completed" });
    const { exit } = s.child(top, "bad");
    expect(exit).toMatchObject({ code: 1, reason: "failed", error: { code: "DRIVER" } });
    expect(exit?.error?.message).toContain("ended with 3. Its last output: broken pipe");
    const records = await s.h.runs.list();
    expect(records.find(({ intent }) => intent.includes("echo ready"))).toMatchObject({ result: "ready\n" });
  });

  test("that can't be started counts as a failed start", async () => {
    await using s = new Supervised();
    const spawned = s.spawn(s.spec("one_for_one", [s.command("x", { argv: ["/no/such/program"] })]));
    expect(await spawned.catch((thrown: Error) => thrown.message)).toContain("its child x did not start");
    expect(s.h.kernel.processes.count).toBe(0);
  });

  test("that ignores TERM is killed after its own shutdown time, not the kernel's grace", async () => {
    await using s = new Supervised({ graceMs: 60_000 });
    const file = join(s.h.project, "pid");
    const deaf = sh(`trap "" TERM; echo $$ > ${file}; while :; do sleep 0.05; done`);
    const top = await s.spawn(s.spec("one_for_one", [s.command("deaf", deaf, { shutdown: 100 })]));
    await until(() => existsSync(file) && readFileSync(file, "utf8").endsWith("\n"));
    const began = performance.now();
    await s.h.kernel.supervisors.stopSupervisor(top);
    expect(performance.now() - began).toBeLessThan(20_000);
    expect(isAlive(Number(readFileSync(file, "utf8")))).toBe(false);
  });

  test("is killed with its supervisor, at once", async () => {
    await using s = new Supervised();
    const { argv, pid: unix, runs } = service(s, "pid");
    const top = await s.spawn(s.spec("one_for_one", [s.command("db", { argv })]));
    await until(runs);
    const done = s.h.kernel.processes.wait(top);
    s.h.kernel.processes.kill(top, SIGKILL);
    await done;
    expect(isAlive(unix())).toBe(false);
  });

  test("records the end of its output", async () => {
    await using s = new Supervised();
    const loud = sh("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done");
    const top = await s.spawn(s.spec("one_for_one", [s.command("loud", loud, { restart: "temporary" })]));
    await s.h.kernel.processes.wait(top);
    const record = (await s.h.runs.list()).find(({ kind }) => kind === "command");
    expect(record?.result?.length).toBe(16_384);
    expect(record?.result?.endsWith("line 19999\n")).toBe(true);
  });
});
