import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { ModelServer } from "../support/model-server/server.ts";
import { until } from "../support/until.ts";
import { binary } from "./support/binary.ts";
import { processesOf } from "./support/leftovers.ts";
import { Machine, OPENAI_KEY } from "./support/machine.ts";
import { toolNames, toolResults } from "./support/requests.ts";
import { listed } from "./support/runs.ts";
import { bash, calls, type Scene, says } from "./support/scenes.ts";
import { receiptOf, recordOf, verdict } from "./support/verdict.ts";

const RNIX = `'${binary()}'`;
const HOLD = bash("touch held; until test -e go; do sleep 0.02; done");
/** Waits until each of the files has the whole answer of a `spawn --detach`. */
const whenTold = (files: string): string =>
  `for file in ${files}; do until grep -Eqs '^([0-9]+ [0-9a-f-]{36}|rnix spawn: .*)$' $file; do sleep 0.02; done; done`;

describe("a spawn from inside a run", () => {
  test("makes a child that counts in its parent's receipt, tokens and tree, and has its parent's keys", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "parent task": [bash(`${RNIX} spawn 'child chore' -q; echo "code $?"`), says("done")],
      "child chore": [HOLD, says("child done")],
    });
    const parent = machine.start(["spawn", "parent task", "--output", "json"]);
    await machine.held();
    const tree = await machine.run(["ps", "--tree"]);
    expect(tree.stdout).toMatch(/\n1 +running[^\n]*parent task\n[^\n]*2 +running[^\n]*child chore\n/);
    machine.write("go", "");
    const receipt = receiptOf(await parent.done);
    expect(receipt).toMatchObject({ exit_code: 0, result: "done", tokens_used: 60 });
    expect(receipt.children).toEqual([
      {
        uuid: expect.any(String),
        pid: 2,
        agent: "default",
        exit_code: 0,
        exit_reason: "completed",
        tokens_used: 30,
      },
    ]);
    expect(recordOf(machine, receipt.children[0]?.uuid ?? "")).toMatchObject({
      ppid: 1,
      parent_uuid: receipt.uuid,
      result: "child done",
    });
    expect(model.requests.flatMap(toolResults).at(-1)).toBe("child done\ncode 0");
    const keys = model.requests.map(({ headers }) => headers.get("authorization"));
    expect(new Set(keys)).toEqual(new Set([`Bearer ${OPENAI_KEY}`]));
  });

  test("has at most its parent's rights, and spends its parent's budget", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "do the whole": [bash(`${RNIX} spawn 'do a part' --allow Write --allow Read`), says("whole")],
      "do a part": [calls(["Write", { path: "a.txt", content: "x" }]), says("part")],
    });
    const { receipt } = await verdict(machine, ["do the whole", "--deny", "Write"]);
    expect(receipt).toMatchObject({
      exit_code: 0,
      result: "whole",
      children: [{ agent: "default", exit_code: 0, exit_reason: "completed", tokens_used: 30 }],
      tokens_used: 60,
      usage: { input_tokens: 20, output_tokens: 10 },
    });
    const [child] = receipt.children;
    expect(recordOf(machine, child?.uuid ?? "")).toMatchObject({
      parent_uuid: receipt.uuid,
      ppid: receipt.pid,
    });
    const ofChild = model.requests.filter(
      ({ text }) => text.includes("do a part") && !text.includes("do the whole"),
    );
    expect(ofChild.map(toolNames)).toEqual([["Read"], ["Read"]]);
    expect(ofChild.flatMap(toolResults)).toEqual([expect.stringMatching(/^Error (NOT_FOUND|PERMISSION)/)]);
    expect(machine.has("a.txt")).toBe(false);
  });

  test("sends its parent's keys only to the parent's addresses", async () => {
    await using machine = new Machine();
    await using thief = await ModelServer.start([says("thanks")]);
    await machine.play({
      "parent task": [
        bash(`OPENAI_BASE_URL=${thief.openaiUrl} ${RNIX} spawn 'child chore' -q`),
        says("done"),
      ],
      "child chore": [says("child done")],
    });
    const { receipt } = await verdict(machine, ["parent task"]);
    expect(receipt.children).toMatchObject([{ exit_code: 0 }]);
    expect(thief.requests).toEqual([]);
  });

  test("that does not complete makes its parent fail", async () => {
    await using machine = await Machine.playing({
      "parent task": [bash(`${RNIX} spawn 'child chore' -q --check false`), says("all is well")],
      "child chore": [says("child done")],
    });
    const { receipt } = await verdict(machine, ["parent task"]);
    expect(receipt).toMatchObject({ exit_code: 1, exit_reason: "failed", result: "all is well" });
    expect(receipt.children).toMatchObject([{ exit_code: 1, exit_reason: "check_failed" }]);
    expect(receipt.error?.message).toContain("check_failed");
  });

  test("that is detached ends with its parent at the latest", async () => {
    await using machine = await Machine.playing({
      "parent task": [
        bash(`${RNIX} spawn 'child chore' --detach; until test -e held; do sleep 0.02; done`),
        says("done"),
      ],
      "child chore": [HOLD],
    });
    const { receipt } = await verdict(machine, ["parent task"]);
    expect(receipt).toMatchObject({ exit_code: 1, exit_reason: "failed" });
    expect(receipt.children).toMatchObject([{ exit_code: 143, exit_reason: "terminated" }]);
  });

  const FAMILY: Record<string, Scene[]> = {
    "parent task": [bash(`${RNIX} spawn 'child chore' --detach; sleep 600`)],
    "child chore": [HOLD, says("child done")],
  };

  test("is killed with its parent", async () => {
    await using machine = await Machine.playing(FAMILY);
    const parent = machine.start(["spawn", "parent task", "--output", "json"]);
    await machine.held();
    expect((await machine.run(["kill", "1"])).stderr).toContain("2 processes");
    const receipt = receiptOf(await parent.done);
    expect(receipt).toMatchObject({ exit_code: 143, children: [{ pid: 2, exit_code: 143 }] });
    expect((await listed(machine)).map(({ exit_code }) => exit_code)).toEqual([143, 143]);
    expect(machine.strays()).toEqual([]);
  });

  test("becomes a child of PID 0 when its parent is killed with --no-tree", async () => {
    await using machine = await Machine.playing(FAMILY);
    const parent = machine.start(["spawn", "parent task", "--output", "json"]);
    await machine.held();
    expect((await machine.run(["kill", "--no-tree", "1"])).stderr).toContain("1 process\n");
    const receipt = receiptOf(await parent.done);
    expect(receipt).toMatchObject({ exit_code: 143, children: [] });
    expect(await listed(machine, [])).toMatchObject([{ pid: 2, state: "running", ppid: 0 }]);
    machine.write("go", "");
    expect(await machine.run(["wait", "2"])).toMatchObject({ code: 0, stdout: "child done\n" });
  });

  test("is refused beyond the depth", async () => {
    await using machine = new Machine();
    machine.config({ spawn_depth: 2 });
    const dig = (to: string): Scene[] => [
      bash(`${RNIX} spawn 'dig ${to}' -q; echo "code $?"`),
      says(`before ${to}`),
    ];
    const model = await machine.play({
      "dig a": dig("b"),
      "dig b": dig("c"),
      "dig c": dig("d"),
      "dig d": dig("e"),
    });
    const { receipt } = await verdict(machine, ["dig a"]);
    expect(receipt).toMatchObject({ exit_code: 0, result: "before b" });
    expect(model.requests.some(({ text }) => text.includes('"dig d"'))).toBe(false);
    expect(model.requests.flatMap(toolResults).join("\n")).toMatch(/spawn_depth[\s\S]*code [1-9]/);
  });

  test("stays a child without RNIX_UNIT, in its own session, and when its parent processes have ended", async () => {
    await using machine = new Machine();
    machine.config({ live_children: 3 });
    const env = 'env -i HOME="$HOME" PATH="$PATH"';
    const ways = [
      `setsid -f env -u RNIX_UNIT ${RNIX} spawn 'child chore' --detach >one 2>&1`,
      `${env} $(env | grep -o '^XDG_[A-Z_]*=[^ ]*') $(env | grep -o '^RNIX_DATA_DIR=[^ ]*') setsid -f ${RNIX} spawn 'child chore' --detach >two 2>&1`,
      `RNIX_UNIT=00000000-0000-7000-8000-000000000000 ${RNIX} spawn 'child chore' --detach >three 2>&1`,
      `( ( env -u RNIX_UNIT -u RNIX_CHILD setsid ${RNIX} spawn 'child chore' --detach >four 2>&1 & ) & )`,
    ];
    await machine.play({
      "parent task": [
        bash(`${ways.slice(0, 3).join("\n")}\n${whenTold("one two three")}; ${ways[3]}\n${whenTold("four")}`),
        says("done"),
      ],
      "child chore": [{ fault: { kind: "hang" } }],
    });
    const { receipt } = await verdict(machine, ["parent task"]);
    for (const file of ["one", "two", "three"]) expect(machine.read(file)).toMatch(/^\d+ [0-9a-f-]{36}$/m);
    expect(machine.read("four")).toMatch(/live_children/);
    expect(receipt.children).toHaveLength(3);
    for (const { uuid } of receipt.children) {
      expect(recordOf(machine, uuid)).toMatchObject({ parent_uuid: receipt.uuid, ppid: receipt.pid });
    }
  });

  test("is refused when the program removed every mark of its run", async () => {
    await using machine = new Machine();
    const alone = "while kill -0 $SHELL_OF_IT 2>/dev/null; do sleep 0.02; done";
    const way = `setsid env -u RNIX_UNIT -u RNIX_CHILD prlimit --rttime=5000000000 sh -c '${alone}; exec "$0" spawn "child chore" --detach' ${RNIX}`;
    await machine.play({
      "parent task": [
        bash(`( export SHELL_OF_IT=$(exec sh -c 'echo $PPID'); ${way} >out 2>&1 & ); ${whenTold("out")}`),
        says("done"),
      ],
      "child chore": [says("child done")],
    });
    const { receipt } = await verdict(machine, ["parent task"]);
    expect(machine.read("out")).toMatch(/^rnix spawn: .*inside a run that has ended or is unknown/);
    expect(receipt.children).toEqual([]);
    expect(await listed(machine)).toHaveLength(1);
  });

  test("without end is stopped by the limits, inside the run and as a person's command", async () => {
    await using machine = new Machine();
    machine.config({ live_children: 3, live_processes: 5 });
    const storm = `for i in 1 2 3 4 5 6 7 8; do setsid -f env -u RNIX_UNIT ${RNIX} spawn 'child chore' --detach >out$i 2>&1; done`;
    await machine.play({
      "parent task": [bash(`${storm}; ${whenTold("out1 out2 out3 out4 out5 out6 out7 out8")}`), HOLD],
      "child chore": [{ fault: { kind: "hang" } }],
    });
    const parent = machine.start(["spawn", "parent task", "--output", "json"]);
    await machine.held();
    const output = [1, 2, 3, 4, 5, 6, 7, 8].map((i) => machine.read(`out${i}`)).join("");
    expect(output.match(/^\d+ [0-9a-f-]{36}$/gm)).toHaveLength(3);
    expect(output.match(/live_children/g)).toHaveLength(5);
    expect(await listed(machine)).toHaveLength(4);

    const mine = ["spawn", "child chore", "--detach"];
    expect(await machine.run(mine)).toMatchObject({ code: 0 });
    const full = await machine.run(mine);
    expect(full.stderr).toMatch(/^rnix spawn: .*5 live here already.*live_processes/);
    expect(full.code).not.toBe(0);
    await machine.run(["kill", "1"]);
    await parent.done;
    expect(await machine.run(mine)).toMatchObject({ code: 0 });
  });

  test("without a daemon is refused with the reason, and starts none", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "parent task": [bash(`${RNIX} spawn 'child chore' -q; echo "code $?"`), says("done")],
    });
    const { receipt } = await verdict(machine, ["parent task", "--no-daemon"]);
    expect(receipt).toMatchObject({ exit_code: 0, children: [] });
    expect(model.requests.flatMap(toolResults).at(-1)).toMatch(/from inside a run[\s\S]*code 69/);
    expect(machine.leftovers()).toEqual([]);
  });
});

