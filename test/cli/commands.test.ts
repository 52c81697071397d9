import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { runCommandLine } from "../../src/cli/cli.ts";
import type { Command } from "../../src/cli/command.ts";
import { loadCommands } from "../../src/cli/commands.ts";
import { type Flag, parse, readFlags } from "../../src/cli/flags.ts";
import { stockCommands } from "../../src/server/offline-commands.ts";
import { Folder } from "../support/folder.ts";
import { FakeIo } from "./support.ts";

/** Every command and subcommand with its path. */
async function all(): Promise<[string, Command][]> {
  const commands = await loadCommands();
  return commands.flatMap(([name, command]): [string, Command][] => [
    [name, command],
    ...Object.entries(command.subcommands ?? {}).map(([word, sub]): [string, Command] => [
      `${name} ${word}`,
      sub,
    ]),
  ]);
}

/** What the daemon answers in a project without plugins of its own. */
const list_commands = {
  commands: (await stockCommands()).map((spec) => ({ ...spec, plugin: spec.name })),
  notices: [],
};
const COMMANDS = await all();
const EVERY_FLAG = COMMANDS.flatMap(([words, { flags }]) =>
  Object.entries(flags).map(([name, flag]): [string, string, Flag<unknown>] => [words, name, flag]),
);

async function run(...argv: string[]): Promise<{ code: number; out: string; err: string; io: FakeIo }> {
  const io = new FakeIo({ answers: { list_commands } });
  const code = await runCommandLine(argv, io);
  return { code, out: io.stdout.text, err: io.stderr.text, io };
}

/** What the server was asked for, beside the names of the plugins' commands. */
function beyondNames(io: FakeIo): string[] {
  return io.asked.map(({ method }) => method).filter((method) => method !== "list_commands");
}

describe("every flag", () => {
  /** Folders to work in, and what the daemon decides or reads itself. */
  const DECIDED_LATER = ["add", "cwd", "project", "model", "deliver"];

  test("that names a file or a folder says whether it is read or written", () => {
    const unmarked = EVERY_FLAG.filter(
      ([, name, { hint = "", file }]) =>
        /FILE|DIR|PATH/.test(hint) && file === undefined && !DECIDED_LATER.includes(name),
    );
    expect(unmarked.map(([words, name]) => `${words} --${name}`)).toEqual([]);
  });
});

