import { describe, expect, test } from "bun:test";
import { chmodSync, chownSync, mkdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { Machine, type RunOptions } from "../support/machine.ts";
import { dropPrivileges } from "../support/unprivileged.ts";

const SPAWN = ["spawn", "do it", "--provider", "replay", "--model", "script.yaml"];
const DONE = { code: 0, stdout: "done\n" };
/** Only root can become a user who has no folders anywhere. */
const IS_ROOT = process.getuid?.() === 0;

/** A machine whose user can write to the project and the temporary folder, but not to HOME. */
class HomelessMachine extends Machine {
  readonly data: string;
  readonly uid: number;

  constructor() {
    super();
    this.write("script.yaml", "responses:\n  - text: done\n");
    delete this.env.XDG_DATA_HOME;
    delete this.env.XDG_CONFIG_HOME;
    chmodSync(this.home, 0o555);
    this.uid = dropPrivileges(this);
    this.data = join(this.temp, `rnix-data-${this.uid}`);
  }

  override async close(): Promise<string[]> {
    await this.run(["daemon", "stop"]);
    rmSync(this.data, { recursive: true, force: true });
    return super.close();
  }
}

/** What HOME is, as a variable of each command. */
const HOMES: [string, RunOptions["env"]][] = [
  ["that can't be written", {}],
  ["that does not exist", { HOME: "/nonexistent" }],
  ["that is a file", { HOME: "/dev/null" }],
];

describe.each(HOMES)("with a HOME %s", (_, env) => {
  test.each(["in the daemon", "--no-daemon"])(
    "a run works %s, is recorded, and says where the data is",
    async (how) => {
      await using machine = new HomelessMachine();
      const args = how === "--no-daemon" ? [...SPAWN, how] : SPAWN;
      const spawned = await machine.run(args, { env });
      expect(spawned).toMatchObject(DONE);
      const notice = new RegExp(`^note: .*/rnix can't be written: .* ${machine.data} .*XDG_DATA_HOME`, "m");
      expect(spawned.stderr).toMatch(notice);
      expect(statSync(machine.data).mode & 0o777).toBe(0o700);
      expect(machine.has(".rnix/data/steps")).toBe(true);
      // Later commands find the same data.
      expect((await machine.run(["log", "1"], { env })).stdout).toContain("done");
      expect((await machine.run(args, { env })).stderr).toMatch(/^process 2 /m);
    },
  );
});

/** Folders of another user that are closed, as HOME is after `sudo -u`. */
const CLOSED = ["alice", "alice/.config", "alice/.config/rnix"];

describe.each(CLOSED)("with the HOME of another user, where %s is closed", (closed) => {
  test.if(IS_ROOT).each(["in the daemon", "--no-daemon"])("a run works %s", async (how) => {
    await using machine = new HomelessMachine();
    const home = join(machine.elsewhere, "alice");
    const folder = join(machine.elsewhere, closed);
    mkdirSync(folder, { recursive: true });
    chmodSync(folder, 0o700);
    const args = how === "--no-daemon" ? [...SPAWN, how] : SPAWN;
    const spawned = await machine.run(args, { env: { HOME: home } });
    expect(spawned).toMatchObject(DONE);
    expect(spawned.stderr).toContain(`note: HOME (${home}) is another user's and can't be read`);
    expect(spawned.stderr).toContain(`are in ${machine.data} for now`);
    const env = { HOME: home, XDG_DATA_HOME: join(machine.elsewhere, "data") };
    const kept = await machine.run([...SPAWN, "--no-daemon"], { env });
    expect(kept).toMatchObject(DONE);
    expect(kept.stderr).toContain("its settings, keys and skills are left out");
  });
});

test.if(IS_ROOT)("a closed folder of one's own HOME is an error, because it may hold rules", async () => {
  await using machine = new HomelessMachine();
  const home = join(machine.elsewhere, "mine");
  mkdirSync(home);
  chownSync(home, machine.uid, machine.uid);
  mkdirSync(join(home, ".config"), { mode: 0o700 });
  const refused = await machine.run([...SPAWN, "--no-daemon"], { env: { HOME: home } });
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain(`Cannot look at ${home}/.config/rnix/config.yaml (EACCES)`);
});

test.if(IS_ROOT)("a run works without any variable", async () => {
  await using machine = new HomelessMachine();
  const env = Object.fromEntries(Object.keys(machine.env).map((name) => [name, undefined]));
  const data = `/tmp/rnix-data-${machine.uid}`;
  try {
    const spawned = await machine.run([...SPAWN, "--no-daemon"], { env });
    expect(spawned).toMatchObject(DONE);
    expect(spawned.stderr).toContain(data);
  } finally {
    rmSync(data, { recursive: true, force: true });
  }
});

test.if(IS_ROOT)("the daemon starts with an XDG_RUNTIME_DIR that can't be used", async () => {
  await using machine = new HomelessMachine();
  const env = { XDG_RUNTIME_DIR: "/run/user/none" };
  const folder = `/tmp/rnix-${machine.uid}`;
  try {
    expect(await machine.run(SPAWN, { env })).toMatchObject(DONE);
    expect((await machine.run(["daemon", "status"], { env })).stdout).toContain(`${folder}/rnix.sock`);
    await machine.ok(["daemon", "stop"], { env });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("what each refusal advises works", async () => {
  await using machine = new HomelessMachine();
  const refused = await machine.run([...SPAWN, "--no-daemon"], {
    env: { XDG_DATA_HOME: join(machine.home, "locked") },
  });
  expect(refused.code).toBe(69);
  expect(refused.stderr).toContain("XDG_DATA_HOME");
  const data = { XDG_DATA_HOME: join(machine.elsewhere, "data") };
  expect(await machine.run([...SPAWN, "--no-daemon"], { env: data })).toMatchObject(DONE);

  machine.remove(".rnix");
  chmodSync(machine.project, 0o555);
  const readOnly = await machine.run([...SPAWN, "--no-daemon"], { env: data });
  expect(readOnly).toMatchObject(DONE);
  expect(readOnly.stderr).toContain(`${machine.project} can't be written`);
  const both = { ...data, RNIX_DATA_DIR: join(machine.elsewhere, "runs") };
  expect(await machine.run([...SPAWN, "--no-daemon"], { env: both })).toMatchObject(DONE);
});

test("a folder for the data that another user could have made is refused", async () => {
  await using machine = new HomelessMachine();
  mkdirSync(machine.data);
  chmodSync(machine.data, 0o777);
  const refused = await machine.run([...SPAWN, "--no-daemon"]);
  expect(refused.code).toBeGreaterThan(0);
  expect(refused.stderr).toMatch(/mode 777: expected a folder of user \d+ with mode 700/);
  const env = { XDG_DATA_HOME: join(machine.elsewhere, "data") };
  expect(await machine.run([...SPAWN, "--no-daemon"], { env })).toMatchObject(DONE);
  rmSync(machine.data, { recursive: true });
});

test("rnix doctor and rnix trust say where the data is", async () => {
  await using machine = new HomelessMachine();
  expect((await machine.run(["doctor"])).stdout).toContain(`are in ${machine.data}`);
  expect((await machine.run(["trust", "--show"])).stderr).toContain(`are in ${machine.data}`);
});