test("a run can signal and suspend only its own tree, itself included", async () => {
  await using machine = new Machine();
  const at = (what: string): string => `${what}; echo "code $?"`;
  const others = [
    "kill 1",
    "kill --no-tree 1",
    "kill -s KILL 1",
    "pause 1",
    "continue 1",
    "suspend 1",
    "suspend --for 1h 2",
    "kill 2",
  ];
  const commands = [
    ...others.map((one) => at(`${RNIX} ${one}`)),
    at(`env -u RNIX_UNIT setsid ${RNIX} kill 1`),
    `child=$(${RNIX} spawn 'child chore' --detach | cut -d' ' -f1)`,
    `echo own; ${at(`${RNIX} pause $child`)}; ${at(`${RNIX} continue $child`)}; ${at(`${RNIX} kill $child`)}`,
    at(`${RNIX} kill $child`),
    at(`${RNIX} suspend $RNIX_UNIT`),
  ];
  await machine.play({
    "other work": [{ fault: { kind: "hang" } }],
    "more work": [{ fault: { kind: "hang" } }],
    "try it": [bash(`exec >log 2>&1; ${commands.join("\n")}`), says("tried")],
    "child chore": [{ fault: { kind: "hang" } }],
  });
  await machine.run(["spawn", "other work", "--detach"], { cwd: machine.elsewhere });
  await machine.run(["spawn", "more work", "--detach"]);
  await machine.run(["suspend", "2"]);
  const { receipt } = await verdict(machine, ["try it"]);
  expect(receipt).toMatchObject({ exit_reason: "suspended" });
  const [refused = "", own = ""] = machine.read("log").split("own\n");
  expect(refused.match(/^code [1-9]\d*$/gm)).toHaveLength(others.length + 1);
  expect(refused.match(/from inside a run only itself and what is below it/g)).toHaveLength(
    others.length + 1,
  );
  expect(own.match(/^code \d+$/gm)).toEqual(["code 0", "code 0", "code 0", "code 0"]);
  const states = new Map((await listed(machine, ["-a", "--all-projects"])).map((one) => [one.pid, one]));
  expect(states.get(1)).toMatchObject({ state: "running" });
  expect(states.get(2)).toMatchObject({ state: "suspended", suspended: { wake: { on: "never" } } });
  await machine.run(["kill", "1"]);
});