describe("every command", () => {
  test("of the interfaces exists, and no other", () => {
    expect(COMMANDS.map(([words]) => words).sort()).toEqual(
      [
        "agents",
        "allow",
        "answer",
        "asks",
        "attach",
        "call",
        "cat",
        "chat",
        "compact",
        "completions",
        "config",
        "continue",
        "cron",
        "cron add",
        "cron disable",
        "cron enable",
        "cron history",
        "cron install",
        "cron list",
        "cron next",
        "cron rm",
        "cron run",
        "cron show",
        "cron uninstall",
        "daemon",
        "daemon logs",
        "daemon restart",
        "daemon start",
        "daemon status",
        "daemon stop",
        "demo",
        "deny",
        "diff",
        "doctor",
        "gc",
        "init",
        "kill",
        "log",
        "mcp",
        "mcp add",
        "mcp list",
        "mcp login",
        "mcp logout",
        "mcp logs",
        "mcp remove",
        "mcp serve",
        "mcp test",
        "memory",
        "memory add",
        "memory review",
        "memory rm",
        "memory search",
        "memory show",
        "models",
        "morning",
        "pause",
        "plugins",
        "plugins check",
        "plugins new",
        "agents new",
        "skills new",
        "providers",
        "ps",
        "replay",
        "tasks",
        "tasks list",
        "test",
        "resume",
        "setup",
        "sh",
        "show",
        "skills",
        "skills check",
        "spawn",
        "steps",
        "strace",
        "suspend",
        "take",
        "units",
        "units output",
        "units stop",
        "tools",
        "top",
        "trust",
        "undo",
        "version",
        "wait",
        "dashboard",
        "export",
        "compose",
        "compose down",
        "compose graph",
        "compose resume",
        "compose status",
        "compose up",
        "workflow",
        "workflow list",
        "workflow resume",
        "workflow run",
        "workflow show",
      ].sort(),
    );
  });

  test.each(COMMANDS)("%s: its help has a description, every flag and an example", async (words, command) => {
    const { code, out, err } = await run(...words.split(" "), "--help");
    expect(code).toBe(0);
    expect(err).toBe("");
    expect(out.replace(/\s+/g, " ")).toContain(command.about);
    for (const [name, flag] of Object.entries(command.flags)) {
      if (flag.hidden) expect(out).not.toContain(`--${name}`);
      else expect(out).toContain(`--${name}`);
    }
    for (const line of Object.keys(command.examples)) expect(out).toContain(line);
    // An example is one line, so that it can be copied.
    const examples = new Set(Object.keys(command.examples).map((line) => `  ${line}`));
    const lines = out.split("\n").filter((line) => !examples.has(line));
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
  });

  test.each(COMMANDS)("%s: its examples have captions of their own", (words, command) => {
    const captions = Object.values(command.examples);
    expect(captions).not.toEqual([]);
    expect(new Set(captions).size).toBe(captions.length);
    // Of a command with subcommands they may be those of the examples.
    if (command.subcommands === undefined) expect(captions).not.toContain(command.about);
    for (const caption of captions)
      expect([words, caption]).toEqual([words, expect.not.stringMatching(/^(and|of|those) /)]);
  });

  test.each(COMMANDS)("%s: its examples are valid command lines", async (words, command) => {
    for (const line of Object.keys(command.examples)) {
      const [program, ...args] = lastCommandOf(line);
      expect(program).toBe("rnix");
      const own = words.split(" ");
      const rest = args.slice(0, own.length).join(" ") === words ? args.slice(own.length) : args.slice(1);
      const sub = rest[0] === undefined ? undefined : command.subcommands?.[rest[0]];
      const parsed = await parse(sub ? rest.slice(1) : rest, (sub ?? command).flags);
      expect(() => readFlags((sub ?? command).flags, parsed)).not.toThrow();
    }
  });

  test.each(COMMANDS)("%s: refuses an unknown flag with 64, and names it", async (words) => {
    const { code, out, err, io } = await run(...words.split(" "), "--frobnicate");
    expect(code).toBe(64);
    expect(out).toBe("");
    expect(err).toContain(`rnix ${words}: unknown flag --frobnicate`);
    expect(err).toContain(`see rnix ${words} --help`);
    expect(beyondNames(io)).toEqual([]);
  });

  test.each(COMMANDS.filter(([, { run, args }]) => run !== undefined && !args?.some(({ many }) => many)))(
    "%s: refuses an extra argument with 64, and names it",
    async (words, { args, subcommands }) => {
      const many = [...Array((args?.length ?? 0) + 1).keys()].map((i) => String(i + 1));
      const { code, err, io } = await run(...words.split(" "), ...many);
      expect(code).toBe(64);
      const quotes = args?.at(-1)?.sentence ? "put it in quotes: " : undefined;
      expect(err).toContain(
        subcommands && (args?.length ?? 0) === 0
          ? "unknown word"
          : (quotes ?? `unexpected argument "${many.length}"`),
      );
      expect(beyondNames(io)).toEqual([]);
    },
  );

  test.each(COMMANDS.filter(([, { args }]) => args?.some(({ optional }) => !optional)))(
    "%s: refuses a missing argument with 64, and names it",
    async (words, { args }) => {
      const { code, err, io } = await run(...words.split(" "));
      expect(code).toBe(64);
      expect(err).toContain(`${args?.[0]?.name} is missing`);
      expect(beyondNames(io)).toEqual([]);
    },
  );
});

