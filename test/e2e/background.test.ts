import { expect, test } from "bun:test";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { isAlive } from "../support/is-alive.ts";
import type { RecordedRequest } from "../support/model-server/server.ts";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { detach } from "./support/runs.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";
import { zombiesOf } from "./support/zombies.ts";

/** Starts commands in the background. */
const background = (...commands: string[]) =>
  calls(
    ...commands.map((command): [string, Record<string, unknown>] => [
      "Bash",
      { command, run_in_background: true },
    ]),
  );

/** All that a request tells the model. */
const textOf = ({ body }: RecordedRequest): string => JSON.stringify(body);

/** The messages of units that a request tells the model. */
const signalsOf = (request: RecordedRequest | undefined): string[] =>
  request === undefined ? [] : (textOf(request).match(/unit [a-z][0-9a-z]{8} \[[a-z_]+\] [a-z]+/g) ?? []);

/** A shell that serves until it is ended, deaf to TERM, and its PID in a file. */
const DEAF = "trap '' TERM; echo $$ > deaf; while :; do sleep 0.05; done";

/** The PID that a command of the run has written. */
async function pidIn(machine: Machine, file: string): Promise<number> {
  await until(() => machine.has(file) && machine.read(file).endsWith("\n"), `the file ${file}`);
  return Number(machine.read(file));
}

/** The output files of a run's units. */
const unitFile = (machine: Machine, uuid: string, name: string): string =>
  join(machine.project, ".rnix/data/steps", uuid, "units", name);

test.concurrent("a server in the background is polled by Bash, and ends with its agent", async () => {
  await using machine = new Machine();
  const serve =
    'exec python3 -uc \'import http.server as h; s = h.ThreadingHTTPServer(("127.0.0.1", 0), h.SimpleHTTPRequestHandler); open("port", "w").write(str(s.server_port)); s.serve_forever()\'';
  const poll =
    'until [ -s port ]; do sleep 0.02; done; exec 3<>/dev/tcp/127.0.0.1/$(cat port); printf "GET /page HTTP/1.0\\r\\n\\r\\n" >&3; cat <&3';
  machine.write("page", "it serves\n");
  const model = await machine.play({ "serve it": [background(serve), bash(poll), stopAll, says("done")] });
  const { receipt } = await verdict(machine, ["serve it"]);
  expect(receipt.result).toBe("done");
  const last = model.requests.at(-1);
  expect(last && toolResults(last)[1]).toContain("it serves");
  expect(signalsOf(last)).toEqual([expect.stringMatching(/^unit b\w{8} \[local_bash\] killed$/)]);
});

/** Ends every unit that the conversation names. */
function stopAll(request: RecordedRequest) {
  const ids = new Set(textOf(request).match(/(?<=as unit )[a-z][0-9a-z]{8}/g));
  return calls(...[...ids].map((id): [string, Record<string, unknown>] => ["DaemonStop", { daemon_id: id }]));
}