test("a run that would wait for its own end is refused at once", async () => {
  await using machine = new Machine();
  const commands = ["attach", "wait"].map((one) => `${RNIX} ${one} $RNIX_UNIT 2>&1; echo "code $?"`);
  const model = await machine.play({ "try it": [bash(commands.join("; ")), says("tried")] });
  const { receipt } = await verdict(machine, ["try it"]);
  expect(receipt).toMatchObject({ exit_code: 0 });
  const [result = ""] = toolResults(model.last);
  expect(result.match(/would wait for its own end/g)).toHaveLength(2);
  expect(result.match(/^code [1-9]\d*$/gm)).toHaveLength(2);
});

describe("the environment of a tool", () => {
  test("has no key, nor has the daemon's, nor any file that is written", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "look around": [bash("env; tr '\\0' '\\n' < /proc/$PPID/environ"), says("looked")],
      // The command's own environment is what its caller gave it: the daemon's is not.
      "look at yours": [bash("env"), says("looked")],
    });
    const env = {
      COPY_OF_THE_KEY: OPENAI_KEY,
      BUN_CONFIG_MARKER: "of-the-caller",
      BUN_OPTIONS: "--smol",
      PLAIN: "of-the-caller-too",
    };
    for (const args of [["look around"], ["look at yours", "--no-daemon"]]) {
      const { receipt } = await verdict(machine, [...args, "--env", "GIVEN=a b"], { env });
      expect(receipt.exit_code).toBe(0);
      const result = model.requests.flatMap(toolResults).at(-1) ?? "";
      for (const line of ["PLAIN=of-the-caller-too", "GIVEN=a b", `RNIX_UNIT=${receipt.uuid}`])
        expect(result.split("\n")).toContain(line);
      for (const foreign of ["API_KEY", "BUN_CONFIG_MARKER", "BUN_OPTIONS", "sk-scripted"])
        expect(result).not.toContain(foreign);
    }
    const daemon = readFileSync(`/proc/${machine.daemonPid}/environ`, "utf8");
    for (const foreign of ["API_KEY", "BUN_CONFIG_MARKER", "BUN_OPTIONS", "PLAIN", "sk-scripted"])
      expect(daemon).not.toContain(foreign);
    expect(machine.search("sk-scripted")).toEqual([]);
  });
});

