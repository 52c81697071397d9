import { describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { DaemonStatus, InitUnitWire } from "../../src/protocol/methods.ts";
import type { ProcInfo } from "../../src/store/runs/schema.ts";
import { until } from "../support/until.ts";
import { binary } from "./support/binary.ts";
import { processesOf } from "./support/leftovers.ts";
import { Machine, OPENAI_KEY } from "./support/machine.ts";
import { MCP_SERVER } from "./support/mcp.ts";
import { toolResults } from "./support/requests.ts";
import { listed } from "./support/runs.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { recordOf } from "./support/verdict.ts";

/** A program that counts its starts in a file, dies twice, and then stays. */
const THIRD_TIME =
  'sh -c \'echo started >> "$0"; [ "$(wc -l < "$0")" -lt 3 ] && exit 1; exec sleep 600\' starts';

function usersInit(machine: Machine, yaml: string): string {
  return machine.write(join(machine.configDir, "init.yaml"), yaml);
}

function service(name: string, command: string, more = ""): string {
  return `  - { name: ${name}, type: command, ${more}config: { command: ${JSON.stringify(command)} } }\n`;
}

async function status(machine: Machine): Promise<DaemonStatus> {
  return await machine.json(["daemon", "status", "--json"]);
}

async function unit(machine: Machine, name: string): Promise<InitUnitWire> {
  const found = (await status(machine)).init.find((one) => one.name === name);
  if (!found) throw new Error(`init has no ${name}`);
  return found;
}

function sleeping(machine: Machine): number {
  return processesOf(machine.root).filter(({ command }) => command.startsWith("sleep ")).length;
}

const noDaemon = (machine: Machine): Promise<void> =>
  until(() => processesOf(machine.root).length === 0, "the daemon's end");

describe("a service of the user's init.yaml", () => {
  test("starts with the daemon, is restarted when it dies, is shown, and ends with the daemon", async () => {
    await using machine = new Machine();
    const starts = join(machine.home, "starts");
    usersInit(machine, `services:\n${service("web", THIRD_TIME, "required: false, ")}`);
    await machine.ok(["daemon", "start"]);
    await until(async () => (await unit(machine, "web")).restarts === 2, "its second restart");
    // It counts as restarted before its program has reached its last command.
    await until(() => sleeping(machine) === 1, "its third start");
    expect(machine.read(starts)).toBe("started\n".repeat(3));
    const web = await unit(machine, "web");
    expect(web).toEqual({
      project: null,
      name: "web",
      type: "command",
      required: false,
      state: "running",
      since_ms: expect.any(Number),
      pid: 1,
      restarts: 2,
      error: null,
    });
    const text = (await machine.run(["daemon", "status"])).stdout;
    expect(text).toMatch(/\nINIT +TYPE +REQUIRED +STATE +FOR +PID +RESTARTS +PROJECT +ERROR\n/);
    expect(text).toMatch(/\nweb +command +no +running +\S+ +1 +2 +- +-\n/);

    expect((await machine.run(["ps", "--tree", "--all-projects"])).stdout).toMatch(
      /\n1 +\S+ +running +supervisor .* web\n`- \d+ +\S+ +running +command .*/,
    );
    expect((await machine.run(["log", "1"])).stdout).toContain("restart");
    await machine.ok(["daemon", "stop"]);
    expect(machine.leftovers().filter((left) => !left.includes("home/starts"))).toEqual([]);
    machine.remove(starts);
  });

  test("has no variable of the command that started the daemon, and may call the daemon at once", async () => {
    await using machine = new Machine();
    machine.env.SECRET_OF_A_SHELL = "x";
    const command = `env > seen; '${binary()}' ps --all-projects > listed; '${binary()}' daemon stop 2> refused; exec sleep 600`;
    const out = join(machine.elsewhere);
    usersInit(
      machine,
      `services:\n  - name: client\n    type: command\n    required: true\n    config: { command: ${JSON.stringify(command)}, cwd: ${out}, env: { OWN: word } }\n`,
    );
    await machine.ok(["daemon", "start"]);
    await until(() => sleeping(machine) === 1, "the program's last command");
    const seen = machine.read(join(out, "seen"));
    expect(seen).toContain("OWN=word");
    expect(seen).not.toContain("SECRET_OF_A_SHELL");
    expect(machine.read(join(out, "listed"))).toMatch(/supervisor .* client/);
    expect(machine.read(join(out, "refused"))).toContain("refused inside a run");
    expect((await unit(machine, "client")).state).toBe("running");
  });

  for (const [what, command, why] of [
    ["is not there", "[/no/such/program]", "/no/such/program"],
    ["ends as it starts", '"echo no port left; exit 3"', "no port left"],
  ] as const) {
    test(`that is required and ${what} ends the daemon: every command that starts one prints why and exits with 69`, async () => {
      await using machine = await Machine.playing({ "say so": [says("so")] });
      const file = usersInit(
        machine,
        `services:\n${service("first", "sleep 601")}  - { name: db, type: command, required: true, config: { command: ${command} } }\n`,
      );
      for (const args of [
        ["spawn", "say so"],
        ["daemon", "start"],
        ["ps", "-a"],
      ]) {
        const { code, stderr, stdout } = await machine.run(args);
        expect({ code, stdout }).toEqual({ code: 69, stdout: "" });
        expect(stderr).toContain(`${file}: The required command db did not come up: `);
        expect(stderr).toContain(why);
        await noDaemon(machine);
      }
      const foreground = await machine.run(["daemon", "start", "--foreground"]);
      expect(foreground.code).toBe(69);
      expect(foreground.stderr).toContain("The required command db did not come up");
      expect(sleeping(machine)).toBe(0);
      // Without a daemon there is no init, and nothing that it could be in the way of.
      const inside = await machine.run(["spawn", "say so", "--no-daemon", "-q"]);
      expect(inside).toMatchObject({ code: 0, stdout: "so\n" });

      machine.remove(file);
      expect((await machine.run(["spawn", "say so", "-q"])).stdout).toBe("so\n");
    });
  }

  test("that is optional and fails gives a warning in the log and in the status", async () => {
    await using machine = await Machine.playing({ "say so": [says("so")] });
    usersInit(
      machine,
      "services:\n  - { name: db, type: command, config: { command: [/no/such/program] } }\n",
    );
    expect((await machine.run(["spawn", "say so", "-q"])).stdout).toBe("so\n");
    expect(await unit(machine, "db")).toMatchObject({
      state: "failed",
      error: expect.stringContaining("/no/such/program"),
    });
    expect((await machine.run(["daemon", "logs"])).stdout).toContain("continues without the command db");
    const doctor = await machine.run(["doctor"]);
    expect(doctor.code).toBe(1);
    expect(doctor.stdout).toContain("init.yaml: command db: ");
  });

  test("with an error in its file is exit 64, with line and column", async () => {
    await using machine = new Machine();
    const file = usersInit(machine, "services:\n  - { name: db, type: comand }\n");
    const { code, stderr } = await machine.run(["daemon", "start"]);
    expect(code).toBe(64);
    expect(stderr).toContain(`${file}:2:23: `);
    await noDaemon(machine);
  });
});

describe("an MCP server of an init.yaml", () => {
  interface Wanted {
    required?: boolean;
    behaviour?: string;
    /** The variable that its token is in. */
    token?: string;
    within?: string;
  }
  const notes = (
    machine: Machine,
    { required = false, behaviour = "", token = "HOME", within = "20s" }: Wanted,
  ): string =>
    `services:
  - name: notes
    type: mcp
    required: ${required}
    config:
      command: ${process.execPath}
      args: [${MCP_SERVER}, ${JSON.stringify(behaviour)}]
      # HOME is where its runtime keeps a cache of its own.
      env: { TOKEN: "\${${token}}", HOME: ${machine.elsewhere} }
      mount_timeout: ${within}
`;
  const servers = (machine: Machine): number =>
    processesOf(machine.root).filter(({ command }) => command.includes(MCP_SERVER)).length;

  test("is shared by all runs, has the variables of the user's file, and ends with the daemon", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "ask one": [calls(["mcp__notes__env", { name: "TOKEN" }]), says("one")],
      "ask two": [calls(["mcp__notes__echo", { text: "milk" }]), says("two")],
    });
    chmodSync(machine.write(join(machine.configDir, "env"), "NOTES_TOKEN=t0p\n"), 0o600);
    usersInit(machine, notes(machine, { required: true, token: "NOTES_TOKEN" }));
    for (const intent of ["ask one", "ask two"]) {
      await machine.ok(["spawn", intent, "-q"]);
      expect(servers(machine)).toBe(1);
    }
    expect(model.requests.flatMap(toolResults)).toEqual(["t0p", '{"text":"milk"}']);
    expect(await unit(machine, "notes")).toMatchObject({
      type: "mcp",
      required: true,
      state: "running",
      pid: null,
      restarts: null,
    });
    await machine.ok(["daemon", "stop"]);
    expect(machine.leftovers()).toEqual([]);
  });

  test("that is required and fails slowly is waited for, longer than for a socket: 69 and the reason", async () => {
    await using machine = new Machine();
    machine.config({ socket_wait: "5s" });
    usersInit(machine, notes(machine, { required: true, behaviour: "hang", within: "8s" }));
    const first = machine.start(["ps", "-a"]);
    await until(() => servers(machine) === 1, "the server's start");
    // It can be looked at meanwhile.
    expect(await unit(machine, "notes")).toMatchObject({ state: "starting" });
    const second = machine.start(["daemon", "start"]);
    for (const { done } of [first, second]) {
      const { code, stderr } = await done;
      expect(code).toBe(69);
      expect(stderr).toContain("The required mcp notes did not come up: ");
    }
    await noDaemon(machine);
  });

  test("that lacks a variable fails alone, and the status says where", async () => {
    await using machine = new Machine();
    const file = usersInit(machine, notes(machine, { token: "NO_SUCH_TOKEN" }));
    await machine.ok(["daemon", "start"]);
    expect(await unit(machine, "notes")).toMatchObject({
      state: "failed",
      error: expect.stringContaining(`${file}:9:21: `),
    });
  });
});

describe("a supervisor of the user's init.yaml", () => {
  test("restarts the agents of its project, with keys from the user's file", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "watch the house": [{ fault: { kind: "hang" } }],
      "tidy up": [bash("echo tidy > tidied"), says("tidy")],
    });
    const env = machine.write(
      join(machine.configDir, "env"),
      `OPENAI_API_KEY=${OPENAI_KEY}\nOPENAI_BASE_URL=${model.openaiUrl}\n`,
    );
    chmodSync(env, 0o600);
    usersInit(
      machine,
      `supervisors:
  - name: house
    strategy: one_for_one
    required: true
    project: ${machine.project}
    children:
      - { id: watch, intent: watch the house, provider: openai, model: m, max_steps: 7 }
      - { id: tidy, intent: tidy up, provider: openai, model: m, restart: transient, allow: [Bash] }
`,
    );
    machine.env.OPENAI_API_KEY = "sk-of-the-shell-and-not-of-the-agents";
    await machine.ok(["daemon", "start"]);
    await until(() => machine.has("tidied"), "the work of the second agent");
    await until(async () => (await listed(machine, ["--all-projects"])).length === 2, "its end");
    const [house, watch] = await listed(machine, ["--all-projects"]);
    expect(house).toMatchObject({
      kind: "supervisor",
      agent: "supervisor",
      intent: "house",
      project: machine.project,
    });
    expect(watch).toMatchObject({ intent: "watch the house", parent_uuid: house?.uuid, max_steps: 7 });
    const keys = model.requests.map(({ headers }) => headers.get("authorization"));
    expect(new Set(keys)).toEqual(new Set([`Bearer ${OPENAI_KEY}`]));

    // It is an agent like any other: killed, it comes back.
    await machine.ok(["kill", String(watch?.pid)]);
    await until(async () => {
      const [, again] = await listed(machine, ["--all-projects"]);
      return again !== undefined && again.pid > (watch?.pid ?? 0);
    }, "its next process");
    expect((await unit(machine, "house")).restarts).toBe(1);
    await model.arrived(4);
    const [, again] = await listed(machine, ["--all-projects"]);
    await machine.ok(["daemon", "stop"]);
    expect(machine.leftovers()).toEqual([]);
    // It resumes with the daemon.
    expect(recordOf(machine, again?.uuid ?? "")).toMatchObject({
      exit_code: 75,
      suspended: { cause: "stop" },
    });
    expect(recordOf(machine, house?.uuid ?? "")).toMatchObject({ exit_code: 143, exit_reason: "terminated" });
  });
});

describe("a project's init.yaml", () => {
  const FILE = ".rnix/init.yaml";

  test("is left out and named while untrusted; once it is trusted the next run starts it", async () => {
    await using machine = await Machine.playing({ "say so": [says("so")] });
    machine.write(FILE, `services:\n${service("queue", "touch up; exec sleep 600")}`);
    const before = await machine.run(["spawn", "say so"]);
    expect(before.code).toBe(0);
    expect(before.stderr).toContain(`not trusted, so left out: the services of ${machine.project}/${FILE}`);
    expect(machine.has("up")).toBe(false);
    expect(await status(machine)).toMatchObject({
      init: [],
      init_problems: [{ path: `${machine.project}/${FILE}`, message: expect.stringContaining("rnix trust") }],
    });

    const trusted = await machine.run(["trust", "--yes"]);
    expect(trusted.stdout).toContain("services started with the daemon");
    const after = await machine.run(["spawn", "say so"]);
    expect(after.stderr).not.toContain("not trusted");
    expect(await unit(machine, "queue")).toMatchObject({ state: "running", project: machine.project });
    expect((await status(machine)).init_problems).toEqual([]);
    await until(() => machine.has("up"), "the program");

    // A change to it must be trusted again.
    await machine.ok(["daemon", "stop"]);
    machine.write(FILE, `services:\n${service("queue", "touch worse; exec sleep 600")}`);
    expect((await machine.run(["spawn", "say so"])).stderr).toContain("not trusted");
    expect(machine.has("worse")).toBe(false);
  });

  test("starts with the daemon, and each unit is there once after kill -9 of the daemon", async () => {
    await using machine = await Machine.playing({ "say so": [says("so")] });
    machine.write(FILE, `services:\n${service("queue", "exec sleep 600")}`);
    await machine.run(["trust", "--yes"]);
    expect((await machine.run(["spawn", "say so", "-q"])).stdout).toBe("so\n");
    await until(() => sleeping(machine) === 1, "the program");
    await machine.endDaemon();
    expect(sleeping(machine)).toBe(1);
    await machine.ok(["daemon", "start"]);
    await machine.until(["daemon", "status"], /queue +command +no +running/);
    await machine.until(["daemon", "logs"], /ended what a dead rnix left running: .*sleep 600/);
    await until(() => sleeping(machine) === 1, "the end of the old one");
    const ended = await machine.json(["ps", "-a", "--json"]);
    expect(ended.filter(({ state }: ProcInfo) => state === "running")).toHaveLength(2);
  });

  for (const [what, yaml, code, words] of [
    [
      "requires what does not come up",
      "services:\n  - { name: db, type: command, required: true, config: { command: [/no/such/program] } }\n",
      69,
      "The required command db did not come up: ",
    ],
    ["is wrong", "services:\n  - { name: db, type: comand }\n", 64, "init.yaml:2:23: "],
  ] as const) {
    test(`that ${what} refuses that project's runs until it is corrected, and no other project's`, async () => {
      await using machine = await Machine.playing({ "say so": [says("so")] });
      machine.write(FILE, yaml);
      await machine.run(["trust", "--yes"]);
      const other = join(machine.elsewhere, "other");
      mkdirSync(join(other, ".rnix"), { recursive: true });
      for (let round = 0; round < 2; round++) {
        const refused = await machine.run(["spawn", "say so"]);
        expect(refused.code).toBe(code);
        expect(refused.stderr).toContain(words);
        expect((await machine.run(["spawn", "say so", "-q"], { cwd: other })).stdout).toBe("so\n");
      }
      const { init_problems } = await status(machine);
      expect(init_problems).toMatchObject([
        { path: `${machine.project}/${FILE}`, message: expect.stringContaining(words) },
      ]);
      const daemon = machine.daemonPid;

      machine.write(FILE, `services:\n${service("db", "exec sleep 600", "required: true, ")}`);
      await machine.run(["trust", "--yes"]);
      expect((await machine.run(["spawn", "say so", "-q"])).stdout).toBe("so\n");
      expect(await unit(machine, "db")).toMatchObject({ state: "running" });
      expect((await status(machine)).init_problems).toEqual([]);
      expect(machine.daemonPid).toBe(daemon);
    });
  }

  test("is ignored by --no-daemon", async () => {
    await using machine = await Machine.playing({ "say so": [says("so")] });
    machine.write(FILE, `services:\n${service("queue", "touch up; exec sleep 600", "required: true, ")}`);
    await machine.run(["trust", "--yes"]);
    expect((await machine.run(["spawn", "say so", "-q", "--no-daemon"])).stdout).toBe("so\n");
    expect(machine.has("up")).toBe(false);
  });
});
