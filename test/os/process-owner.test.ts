import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "../support/until.ts";
import { RemoteKernel } from "./fixture/remote-kernel.ts";
import { Bench, stateOf } from "./support.ts";

/** Runs the script, which writes the PID of what it left to $PID, and gives that. */
async function started(bench: Bench, kernel: RemoteKernel, script: string): Promise<number> {
  const file = join(bench.dir, "pid");
  const whole = `${script.replaceAll("NAP", bench.nap).replaceAll("$PID", file)}\nexec ${bench.nap} 1000`;
  await kernel.start(bench.sh(whole, { life: "process" }), "uuid-7");
  const text = () => (existsSync(file) ? readFileSync(file, "utf8") : "");
  await until(() => text().endsWith("\n"), "the PID of what it left");
  return Number(text());
}

/** The parent of the last one has ended, so that the kernel adopts it. */
const orphaned = async (kernel: RemoteKernel, pid: number): Promise<void> =>
  until(async () => (await kernel.look()).children?.includes(pid) ?? false, "the orphan");

describe.if(process.platform === "linux")("the owner of a process", () => {
  for (const [what, script] of [
    ["the program itself", "echo $$ >$PID"],
    ["what it started", "NAP 1000 & echo $! >$PID"],
    ["with a cleared environment, in a session of its own", "env -i setsid NAP 1000 & echo $! >$PID"],
    ["without its mark", "env -i setsid prlimit --rttime=5000000000 NAP 1000 & echo $! >$PID"],
    [
      "of a kernel below it",
      `'${process.execPath}' --no-install '${import.meta.dir}/fixture/nested.ts' "$PWD" NAP &
       until pgrep -P $! >$PID; do sleep 0.02; done`,
    ],
  ] as const) {
    test(`by descent: ${what}`, async () => {
      await using bench = new Bench();
      await using kernel = new RemoteKernel(bench);
      const pid = await started(bench, kernel, script);
      expect(await kernel.originOf(pid)).toEqual({ uuid: "uuid-7" });
    });
  }

  test("by its mark, when its parents have ended", async () => {
    await using bench = new Bench();
    await using kernel = new RemoteKernel(bench);
    const pid = await started(bench, kernel, "( env -i setsid NAP 1000 & echo $! >$PID )");
    await orphaned(kernel, pid);
    expect(await kernel.originOf(pid)).toEqual({ uuid: "uuid-7" });
  });

  test("is still known not to be a person's without parents and mark", async () => {
    await using bench = new Bench();
    await using kernel = new RemoteKernel(bench);
    const wiped = "( env -i setsid prlimit --rttime=5000000000 NAP 1000 & echo $! >$PID )";
    const pid = await started(bench, kernel, wiped);
    await orphaned(kernel, pid);
    await until(() => !/ (\d{19}) /.test(readFileSync(`/proc/${pid}/limits`, "latin1")), "the wiped mark");
    expect(await kernel.originOf(pid)).toBe("unknown run");
  });

  test("of another kernel, of no kernel, of one that has ended", async () => {
    await using bench = new Bench();
    await using other = new Bench();
    await using kernel = new RemoteKernel(bench);
    await using second = new RemoteKernel(other);
    const pid = await started(bench, kernel, "echo $$ >$PID");
    expect(await second.originOf(pid)).toBe("other kernel");
    for (const person of [process.pid, kernel.pid, 1]) {
      expect(await kernel.originOf(person)).toBe("no run");
    }
    const gone = Bun.spawn(["true"]);
    await gone.exited;
    await until(() => stateOf(gone.pid) === null, "the end of true");
    expect(await kernel.originOf(gone.pid)).toBe("gone");
  });
});
