import { describe, expect, test } from "bun:test";
import { until } from "../../../support/until.ts";
import { processesOf } from "../../support/leftovers.ts";
import { Machine } from "../../support/machine.ts";
import { bash, says } from "../../support/scenes.ts";
import { receiptOf, verdict } from "../../support/verdict.ts";

/** Others on this machine may run this test, too: the sleepers of this one have a time of their own. */
const [FIRST, SECOND] = [`711.${process.pid}`, `712.${process.pid}`];
/**
 * Without environment, session, parents, pipes and marks of its run. `unlimited` needs a capability; lower does not.
 * It loses its mark before its parent: an orphan that Rnix has seen with its mark stays attributed to its run.
 */
const UNKNOWN = `env -i prlimit --rttime=5000000000 setsid sh -c 'sleep ${FIRST} &' </dev/null >/dev/null 2>&1`;
/** It is an orphan first. */
const UNMARKED_LATER = `( env -i setsid sh -c 'until test -e unmark; do sleep 0.02; done; exec prlimit --rttime=5000000000 sleep ${FIRST}' </dev/null >/dev/null 2>&1 & )`;
/** Bash's own way: the soft mark is taken off, or can't be. */
const WITHOUT_SOFT_MARK = `bash -c "ulimit -S -R unlimited; ulimit -S -R 5000000000; ( ( env -i setsid sleep ${SECOND} </dev/null >/dev/null 2>&1 & ) & )"`;
/** Each lives for less than a millisecond and is another process then, deaf to TERM. */
const FORKS = 'trap "" TERM HUP; f() { n=$((n + 1)); test $n -gt 100000 || f & }; f';
const FORKING = {
  "a shell": FORKS,
  "a shell without marks": `exec prlimit --rttime=5000000000 sh -c '${FORKS}'`,
  "perl, in another session each time": `exec perl -MPOSIX -e '$SIG{TERM} = "IGNORE"; my $e = time + 60; while (time < $e) { my $p = fork; next unless defined $p; POSIX::_exit(0) if $p; POSIX::setsid }'`,
};

/** Until then it has another command line. */
const ONCE_UNKNOWN = `until pgrep -xf 'sleep 71[12][.]${process.pid}' >/dev/null; do sleep 0.01; done`;

const sleepers = (machine: Machine): string[] =>
  processesOf(machine.root)
    .map(({ command }) => command)
    .filter((command) => /^sleep 71\d\.\d+$/.test(command));

describe.if(process.platform === "linux")("a program that hides which run started it", () => {
  for (const [name, command] of Object.entries({ UNKNOWN, WITHOUT_SOFT_MARK })) {
    for (const flags of [[], ["--no-daemon"]]) {
      test(`ends with its run: ${name} ${flags.join("")}`, async () => {
        await using machine = new Machine();
        const left = `${command}; ${ONCE_UNKNOWN}; touch left`;
        await machine.play({ "leave it": [bash(left), says("left")] });
        // It holds that nothing is left running.
        const { receipt } = await verdict(machine, ["leave it", ...flags]);
        expect(receipt.exit_code).toBe(0);
        expect(machine.has("left")).toBe(true);
      });
    }
  }

  test("is named by doctor while another run could own it, and ends with that run", async () => {
    await using machine = new Machine();
    const wait = "touch held; until test -e go; do sleep 0.02; done";
    await machine.play({
      "stay here": [bash(wait), says("stayed")],
      "leave it": [bash(`${UNKNOWN}; ${ONCE_UNKNOWN}`), says("left")],
    });
    const other = machine.start(["spawn", "stay here", "--output", "json"]);
    await until(() => machine.has("held"), "the other run's call");
    await machine.run(["spawn", "leave it"]);
    expect(sleepers(machine)).toHaveLength(1);
    const doctor = await machine.run(["doctor"]);
    expect(doctor.stdout).toMatch(/programs of no known run: \d+ \(sleep 711\.\d+\)/);
    expect(doctor.code).toBe(1);
    machine.write("go", "");
    expect(receiptOf(await other.done).exit_code).toBe(0);
    expect(sleepers(machine)).toEqual([]);
    expect((await machine.run(["doctor"])).stdout).toContain("ok programs of no known run: none");
  });

  test("ends with its run while another runs, if it was seen before it took off its mark", async () => {
    await using machine = new Machine();
    const wait = "touch held; until test -e go; do sleep 0.02; done";
    await machine.play({
      "stay here": [bash(wait), says("stayed")],
      "leave it": [bash(`${UNMARKED_LATER}; touch left; ${ONCE_UNKNOWN}`), says("left")],
    });
    const other = machine.start(["spawn", "stay here", "-q"]);
    const leaving = machine.start(["spawn", "leave it", "-q"]);
    await until(() => machine.has("held") && machine.has("left"), "both calls");
    // It lists the orphans.
    await machine.run(["doctor"]);
    machine.write("unmark", "");
    expect((await leaving.done).stdout).toBe("left\n");
    expect(sleepers(machine)).toEqual([]);
    machine.write("go", "");
    expect((await other.done).code).toBe(0);
  });

  test("ends with the daemon at the latest", async () => {
    await using machine = await Machine.playing({ "leave it": [bash(`${UNKNOWN}; touch held; sleep 600`)] });
    const run = machine.start(["spawn", "leave it", "--output", "json"]);
    await until(() => machine.has("held") && sleepers(machine).length > 0, "what it leaves");
    await machine.run(["daemon", "stop", "--now"]);
    await run.done;
    expect(sleepers(machine)).toEqual([]);
  });

  test("is found by its inherited tag after a kill -9 of the daemon", async () => {
    await using machine = await Machine.playing({
      "leave it": [bash(`${WITHOUT_SOFT_MARK}; touch held; sleep 600`)],
    });
    const run = machine.start(["spawn", "leave it"]);
    await until(() => machine.has("held") && sleepers(machine).length > 0, "what it leaves");
    machine.killDaemon();
    await run.done;
    expect((await machine.run(["doctor"])).stdout).toMatch(
      /programs left running: \d+ programs? of an rnix that has died/,
    );
    await until(() => sleepers(machine).length === 0, "its end by the next daemon");
  });
});

