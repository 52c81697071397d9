import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommandLine } from "../../src/cli/cli.ts";
import type { Input } from "../../src/cli/io.ts";
import { FakeIo, type FakeOptions } from "./support.ts";

const base = mkdtempSync(join(tmpdir(), "rnix-cli-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));

let home = "";
let dir = "";
let count = 0;
beforeEach(() => {
  home = join(base, String(count++));
  dir = join(home, "work", "project");
  mkdirSync(dir, { recursive: true });
  mkdirSync(join(home, "run"), { mode: 0o700 });
});

function env(): Record<string, string> {
  return { HOME: home, XDG_RUNTIME_DIR: join(home, "run") };
}

async function run(argv: string[], o: FakeOptions = {}) {
  const io = new FakeIo({ cwd: dir, down: true, ...o, env: { ...env(), ...o.env } });
  const code = await runCommandLine(argv, io);
  expect(io.sessions.filter(({ onlyRunning }) => !onlyRunning)).toEqual([]);
  return { code, out: io.stdout.text, err: io.stderr.text, io };
}

const PLUGIN =
  'import { definePlugin } from "rnix/plugin";\nexport default definePlugin({ name: "mine" });\n';

function withPlugin(): string {
  mkdirSync(join(dir, "plugins"), { recursive: true });
  mkdirSync(join(dir, ".rnix"), { recursive: true });
  const file = join(dir, "plugins", "mine.ts");
  writeFileSync(file, PLUGIN);
  return file;
}

describe("rnix config", () => {
  test("shows every setting with its value and where it was set", async () => {
    mkdirSync(join(dir, ".rnix"));
    writeFileSync(join(dir, ".rnix", "config.yaml"), "max_steps: 7\n");
    const { code, out } = await run(["config"]);
    expect(code).toBe(0);
    expect(out).toMatch(/max_steps +7 +100 +.*config\.yaml:1:1 +steps of a run/);
    expect(out).toMatch(/grace +10s +10s +default/);
    const lines = JSON.parse((await run(["config", "--json"])).out);
    expect(lines).toContainEqual(expect.objectContaining({ key: "max_steps", value: "7", default: "100" }));
  });

  test("a mistake in a file is exit 64 with its line and column", async () => {
    mkdirSync(join(dir, ".rnix"));
    writeFileSync(join(dir, ".rnix", "config.yaml"), "max_stepz: 7\n");
    const { code, err } = await run(["config"]);
    expect(code).toBe(64);
    expect(err).toContain("config.yaml:1:1");
  });
});

describe("rnix init", () => {
  test("makes a .rnix folder that every command can read, and overwrites nothing", async () => {
    const first = await run(["init"]);
    expect(first.code).toBe(0);
    const written = first.out.split("\n").filter((line) => line.startsWith("wrote "));
    expect(written.map((line) => line.slice(`wrote ${dir}/.rnix/`.length)).sort()).toEqual(
      [
        "agents/.gitkeep",
        "config.yaml",
        "plugins/.gitkeep",
        "skills/.gitkeep",
        "tsconfig.json",
        "types/plugin.ts",
      ].sort(),
    );
    expect(statSync(join(dir, ".rnix")).mode & 0o777).toBe(0o700);
    expect(await Bun.file(join(dir, ".rnix", "types", "plugin.ts")).text()).toContain(
      "export function definePlugin",
    );

    writeFileSync(join(dir, ".rnix", "config.yaml"), "max_steps: 7\n");
    const second = await run(["init"]);
    expect(second.code).toBe(0);
    expect(second.out).not.toContain("wrote");
    expect(await Bun.file(join(dir, ".rnix", "config.yaml")).text()).toBe("max_steps: 7\n");
  });

  test("writes a config.yaml that sets nothing, and whose commented lines are valid", async () => {
    await run(["init"]);
    const file = join(dir, ".rnix", "config.yaml");
    expect((await run(["config"])).code).toBe(0);
    writeFileSync(file, (await Bun.file(file).text()).replace(/^# (\w+: )/gm, "$1"));
    const { code, out } = await run(["config"]);
    expect(code).toBe(0);
    expect(out).toContain("config.yaml:");
  });

  test("refuses HOME", async () => {
    const { code, err } = await run(["init"], { cwd: home });
    expect(code).toBe(64);
    expect(err).toContain("can't be a project");
    expect(existsSync(join(home, ".rnix"))).toBe(false);
  });
});

describe("rnix plugins new", () => {
  test("writes a plugin that passes rnix plugins check and its own types", async () => {
    const created = await run(["plugins", "new", "word-count"]);
    expect(created.code).toBe(0);
    const file = created.out.trim();
    expect(file).toBe(join(dir, ".rnix", "plugins", "word-count.ts"));
    const read = JSON.parse((await run(["plugins", "check", file, "--json"])).out);
    expect(read).toMatchObject({ ok: true, loaded: false, devices: [] });
    await run(["trust", "--yes"]);
    const check = await run(["plugins", "check", file, "--json"]);
    const report = JSON.parse(check.out);
    expect(report).toMatchObject({ ok: true, name: "word-count", problems: [], warnings: [] });
    expect(report.devices).toMatchObject([{ path: "/dev/word-count", tools: ["WordCount"] }]);
    expect(check.code).toBe(0);

    const tsc = join(import.meta.dir, "../../node_modules/.bin/tsc");
    const types = Bun.spawnSync([tsc, "--noEmit", "-p", join(dir, ".rnix")]);
    expect(types.stdout.toString()).toBe("");
    expect(types.exitCode).toBe(0);
  });

  test("does not overwrite, and refuses invalid names", async () => {
    await run(["plugins", "new", "jira"]);
    expect(await run(["plugins", "new", "jira"])).toMatchObject({
      code: 64,
      err: expect.stringContaining("exists already"),
    });
    expect((await run(["plugins", "new", "shell"])).err).toContain("shell is a stock plugin");
    for (const name of ["Jira", "../x", "a b", "-", "a--b", ""]) {
      expect((await run(["plugins", "new", "--", name])).code).toBe(64);
    }
    expect(readdirSync(join(dir, ".rnix", "plugins"))).toEqual(["jira.ts"]);
  });
});

describe("rnix agents new, rnix skills new", () => {
  test("write valid files, and overwrite none", async () => {
    const agent = await run(["agents", "new", "reviewer"]);
    const folder = join(dir, ".rnix/agents/reviewer");
    expect(agent).toMatchObject({
      code: 0,
      out: `${join(folder, "agent.yaml")}\n${join(folder, "instructions.md")}\n`,
    });
    expect(agent.err).toContain("rnix spawn --agent reviewer");
    const skill = await run(["skills", "new", "release-notes"]);
    const file = join(dir, ".rnix/skills/release-notes/SKILL.md");
    expect(skill).toMatchObject({ code: 0, out: `${file}\n` });
    expect(await run(["skills", "check", ".rnix/skills"])).toMatchObject({ code: 0, out: `ok  ${file}\n` });
    expect(readFileSync(join(folder, "agent.yaml"), "utf8")).toStartWith("name: reviewer\n");
    for (const again of [
      ["agents", "new", "reviewer"],
      ["skills", "new", "release-notes"],
    ]) {
      expect(await run(again)).toMatchObject({ code: 64, err: expect.stringContaining("exists already") });
    }
  });

  test.each(["agents", "skills"])("of %s refuses an invalid name and a stock name", async (kind) => {
    for (const name of ["Jira", "../x", "a b", "-", "a--b", "", "x".repeat(65)]) {
      expect((await run([kind, "new", "--", name])).code).toBe(64);
    }
    const stock = kind === "agents" ? "coder" : "testing";
    expect((await run([kind, "new", stock])).err).toContain(`${stock} is a stock`);
  });
});

describe("rnix plugins check", () => {
  test("names the error of a plugin with file and line, and exits 1", async () => {
    const file = join(dir, "broken.ts");
    writeFileSync(file, 'import "./not-there.ts";\nexport default 1;\n');
    const { code, out } = await run(["plugins", "check", "broken.ts"]);
    expect(code).toBe(1);
    expect(out).toContain("does not load");
    expect(out).toContain(`${file}:1:`);
  });

  test("an empty file, or one without a default export, is no plugin", async () => {
    for (const text of ["", "// later\n", "export const a = 1;\n"]) {
      writeFileSync(join(dir, "none.ts"), text);
      const { code, out } = await run(["plugins", "check", "none.ts"]);
      expect([text, code, out]).toEqual([text, 1, expect.stringContaining("It has no default export")]);
    }
  });

  test("runs nothing of an untrusted project without the user's yes", async () => {
    const mark = join(dir, "mark");
    const file = join(dir, "evil.ts");
    const head = `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(mark)}, "");`;
    writeFileSync(file, `${head}\nexport default { name: "evil" };\n`);
    const read = await run(["plugins", "check", file]);
    expect([read.code, existsSync(mark)]).toEqual([0, false]);
    expect(read.out).toContain("It was not loaded, because it is not trusted");
    for (const options of [{}, { env: { RNIX_UNIT: "u1" } }]) {
      const args = ["plugins", "check", file, "--run", ...("env" in options ? ["--yes"] : [])];
      expect((await run(args, options)).code).not.toBe(0);
      expect(existsSync(mark)).toBe(false);
    }
    const no = { kind: "tty" as const, read: async () => new TextEncoder().encode("n\n") };
    expect((await run(["plugins", "check", file, "--run"], { stdin: no })).code).toBe(1);
    expect(existsSync(mark)).toBe(false);
    expect((await run(["plugins", "check", file, "--run", "--yes"])).out).toContain("loads");
    expect(existsSync(mark)).toBe(true);
  });

  test("a missing file is exit 64", async () => {
    const { code, err } = await run(["plugins", "check", "nothing.ts"]);
    expect(code).toBe(64);
    expect(err).toContain('FILE: could not use "nothing.ts": there is no such file');
  });
});

describe("rnix skills check", () => {
  test("prints for each skill whether it is valid", async () => {
    mkdirSync(join(dir, "skills", "good"), { recursive: true });
    mkdirSync(join(dir, "skills", "bad"), { recursive: true });
    writeFileSync(
      join(dir, "skills", "good", "SKILL.md"),
      "---\nname: good\ndescription: Does good\n---\nDo it.\n",
    );
    writeFileSync(join(dir, "skills", "bad", "SKILL.md"), "---\nname: other\n---\nx\n");
    const good = await run(["skills", "check", "skills/good"]);
    expect(good).toMatchObject({ code: 0, out: `ok  ${join(dir, "skills/good/SKILL.md")}\n` });
    const both = await run(["skills", "check", "skills"]);
    expect(both.code).toBe(1);
    expect(both.out).toContain("skills/bad/SKILL.md");
    const { problems } = JSON.parse((await run(["skills", "check", "skills", "--json"])).out);
    expect(problems).not.toEqual([]);
    const foreign = "---\nname: good\ndescription: Does good\nmodel: opus\n---\nDo it.\n";
    writeFileSync(join(dir, "skills", "good", "SKILL.md"), foreign);
    const warned = await run(["skills", "check", "skills/good"]);
    expect(warned.code).toBe(0);
    expect(warned.out).toMatch(
      /^ok {2}.*\nwarning .*SKILL\.md:4:1: the key "model" is not part of the format/,
    );
  });

  test("a folder without skills is exit 64", async () => {
    expect((await run(["skills", "check"])).code).toBe(64);
  });
});

describe("rnix trust", () => {
  test("--show lists the content and changes nothing", async () => {
    withPlugin();
    const { code, out } = await run(["trust", "--show"]);
    expect(code).toBe(0);
    expect(out).toMatch(/new +plugin mine: runs as you, 1 file /);
    const { items } = JSON.parse((await run(["trust", "--show", "--json"])).out);
    expect(items).toMatchObject([{ kind: "plugin", name: "mine", state: "new" }]);
  });

  test("--yes trusts the content: a changed file needs trust again", async () => {
    const file = withPlugin();
    expect((await run(["trust", "--yes"])).code).toBe(0);
    expect((await run(["trust", "--show"])).out).toMatch(/^trusted/m);
    expect((await run(["trust", "--yes"])).err).toContain("trusted already");
    writeFileSync(file, `${PLUGIN}// changed\n`);
    expect((await run(["trust", "--show"])).out).toMatch(/^changed/m);
  });

  test("--follow trusts the folder, --revoke removes the trust", async () => {
    const file = withPlugin();
    expect((await run(["trust", "--follow", "--yes"])).code).toBe(0);
    writeFileSync(file, `${PLUGIN}// changed\n`);
    expect((await run(["trust", "--show"])).out).toMatch(/^trusted/m);
    expect((await run(["trust", "--revoke"])).code).toBe(0);
    expect((await run(["trust", "--show"])).out).toMatch(/^new/m);
  });

  test("without a terminal it needs --yes", async () => {
    withPlugin();
    for (const args of [["trust"], ["trust", "--follow"]]) {
      const { code, err } = await run(args);
      expect(code).toBe(64);
      expect(err).toContain("--yes");
    }
    expect((await run(["trust", "--show"])).out).toMatch(/^new/m);
  });

  const answer = (text: string | null): Input => ({
    kind: "tty",
    read: async () => (text === null ? null : new TextEncoder().encode(text)),
  });

  test.each([
    ["y\n", 0, "trusted"],
    ["Yes\n", 0, "trusted"],
    ["n\n", 1, "new"],
    ["\n", 1, "new"],
    ["yep\n", 1, "new"],
    [null, 1, "new"],
  ])("at a terminal the answer %j decides: %i", async (text, exit, state) => {
    withPlugin();
    const { code, err } = await run(["trust"], { stdin: answer(text) });
    expect(code).toBe(exit);
    expect(err).toContain("[y/N]");
    expect((await run(["trust", "--show"])).out).toMatch(new RegExp(`^${state}`, "m"));
  });

  test("a question without an answer counts as no", async () => {
    withPlugin();
    const io = new FakeIo({
      down: true,
      cwd: dir,
      env: env(),
      stdin: { kind: "tty", read: () => new Promise(() => undefined) },
    });
    const asked = io.whenTimer();
    const code = runCommandLine(["trust"], io);
    await asked;
    expect(io.timers.map(({ ms }) => ms)).toEqual([300_000]);
    io.timers[0]?.fire();
    expect(await code).toBe(1);
  });

  test("is refused inside a run, except --show", async () => {
    withPlugin();
    const inside = { env: { RNIX_UNIT: "u1" } };
    for (const args of [["--yes"], ["--follow", "--yes"], ["--revoke"]]) {
      const { code, err } = await run(["trust", ...args], inside);
      expect(code).toBe(1);
      expect(err).toContain("refused inside a run");
    }
    expect((await run(["trust", "--show"], inside)).code).toBe(0);
    expect((await run(["trust", "--show"])).out).toMatch(/^new/m);
  });

  test("flags that exclude each other are refused", async () => {
    expect((await run(["trust", "--follow", "--revoke"])).code).toBe(64);
    expect((await run(["trust", "--json"])).code).toBe(64);
  });

  test("an empty project has nothing to trust", async () => {
    mkdirSync(join(dir, ".rnix"));
    const { code, out, err } = await run(["trust"]);
    expect(code).toBe(0);
    expect(out).toContain("nothing here needs trust");
    expect(err).toContain("nothing to trust");
  });
});

describe("rnix daemon", () => {
  test("start and stop are refused inside a run", async () => {
    for (const word of ["start", "stop"]) {
      const { code, err } = await run(["daemon", word], { env: { RNIX_UNIT: "u1" } });
      expect(code).toBe(1);
      expect(err).toContain("refused inside a run");
    }
  });

  test("logs prints the end of the log, also without a daemon", async () => {
    expect(await run(["daemon", "logs"])).toMatchObject({ code: 0, out: "" });
    const data = join(home, ".local/share/rnix");
    mkdirSync(data, { recursive: true });
    writeFileSync(join(data, "daemon.log.1"), "one\ntwo\n");
    writeFileSync(join(data, "daemon.log"), "three\nfour\n");
    expect((await run(["daemon", "logs"])).out).toBe("one\ntwo\nthree\nfour\n");
    expect((await run(["daemon", "logs", "-n", "3"])).out).toBe("two\nthree\nfour\n");
  });
});

describe("rnix doctor", () => {
  const answers: FakeOptions["answers"] = {
    // What /dev/cron answers: no jobs.
    call: {
      name: null,
      path: "/dev/cron",
      input: null,
      state: "done",
      result: "[]",
      encoding: "utf8",
      truncated: false,
      error: null,
      error_code: null,
      started_at: "2026-01-01T00:00:00.000Z",
      duration_ms: 1,
      notices: [],
    },
    daemon_status: {
      version: "0.1.0",
      protocol: 1,
      build: "source",
      pid: 5,
      started_at_ms: 0,
      uptime_ms: 1,
      socket: "/s",
      log: "/l",
      processes: 0,
      connections: 1,
      rss_bytes: 1,
      strays: [],
      loop_delay_ms: { p50: 0, max: 0 },
      init: [],
      init_problems: [],
    },
    list_providers: {
      providers: [
        {
          name: "openai",
          device: "/dev/llm/openai",
          model: "m",
          models: [],
          base_url: null,
          key: "OPENAI_API_KEY",
          usable: true,
          because: "OPENAI_API_KEY",
          chosen: true,
        },
      ],
      diagnostics: [],
    },
  };

  async function doctor(o: FakeOptions = {}) {
    const io = new FakeIo({ cwd: dir, env: env(), answers, ...o });
    const code = await runCommandLine(["doctor"], io);
    return { code, out: io.stdout.text };
  }

  test("finds no problem on a healthy machine", async () => {
    const { code, out } = await doctor();
    expect(out).not.toContain("FAILED");
    expect(code).toBe(0);
    for (const name of [
      "binary",
      "socket folder",
      "daemon",
      "providers",
      "programs left running",
      "sandbox",
    ]) {
      expect(out).toContain(`${name}: `);
    }
  });

  test("says what to do about a folder that other users can write, and a key file that they can read", async () => {
    mkdirSync(join(home, "run", "rnix"));
    chmodSync(join(home, "run", "rnix"), 0o755);
    mkdirSync(join(home, ".config/rnix"), { recursive: true });
    writeFileSync(join(home, ".config/rnix/env"), "A=1\n", { mode: 0o644 });
    const { code, out } = await doctor();
    expect(code).toBe(1);
    expect(out).toContain(`chmod 700 ${join(home, "run/rnix")}`);
    expect(out).toContain(`chmod 600 ${join(home, ".config/rnix/env")}`);
  });

  test("says what to do without a provider", async () => {
    const { code, out } = await doctor({
      answers: { ...answers, list_providers: { providers: [], diagnostics: [] } },
    });
    expect(code).toBe(1);
    expect(out).toContain("rnix setup, or export ANTHROPIC_API_KEY");
  });
});