describe("every command that shows or changes what exists", () => {
  /** They are about files alone, or about the daemon itself. */
  const STARTS_NONE = new Set(
    [
      ["agents new", "skills new", "skills check", "plugins new", "plugins check", "config", "init", "trust"],
      ["cron install", "cron uninstall", "completions", "version", "workflow list", "compose graph"],
      ["mcp add", "mcp list", "mcp logs", "mcp remove", "mcp serve"],
      ["daemon", "daemon status", "daemon stop", "daemon logs"],
    ].flat(),
  );
  /** Runs of their own: in the daemon, in the command with --no-daemon, or played. */
  const RUNS = new Set(["spawn", "chat", "replay", "test", "demo"]);
  /** Where the first argument that comes to mind is refused. */
  const ARGUMENTS: Record<string, string[]> = {
    allow: ["7", "Bash"],
    cat: ["/proc/7/status"],
    "compose up": ["-f", "graph.yaml"],
    "cron add": ["@daily", "look"],
    export: ["7", "--html", "run.html"],
    sh: ["-c", "true"],
  };

  test.each(COMMANDS.filter(([words, { run }]) => run !== undefined && !RUNS.has(words)))(
    "%s: starts the daemon when none runs, unless it is about files or the daemon itself",
    async (words, { args = [] }) => {
      using home = new Folder();
      writeFileSync(join(home.dir, "graph.yaml"), "nodes: { a: { prompt: look } }\n");
      const io = new FakeIo({ cwd: home.dir, env: { HOME: home.dir, PATH: "" }, down: true });
      const required = args.filter(({ optional }) => !optional).map(() => "7");
      await runCommandLine([...words.split(" "), ...(ARGUMENTS[words] ?? required)], io);
      const starts = io.sessions.some(({ onlyRunning, inside }) => !onlyRunning && !inside);
      expect(starts).toBe(!STARTS_NONE.has(words));
    },
  );
});

describe("every flag", () => {
  test.each(EVERY_FLAG)(
    "%s --%s: the refusal of an extra or a missing letter suggests the flag",
    async (words, name, flag) => {
      if (flag.hidden || name.length < 3) return;
      for (const typo of [`${name}x`, name.slice(0, -1)]) {
        const { code, err } = await run(...words.split(" "), `--${typo}`);
        expect(code).toBe(64);
        expect(err).toContain(`unknown flag --${typo}; did you mean --`);
      }
    },
  );

  const withValue = EVERY_FLAG.filter(([, , flag]) => flag.takesValue);
  test.each(withValue)("%s --%s: is refused by name without its value", async (words, name) => {
    for (const args of [[`--${name}`], [`--${name}`, "--json"]]) {
      const { code, err } = await run(...words.split(" "), ...args);
      expect(code).toBe(64);
      expect(err).toContain(`--${name} needs a value`);
    }
  });

  test.each(withValue)("%s --%s: is refused by name with an empty value", async (words, name, flag) => {
    expect(() => flag.read([""], `--${name}`)).toThrow(`--${name}: expected`);
    expect(words).toBeString();
  });

  test.each(withValue.filter(([, , flag]) => !flag.repeatable))(
    "%s --%s: is refused by name when given twice",
    async (words, name) => {
      const { code, err } = await run(...words.split(" "), `--${name}=1`, `--${name}=2`);
      expect(code).toBe(64);
      expect(err).toContain(`--${name} was given 2 times`);
    },
  );

  test.each(EVERY_FLAG.filter(([, , flag]) => !flag.takesValue))(
    "%s --%s: takes no value",
    async (words, name) => {
      const { code, err } = await run(...words.split(" "), `--${name}=yes`);
      expect(code).toBe(64);
      expect(err).toContain(`--${name} takes no value`);
    },
  );

  test.each(EVERY_FLAG.filter(([, , flag]) => flag.choices !== undefined))(
    "%s --%s: the refusal of a wrong choice lists the valid ones and suggests the nearest",
    async (_words, name, flag) => {
      const choices = flag.choices ?? [];
      for (const choice of choices) expect(flag.read([choice], `--${name}`)).toBe(choice);
      expect(() => flag.read([`${choices[0]}x`], `--${name}`)).toThrow(
        `--${name}: expected one of ${choices.join(", ")}, got "${choices[0]}x"; did you mean ${choices[0]}?`,
      );
    },
  );
});