test.concurrent("a build in the background: the agent goes on, answers, and is woken by its end", async () => {
  await using machine = new Machine();
  const build = "until [ -e go ]; do sleep 0.02; done; echo linked; exit 2";
  const model = await machine.play({
    "build it": [background(build), bash("echo meanwhile"), says("the build runs"), says("it failed")],
  });
  const command = machine.start(["spawn", "build it"]);
  await until(() => model.requests.length === 3);
  const following = machine.start(["log", "1", "-f"]);
  await following.stdout.has(/the build runs/);
  machine.write("go", "");
  const { code, stdout, stderr } = await command.done;
  expect({ code, stdout }).toEqual({ code: 0, stdout: "it failed\n" });
  expect(signalsOf(model.requests[2])).toEqual([]);
  expect(textOf(model.requests[3] as RecordedRequest)).toContain("failed, exit code 2");
  expect(textOf(model.requests[3] as RecordedRequest)).toContain("linked");
  expect(stderr).toMatch(/unit b\w{8} \[local_bash\] started: /);
  expect(stderr).toMatch(/unit b\w{8} \[local_bash\] failed, exit code 2: /);
  const log = await machine.ok(["log", "1"]);
  const unitLines = (text: string): string[] => text.match(/unit b\w{8} \[.*(?:started|failed).*/g) ?? [];
  expect(unitLines((await following.done).stdout)).toEqual(unitLines(log.stdout));
  expect(log.stdout).toMatch(/unit b\w{8} \[local_bash\] started: [\s\S]*meanwhile[\s\S]*the build runs/);
  expect(log.stdout).toMatch(
    /the build runs[\s\S]*unit b\w{8} \[local_bash\] failed, exit code 2: [\s\S]*it failed/,
  );
});

/** Prints at least 100,000 lines each second, each with its number. */
const NOISE = `exec python3 -uc 'import os, time
n = 0
while True:
    began = time.monotonic()
    for _ in range(10):
        os.write(1, b"".join(b"line %08d of the noise\\n" % (n + i) for i in range(2000)))
        n += 2000
    time.sleep(max(0, 0.19 - (time.monotonic() - began)))'`;

test.concurrent("a monitor of 100,000 lines a second: bounded events, memory and disk", async () => {
  await using machine = new Machine();
  machine.config({ shell_disk: "1MiB" });
  const woken: RecordedRequest[] = [];
  await machine.play({
    "watch it": [
      calls(["Monitor", { command: NOISE, description: "noise" }]),
      says("watching"),
      (request) => {
        woken.push(request);
        return says("seen");
      },
    ],
  });
  const { uuid } = await detach(machine, "watch it");
  await until(() => woken.length > 0);
  const rss = rssOf(machine.daemonPid);
  const began = performance.now();
  const list = JSON.parse((await machine.ok(["units", "--json"])).stdout);
  const path = unitFile(machine, uuid, `${list[0].id}.out`);
  const bytes = statSync(path).size;
  // 800,000 lines: about eight seconds.
  await until(() => statSync(path).size > bytes + 800_000 * "line 00000000 of the noise\n".length);
  const seconds = (performance.now() - began) / 1000;
  expect(statSync(path).blocks * 512).toBeLessThan(8 * 1024 * 1024);
  expect(rssOf(machine.daemonPid) - rss).toBeLessThan(100 * 1024);
  // Ten events at once, then one each two seconds.
  expect(woken.length).toBeLessThan(12 + seconds / 2);
  expect(textOf(woken.at(-1) as RecordedRequest)).toMatch(/\[\d+ events suppressed\]/);
  expect(textOf(woken[0] as RecordedRequest).length).toBeLessThan(60_000);
  const output = await machine.ok(["units", "output", list[0].id]);
  expect(output.stdout.split("\n").length).toBeLessThan(210);
  await machine.ok(["kill", uuid]);
  await until(() => machine.strays().length === 0, "the end of the monitor");
});

/** In kB. */
function rssOf(pid: number | null): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
}

test.concurrent("a fork bomb of 127 processes in sessions of their own ends with its unit", async () => {
  await using machine = new Machine();
  // Each level doubles it; a limit stops it there.
  const bomb = `cat > bomb.sh <<'END'
[ "$1" -gt 0 ] && for side in 1 2; do setsid sh bomb.sh $(($1 - 1)) & done
trap '' TERM; echo x >> up; exec sleep 1000
END
sh bomb.sh 6`;
  const grown = "until [ $(wc -l < up) -ge 127 ]; do sleep 0.1; done";
  await machine.play({ "fork it": [background(bomb), bash(`touch up; ${grown}`), stopAll, says("done")] });
  const { receipt } = await verdict(machine, ["fork it"]);
  expect(receipt.result).toBe("done");
});

test.concurrent("a unit that ignores TERM is killed after the grace; units output and show tell of it", async () => {
  await using machine = new Machine();
  await machine.play({ serve: [background(DEAF), says("serving"), bash("sleep 1000")] });
  const { pid } = await detach(machine, "serve");
  const deaf = await pidIn(machine, "deaf");
  const list = await machine.until(["units"], /running/);
  const id = /b\w{8}/.exec(list)?.[0] ?? "";
  expect(list).toContain("local_bash");
  expect((await machine.ok(["ps", "--tree"])).stdout).toMatch(new RegExp(`unit .*${id}|${id}`));
  expect((await machine.ok(["units", "stop", id])).stdout).toContain("is terminating");
  await until(() => !isAlive(deaf), "the end of the unit");
  await machine.until(["show", String(pid)], new RegExp(`${id}.*killed`));
  expect(await machine.ok(["units"])).toMatchObject({ stdout: "", stderr: "no background unit is live\n" });
  expect((await machine.run(["units", "stop", id])).stderr).toContain("already ended: killed");
  await machine.ok(["kill", String(pid)]);
});