describe("a killed --no-daemon beside a daemon", () => {
  const left = `( env -i setsid sleep ${FIRST} </dev/null >/dev/null 2>&1 & ); touch held; sleep ${SECOND}`;

  /** Starts it, and kills it where it holds. */
  async function killed(machine: Machine): Promise<void> {
    const run = machine.start(["spawn", "hold", "--no-daemon", "-q"]);
    await until(() => machine.has("held") && sleepers(machine).length > 0, "its programs");
    run.signal("SIGKILL");
    await run.done;
    machine.remove("held");
  }

  test("leaves no program, without another command, and each time", async () => {
    await using machine = await Machine.playing({ hold: [bash(left)] });
    await machine.run(["daemon", "start"]);
    for (let time = 0; time < 3; time++) {
      await killed(machine);
      await until(() => sleepers(machine).length === 0, "the end of what it left");
    }
    expect((await machine.run(["doctor"])).stdout).toContain("programs left running: none");
    expect((await machine.run(["ps", "-a"])).stdout).not.toContain("running");
  });

  test("that was there before the daemon leaves no program, and other kernels keep theirs", async () => {
    await using machine = await Machine.playing({
      hold: [bash(left)],
      stay: [bash("touch stays; until test -e go; do sleep 0.02; done"), says("stayed")],
    });
    const first = machine.start(["spawn", "hold", "--no-daemon", "-q"]);
    await until(() => machine.has("held") && sleepers(machine).length > 0, "its programs");
    await machine.run(["daemon", "start"]);
    const others = [["--no-daemon"], []].map((flags) => machine.start(["spawn", "stay", "-q", ...flags]));
    await until(() => machine.has("stays"), "the other runs");
    first.signal("SIGKILL");
    await first.done;
    await until(() => sleepers(machine).length === 0, "the end of what it left");
    machine.write("go", "");
    for (const { done } of others) expect((await done).stdout).toBe("stayed\n");
  });
});

describe.if(process.platform === "linux")("a program that forks itself without end", () => {
  /** Its working folder shows it, whatever its PID is just now. */
  const seen = (machine: Machine): number => {
    let count = 0;
    for (let look = 0; look < 50; look++)
      count += processesOf(machine.root).filter(({ command }) => !command.startsWith("rnix")).length;
    return count;
  };

  for (const [name, script] of Object.entries(FORKING)) {
    const command = `cat >storm.sh <<'END'\n${script}\nEND\n( env -i PATH="$PATH" setsid sh storm.sh </dev/null >/dev/null 2>&1 & )\nsleep 0.1`;

    test(`ends with its run: ${name}`, async () => {
      await using machine = await Machine.playing({ "leave it": [bash(command), says("left")] });
      const { receipt, ms } = await verdict(machine, ["leave it"]);
      expect(receipt.exit_code).toBe(0);
      expect(ms).toBeLessThan(20_000);
      expect(seen(machine)).toBe(0);
      await machine.run(["daemon", "stop"]);
      expect(seen(machine)).toBe(0);
    });
  }
});