describe("the root", () => {
  test("rnix --help lists every command with what it does", async () => {
    const { code, out } = await run("--help");
    expect(code).toBe(0);
    const text = out.replace(/\s+/g, " ");
    for (const [name, { about }] of await loadCommands()) expect(text).toContain(` ${name} ${about} `);
    expect(out.split("\n").filter((line) => line.length > 80)).toEqual([]);
  });

  test("rnix without a command fails and prints its help to stderr", async () => {
    const { code, out, err } = await run();
    expect(code).toBe(64);
    expect(out).toBe("");
    expect(err).toContain("spawn");
  });

  test("rnix help spawn is rnix spawn --help", async () => {
    expect((await run("help", "spawn")).out).toBe((await run("spawn", "--help")).out);
    expect((await run("help", "daemon", "stop")).out).toBe((await run("daemon", "stop", "--help")).out);
  });

  test.each([
    ["spwan", "spawn"],
    ["pss", "ps"],
    ["logs", "log"],
    ["Kill", "kill"],
    ["completion", "completions"],
  ])("rnix %s: did you mean %s?", async (typed, meant) => {
    const { code, err } = await run(typed);
    expect(code).toBe(64);
    expect(err).toContain(`unknown command "${typed}"; did you mean ${meant}?`);
  });

  test.each(["list", "ls"])("rnix config %s is rnix config", async (word) => {
    expect(await run("config", word)).toMatchObject({ code: 0, out: (await run("config")).out });
    expect((await run("config", word, "--json")).out).toBe((await run("config", "--json")).out);
    expect((await run("config", word, "more")).code).toBe(64);
  });

  test.each(["agents", "skills", "plugins", "asks", "ps", "models", "providers", "tools"])(
    "rnix %s list asks the daemon what the command alone asks",
    async (name) => {
      const asked = async (...argv: string[]): Promise<unknown> => (await run(...argv)).io.asked;
      expect(await asked(name, "list")).toEqual(await asked(name));
      expect(await asked(name, "list")).not.toEqual([]);
    },
  );

  test.each(["toString", "__proto__", "constructor"])("rnix %s is an unknown command", async (name) => {
    expect((await run(name)).code).toBe(64);
    expect((await run("daemon", name)).code).toBe(64);
    expect((await run("ps", `--${name}`)).code).toBe(64);
  });

  test("a planned command is unknown", async () => {
    for (const name of ["mcp", "shell"]) {
      expect((await run(name)).code).toBe(64);
    }
  });

  test("rnix --version is rnix version", async () => {
    expect(await run("--version")).toMatchObject({ code: 0, out: (await run("version")).out });
  });

  test("the refusal of an unknown subcommand suggests the nearest", async () => {
    expect((await run("daemon", "stopp")).err).toContain('unknown word "stopp"');
    expect((await run("daemon", "stopp")).err).toContain("did you mean stop?");
    expect(await run("daemon")).toMatchObject({
      code: 64,
      err: expect.stringContaining("start, status, stop"),
    });
  });
});

/** The last command of a line, cut into words as a shell would, without redirections. */
function lastCommandOf(line: string): string[] {
  const words = [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c ?? "");
  const command = words.slice(words.lastIndexOf("|") + 1);
  const redirection = command.indexOf(">");
  return redirection < 0 ? command : command.slice(0, redirection);
}