describe.concurrent("no program of a command outlives its call", () => {
  /** Each leaves one program that would run for ten minutes. */
  const ESCAPES: Record<string, string> = {
    nohup: "nohup sleep 700 >/dev/null 2>&1 &",
    setsid: "setsid sleep 701 &",
    "double fork": "( ( setsid sleep 702 </dev/null >/dev/null 2>&1 & ) & )",
    "cleared environment": "env -i setsid sleep 703 &",
    "deaf to TERM": "(trap '' TERM HUP INT; exec sleep 704) &",
    "all of it":
      "env -i setsid sh -c \"trap '' TERM HUP INT; (sleep 705; true) & exec sleep 705\" </dev/null >/dev/null 2>&1 &",
    elsewhere:
      'env -i setsid sh -c \'cd /; exec sh -c "sleep 706; true" $0\' "$PWD" </dev/null >/dev/null 2>&1 &',
    "born of TERM": "setsid sh -c 'trap \"setsid sleep 707 & exit\" TERM; while :; do sleep 0.02; done' &",
    "a tree": "for i in 1 2 3; do (sleep 708 & sleep 708 & sleep 708 & wait) & done",
    stopped: "sh -c 'kill -STOP $$; sleep 709' &",
  };
  const all = Object.values(ESCAPES).join("\n");

  for (const [name, command] of Object.entries(ESCAPES)) {
    test(name, async () => {
      await using machine = await Machine.playing({
        "leave it": [bash(`${command}\ntouch left`), says("left")],
      });
      const { receipt } = await verdict(machine, ["leave it", "--no-daemon"]);
      expect(receipt).toMatchObject({ exit_code: 0, tool_calls: 1 });
      expect(machine.has("left")).toBe(true);
      expect(machine.leftovers()).toEqual([]);
    });
  }

  const ENDS: Record<string, (machine: Machine) => Promise<unknown>> = {
    kill: (machine) => machine.run(["kill", "1"]),
    "kill -s KILL": (machine) => machine.run(["kill", "-s", "KILL", "1"]),
    "the call's time": () => Promise.resolve(),
    "daemon stop": (machine) => machine.run(["daemon", "stop"]),
    "daemon stop --now": (machine) => machine.run(["daemon", "stop", "--now"]),
  };
  for (const [how, end] of Object.entries(ENDS)) {
    test(`ended by ${how}, all of them at once`, async () => {
      await using machine = new Machine();
      const timed = how === "the call's time";
      await machine.play({
        "leave it": [
          calls(["Bash", { command: `${all}\ntouch held\nsleep 600`, ...(timed && { timeout_ms: 5_000 }) }]),
          says("left"),
        ],
      });
      const command = machine.start(["spawn", "leave it", "--output", "json"]);
      await machine.held();
      const left = () => processesOf(machine.root).filter(({ command }) => /sleep 70\d/.test(command));
      await until(() => left().length > 9, "all that is left behind");
      await end(machine);
      const receipt = receiptOf(await command.done);
      expect(receipt.exit_code === 0).toBe(timed);
      expect(machine.strays()).toEqual([]);
    });
  }
});
