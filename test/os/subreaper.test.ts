import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isAlive } from "../support/is-alive.ts";
import { until } from "../support/until.ts";
import { RemoteKernel } from "./fixture/remote-kernel.ts";
import { Bench } from "./support.ts";

describe.if(process.platform === "linux")("a kernel that is a subreaper", () => {
  for (const [what, script] of [
    ["a background program", "NAP 1000 &"],
    ["one in its own session that holds the pipe", "setsid NAP 1000 &"],
    [
      "one that cleared its environment and closed all",
      "env -i setsid NAP 1000 >/dev/null 2>&1 </dev/null &",
    ],
    ["a family of such", "env -i setsid sh -c 'NAP 1000 & NAP 1000 & wait' >/dev/null 2>&1 &"],
    ["one that is deaf to TERM", "(trap '' TERM; exec env -i setsid NAP 1000) >/dev/null 2>&1 &"],
  ] as const) {
    test(`ends and reaps ${what}`, async () => {
      await using bench = new Bench();
      await using kernel = new RemoteKernel(bench);
      const before = await kernel.look();
      expect(before.subreaper).toBe(true);
      const started = `until pgrep -x ${bench.name}; do :; done >/dev/null; echo done`;
      const pid = await kernel.start(bench.sh(`${script.replaceAll("NAP", bench.nap)}\n${started}`));
      expect((await kernel.output(pid)).out).toBe("done\n");
      await kernel.endCall("call-1");
      expect(bench.traces()).toEqual([]);
      const after = await kernel.look();
      expect(after.children).toEqual(before.children);
      expect(after.faults).toEqual([]);
    });
  }

  test("tells the hidden orphans of two calls apart", async () => {
    await using bench = new Bench();
    await using kernel = new RemoteKernel(bench);
    const script = `env -i setsid ${bench.nap} 1000 >/dev/null 2>&1 </dev/null & echo $!; read line`;
    const one = await kernel.start(bench.sh(script, { stdin: "pipe" }), "uuid-1", "call-1");
    const two = await kernel.start(bench.sh(script, { stdin: "pipe" }), "uuid-1", "call-2");
    await until(() => bench.naps().length === 2);
    await kernel.endCall("call-1");
    expect(Number((await kernel.output(one)).out) > 0).toBe(true);
    expect(bench.naps()).toHaveLength(1);
    expect(isAlive(two)).toBe(true);
    await kernel.endCall("call-2");
    expect(bench.traces()).toEqual([]);
  });

  test("reaps an orphan that ends while its program runs on", async () => {
    await using bench = new Bench();
    await using kernel = new RemoteKernel(bench);
    const gone = join(bench.dir, "gone");
    const script = `(setsid sh -c "${bench.nap} 0.05; echo >${gone}" &) ; exec ${bench.nap} 1000`;
    const pid = await kernel.start(bench.sh(script, { life: "process" }));
    await until(() => existsSync(gone));
    await until(async () => (await kernel.look()).children?.join() === String(pid));
    expect(isAlive(pid)).toBe(true);
  });

  test("lets a redirection be written to its end when a sibling ends", async () => {
    await using bench = new Bench();
    // What is left is waited for at most this long, and only while it is there.
    await using kernel = new RemoteKernel(bench, { quietMs: 10_000 });
    const file = join(bench.dir, "log");
    const late = `(${bench.nap} 0.02; echo late > ${file}) >/dev/null 2>&1 & exit 0`;
    const pid = await kernel.start(bench.sh(late));
    const beside = await kernel.start(bench.sh("true"), "uuid-2");
    await kernel.exit(pid);
    await kernel.exit(beside);
    await until(() => existsSync(file) && readFileSync(file, "utf8") === "late\n");
  });

  test("leaves the programs of others in the same process alone", async () => {
    await using bench = new Bench();
    await using kernel = new RemoteKernel(bench);
    const other = await kernel.start(bench.sh(`exec ${bench.nap} 1000`, { life: "process" }), "uuid-2");
    const pid = await kernel.start(bench.sh(`env -i setsid ${bench.nap} 1000 >/dev/null 2>&1 & exit 0`));
    await kernel.output(pid);
    await kernel.endCall("call-1");
    await until(() => bench.naps().length === 1);
    expect(bench.naps()).toEqual([other]);
  });

  test("ends at close what hangs below a kernel that was killed below it", async () => {
    await using bench = new Bench();
    await using kernel = new RemoteKernel(bench);
    const inner = `${import.meta.dir}/fixture/nested.ts`;
    const argv = [process.execPath, "--no-install", inner, bench.dir, bench.nap];
    const pid = await kernel.start(bench.sh("", { argv }));
    await until(() => bench.naps().length === 1);
    process.kill(pid, "SIGKILL");
    await kernel.output(pid);
    await kernel.endCall("call-1");
    expect(bench.traces()).toEqual([]);
  });

  test("ends one that starts others faster than they can be counted", async () => {
    await using bench = new Bench();
    await using kernel = new RemoteKernel(bench);
    const storm = `trap "" TERM; while :; do (setsid ${bench.nap} 1000 &); done`;
    const script = `env -i setsid sh -c '${storm}' >/dev/null 2>&1 & until pgrep -x ${bench.name}; do :; done`;
    const pid = await kernel.start(bench.sh(script));
    await kernel.exit(pid);
    await kernel.endCall("call-1");
    expect(bench.traces()).toEqual([]);
    expect((await kernel.look()).faults).toEqual([]);
  });

  test("ends what fifty calls leave at once, each its own", async () => {
    await using bench = new Bench();
    await using kernel = new RemoteKernel(bench);
    const script = `env -i setsid ${bench.nap} 1000 >/dev/null 2>&1 & read line`;
    const calls = Array.from({ length: 50 }, (_, n) => `call-${n}`);
    for (const call of calls) await kernel.start(bench.sh(script, { stdin: "pipe" }), "uuid-1", call);
    await until(() => bench.naps().length === 50);
    for (const call of calls.slice(0, 49)) await kernel.endCall(call);
    expect(bench.naps()).toHaveLength(1);
    await kernel.close();
    expect(bench.traces()).toEqual([]);
  });

  test("has no process left after close", async () => {
    await using bench = new Bench();
    await using kernel = new RemoteKernel(bench);
    const before = await kernel.look();
    for (const life of ["call", "process", { shared: "key", idleMs: 60_000 }] as const) {
      await kernel.start(bench.sh(`setsid ${bench.nap} 1000 & exec ${bench.nap} 1000`, { life }));
    }
    await until(() => bench.naps().length === 6);
    await kernel.close();
    expect(bench.traces()).toEqual([]);
    expect((await kernel.look()).children).toEqual(before.children);
  });

  test("uses bounded memory when a program prints without end", async () => {
    await using bench = new Bench();
    await using kernel = new RemoteKernel(bench);
    const small = await kernel.start(bench.sh("echo warm"));
    await kernel.output(small);
    const before = (await kernel.look()).rss ?? 0;
    for (let n = 0; n < 3; n++) {
      const pid = await kernel.start(bench.sh("head -c 100000000 /dev/zero >&2; echo $?"));
      expect((await kernel.exit(pid)).outputBytes).toBe(100_000_002);
    }
    expect((await kernel.look()).rss ?? 0).toBeLessThan(before + 80_000_000);
  });
});