test.concurrent("a monitor's lines are read after a resume by DaemonOutput, after the run by rnix units output", async () => {
  await using machine = new Machine();
  const command = "echo first; echo second; exec sleep 1000";
  let id = "";
  const model = await machine.play({
    "watch it": [
      calls(["Monitor", { command, description: "two lines" }]),
      (request) => {
        id = /(?<=as unit )m\w{8}/.exec(textOf(request))?.[0] ?? "";
        return says("watching");
      },
      says("seen"),
      () => calls(["DaemonOutput", { daemon_id: id }]),
      says("read"),
    ],
  });
  const { uuid } = await detach(machine, "watch it");
  await until(() => model.requests.length === 3);
  await machine.ok(["suspend", uuid]);
  expect(await machine.run(["resume", uuid])).toMatchObject({ code: 0, stdout: "read\n" });
  const last = model.requests.at(-1);
  expect(last && toolResults(last).at(-1)).toMatch(/\[monitor\/killed\] two lines.*\n---\nfirst\nsecond/);
  expect((await machine.ok(["units", "output", id])).stdout).toBe("first\nsecond\n");
  const unknown = await machine.run(["units", "output", "m00000000"]);
  expect(unknown.stderr).toContain('There is no unit "m00000000"');
  expect(unknown.code).not.toBe(0);
});

const ENDS: [string, (machine: Machine, pid: string) => Promise<unknown>][] = [
  ["kill", (machine, pid) => machine.ok(["kill", pid])],
  ["suspend", (machine, pid) => machine.ok(["suspend", pid])],
  ["daemon stop", (machine) => machine.ok(["daemon", "stop"])],
];

test.concurrent.each(ENDS)("units never outlive their agent: rnix %s", async (_, end) => {
  await using machine = new Machine();
  await machine.play({ serve: [background(DEAF), says("serving")] });
  const { pid } = await detach(machine, "serve");
  const deaf = await pidIn(machine, "deaf");
  await end(machine, String(pid));
  await until(() => !isAlive(deaf), "the end of the unit");
});

test.concurrent.each([
  ["Ctrl-C", []],
  ["Ctrl-C with --no-daemon", ["--no-daemon"]],
])("units never outlive their agent: %s", async (_, flags) => {
  await using machine = new Machine();
  await machine.play({ serve: [background(DEAF), says("serving")] });
  const command = machine.start(["spawn", "serve", ...flags]);
  const deaf = await pidIn(machine, "deaf");
  command.signal("SIGINT");
  const { code } = await command.done;
  expect([75, 130]).toContain(code);
  await until(() => !isAlive(deaf), "the end of the unit");
});

test.concurrent("200 short units leave no zombie, and each end is read once", async () => {
  await using machine = new Machine();
  const ten = background(...Array.from({ length: 10 }, () => "exit 0"));
  const wait = bash(
    'until [ "$(grep -ho announced .rnix/data/steps/*/units.jsonl | wc -l)" -ge $(cat want) ]; do sleep 0.02; done',
  );
  const rounds = Array.from({ length: 20 }, (_, i) => [
    ten,
    () => {
      machine.write("want", String(10 * (i + 1)));
      return wait;
    },
  ]).flat();
  const model = await machine.play({ "run them": [...rounds, says("done")] });
  const { receipt } = await verdict(machine, ["run them", "--max-steps", "100"]);
  expect(receipt.exit_code).toBe(0);
  const ends = signalsOf(model.requests.at(-1));
  expect(new Set(ends).size).toBe(200);
  expect(ends).toHaveLength(200);
  expect(zombiesOf(machine.daemonPid)).toEqual([]);
});
