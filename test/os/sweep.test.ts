import { describe, expect, test } from "bun:test";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { sweepChildren } from "../../src/os/sweep.ts";
import { isAlive } from "../support/is-alive.ts";
import { until } from "../support/until.ts";
import { RemoteKernel } from "./fixture/remote-kernel.ts";
import { Bench, errorOf } from "./support.ts";

const notLive = (): boolean => false;

describe("after a kernel was killed by SIGKILL", () => {
  for (const [what, script] of [
    ["its programs", "exec NAP 1000"],
    ["those deaf to TERM", "trap '' TERM; NAP 1000; NAP 1000"],
    ["what they started", "NAP 1000 & NAP 1000 & wait"],
    ["what left their session", "setsid NAP 1000 >/dev/null 2>&1 & exec NAP 1000"],
    ["what they left running alone", "(setsid NAP 1000 &) >/dev/null 2>&1; exec NAP 1000"],
    ["what cleared its environment too", "(env -i setsid NAP 1000 &) >/dev/null 2>&1; exec NAP 1000"],
  ] as const) {
    test(`the next one ends ${what}`, async () => {
      await using bench = new Bench();
      await using kernel = new RemoteKernel(bench);
      const pid = await kernel.start(bench.sh(script.replaceAll("NAP", bench.nap)), "uuid-9", "call-9");
      const count = script.split("NAP").length - (script.startsWith("trap") ? 2 : 1);
      await until(() => bench.naps().length === count);
      await kernel.kill();
      const ended = await sweepChildren(bench.ledgerDir, notLive, { graceMs: 100 });
      expect(ended).toMatchObject([
        {
          kernelId: bench.kernelId,
          uuid: "uuid-9",
          call: "call-9",
          ended: true,
          argv: ["sh", "-c", expect.any(String)],
        },
      ]);
      expect(ended[0]?.pids).toContain(pid);
      expect(bench.naps()).toEqual([]);
      expect(readdirSync(bench.ledgerDir)).toEqual([]);
    });
  }

  test("the next one ends a tree that forks faster than processes are listed", async () => {
    await using bench = new Bench();
    await using kernel = new RemoteKernel(bench);
    const forks = 'trap "" TERM HUP; f() { n=$((n + 1)); test $n -gt 100000 || f & }; f';
    const script = `(env -i PATH="$PATH" setsid sh -c '${forks}; # ${bench.name}' &) >/dev/null 2>&1; exec ${bench.nap} 1000`;
    await kernel.start(bench.sh(script));
    await until(() => bench.naps().length === 1);
    await kernel.kill();
    expect(await sweepChildren(bench.ledgerDir, notLive, { graceMs: 100 })).toMatchObject([{ ended: true }]);
    for (let look = 0; look < 100; look++)
      expect(Bun.spawnSync(["pgrep", "-f", `# ${bench.name}`]).stdout.toString()).toBe("");
  });

  test("a program that was only announced is found by its cookie", async () => {
    await using bench = new Bench();
    await using kernel = new RemoteKernel(bench);
    await kernel.start(bench.sh(`exec ${bench.nap} 1000`));
    await until(() => bench.naps().length === 1);
    await kernel.kill();
    const lines = readFileSync(ledger(bench), "utf8").split("\n");
    writeFileSync(ledger(bench), `${lines.filter((line) => !line.includes('"start"')).join("\n")}{"t":"star`);
    expect(await sweepChildren(bench.ledgerDir, notLive)).toHaveLength(1);
    expect(bench.naps()).toEqual([]);
  });

  test("a live kernel's programs are untouched", async () => {
    await using bench = new Bench();
    await using kernel = new RemoteKernel(bench);
    await kernel.start(bench.sh(`exec ${bench.nap} 1000`));
    await until(() => bench.naps().length === 1);
    expect(await sweepChildren(bench.ledgerDir, (id) => id === bench.kernelId)).toEqual([]);
    expect(bench.naps()).toHaveLength(1);
    expect(existsSync(ledger(bench))).toBe(true);
  });
});

describe("a process that is not the ledger's", () => {
  for (const [what, change] of [
    ["because its PID was given again", { start: "1" }],
    ["because the machine was restarted", { boot: "another-boot" }],
    ["though the ledger is from before its start", { start: "99999999999" }],
  ] as const) {
    test(`is untouched, ${what}`, async () => {
      await using bench = new Bench();
      const other = Bun.spawn([bench.nap, "1000"], { detached: true, env: {} });
      await until(() => bench.naps().length === 1);
      writeLedger(bench, { ...identityOf(other.pid), ...change });
      expect(await sweepChildren(bench.ledgerDir, notLive)).toEqual([]);
      expect(isAlive(other.pid)).toBe(true);
      expect(readdirSync(bench.ledgerDir)).toEqual([]);
    });
  }

  test("and one that is, by PID, start and boot, is ended", async () => {
    await using bench = new Bench();
    const own = Bun.spawn([bench.nap, "1000"], { detached: true, env: {} });
    await until(() => bench.naps().length === 1);
    writeLedger(bench, identityOf(own.pid));
    expect(await sweepChildren(bench.ledgerDir, notLive)).toMatchObject([{ pids: [own.pid], ended: true }]);
    expect(bench.naps()).toEqual([]);
  });
});

describe("a ledger", () => {
  test("of a newer version is refused, not guessed at", async () => {
    await using bench = new Bench();
    mkdirSync(bench.ledgerDir);
    writeFileSync(ledger(bench), '{"t":"ledger","v":2}\n');
    const error = await errorOf(sweepChildren(bench.ledgerDir, notLive));
    expect(error.code).toBe("INVALID");
    expect(error.message).toContain("newer Rnix");
    expect(existsSync(ledger(bench))).toBe(true);
  });

  test("that can't be read, or was removed by another rnix, does not stop the sweep of the others", async () => {
    await using bench = new Bench();
    const own = Bun.spawn([bench.nap, "1000"], { detached: true, env: {} });
    await until(() => bench.naps().length === 1);
    writeLedger(bench, identityOf(own.pid));
    // Listed, and not there when it is read.
    symlinkSync("nowhere", join(bench.ledgerDir, "00-gone.jsonl"));
    // Reading it does not end for any reader.
    symlinkSync("/dev/zero", join(bench.ledgerDir, "00-endless.jsonl"));
    expect(Bun.spawnSync(["mkfifo", join(bench.ledgerDir, "00-pipe.jsonl")]).success).toBe(true);
    expect(await sweepChildren(bench.ledgerDir, notLive)).toMatchObject([{ pids: [own.pid], ended: true }]);

    const other = Bun.spawn([bench.nap, "1000"], { detached: true, env: {} });
    await until(() => bench.naps().length === 1);
    writeLedger(bench, identityOf(other.pid));
    writeFileSync(join(bench.ledgerDir, "00-newer.jsonl"), '{"t":"ledger","v":2}\n');
    expect((await errorOf(sweepChildren(bench.ledgerDir, notLive))).code).toBe("INVALID");
    expect(isAlive(other.pid)).toBe(false);
  });

  test("with damaged lines ends what the whole ones name", async () => {
    await using bench = new Bench();
    const own = Bun.spawn([bench.nap, "1000"], { detached: true, env: {} });
    await until(() => bench.naps().length === 1);
    writeLedger(bench, identityOf(own.pid));
    appendFileSync(ledger(bench), 'garbage\n{"t":"start","id":"x"}\n{"t":"end"');
    expect(await sweepChildren(bench.ledgerDir, notLive)).toHaveLength(1);
    expect(isAlive(own.pid)).toBe(false);
  });

  test("that is empty is removed, and no folder is no fault", async () => {
    await using bench = new Bench();
    expect(await sweepChildren(bench.ledgerDir, notLive)).toEqual([]);
    mkdirSync(bench.ledgerDir);
    writeFileSync(ledger(bench), "");
    expect(await sweepChildren(bench.ledgerDir, notLive)).toEqual([]);
    expect(readdirSync(bench.ledgerDir)).toEqual([]);
  });
});

interface Identity {
  pid: number;
  start: string;
  boot: string;
}

function ledger(bench: Bench): string {
  return join(bench.ledgerDir, `${bench.kernelId}.jsonl`);
}

function identityOf(pid: number): Identity {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const start = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  return { pid, start, boot: readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim() };
}

function writeLedger(bench: Bench, identity: Identity): void {
  const id = `${bench.kernelId}.1`;
  const intent = {
    t: "intent",
    id,
    uuid: "u",
    mark: "1",
    argv: ["nap"],
    cwd: "/",
    at: new Date().toISOString(),
  };
  const lines = [{ t: "ledger", v: 1 }, intent, { t: "start", id, ...identity }];
  mkdirSync(bench.ledgerDir, { recursive: true });
  writeFileSync(ledger(bench), `${lines.map((line) => JSON.stringify(line)).join("\n")}\n`);
}
