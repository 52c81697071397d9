import { describe, expect, test } from "bun:test";
import { runCommandLine } from "../../src/cli/cli.ts";
import { COMMANDS, loadCommands } from "../../src/cli/commands.ts";
import { meantCommand } from "../../src/cli/help/meant-command.ts";
import { complete, FakeIo, REF, SPAWNED } from "./support.ts";

async function run(...argv: string[]) {
  const io = new FakeIo({ answers: { spawn: REF }, events: [SPAWNED, complete()], cwd: "/" });
  const code = await runCommandLine(argv, io);
  return { code, out: io.stdout.text, err: io.stderr.text, io };
}

describe("a command line without a command", () => {
  test.each([
    [["do this"], "do this"],
    [["fix the failing test", "--check", "npm test"], "fix the failing test"],
    [["--model", "gpt-5", "do this"], "do this"],
    [["log in fails: find out why"], "log in fails: find out why"],
    [["wait for the build"], "wait for the build"],
    [["first\nsecond"], "first\nsecond"],
    [["修复测试"], "修复测试"],
  ])("%j is rnix spawn", async (argv, intent) => {
    const { code, out, io } = await run(...argv);
    expect({ code, out }).toEqual({ code: 0, out: "The answer.\n" });
    expect(io.payloads("spawn")).toMatchObject([{ intent }]);
  });

  test("passes its flags on", async () => {
    const { io } = await run("do this", "--check", "npm test", "--max-cost", "2");
    expect(io.payloads("spawn")).toMatchObject([{ intent: "do this", check: ["npm test"], max_cost: 2 }]);
  });

  test.each([
    [["fix", "the", "test"], 'rnix "fix the test"'],
    [["fix", "the", "test", "--check", "npm test"], 'rnix "fix the test" --check "npm test"'],
    [["fix", "src/a.ts"], 'rnix "fix src/a.ts"'],
    [["explain"], "rnix spawn explain"],
    [["run", "fix it"], 'rnix spawn "fix it"'],
    [["run", "the", "tests"], 'rnix "run the tests"'],
    [["run"], "rnix spawn"],
    [["start", "daemon"], "rnix daemon start"],
    [["stop"], "rnix suspend"],
    [["stop", "3"], "rnix suspend 3"],
    [["stop", "the", "server"], 'rnix "stop the server"'],
    [["status"], "rnix ps"],
    [["status", "3"], "rnix show 3"],
    [["fork", "01975a2e", "try it $HOME"], "rnix resume --fork 01975a2e 'try it $HOME'"],
    [["cancel", "3"], "rnix kill 3"],
    [["list"], "rnix ps"],
    [["halp"], "rnix help"],
    [["jobs"], "rnix cron"],
    [["schedule", "fix it"], 'rnix cron add "fix it"'],
    [["todos"], "rnix tasks"],
    [["htop"], "rnix top"],
    [["update"], "git pull && npm run install:bin"],
    [["auth", "login"], "rnix setup"],
    [["login"], "rnix setup"],
    [["tail", "3"], "rnix log -f 3"],
    [["spwan", "do it"], 'rnix spawn "do it"'],
    [["kil", "3"], "rnix kill 3"],
    [["ps -a"], "rnix ps -a"],
    [["dameon stop"], "rnix daemon stop"],
    [["show 3"], "rnix show 3"],
    [["-p", "do it"], 'rnix "do it"'],
    [["-p", "hello"], "rnix spawn hello"],
    [["-p"], "rnix spawn"],
    [["--agnet", "coder", "do it"], 'rnix spawn --agnet coder "do it"'],
    [["--continue"], "rnix chat --continue"],
    [["--agent", "coder"], "rnix chat --agent coder"],
    [["-C", "/tmp", "spawn", "x"], "rnix spawn --cwd /tmp x"],
    [["-C", "/tmp"], "rnix chat --cwd /tmp"],
    [["revert", "3"], "rnix undo 3"],
    [["show", "me", "the", "tests"], 'rnix "show me the tests"'],
    [["log", "the", "user", "out"], 'rnix "log the user out"'],
  ])("%j is refused with the line to paste, and starts nothing: %s", async (argv, line) => {
    const { code, err, io } = await run(...argv);
    expect(code).toBe(64);
    expect(err).toContain(`\n  ${line}\n`);
    expect(io.sessions).toEqual([]);
  });

  test("every line to paste begins with a command that exists and takes the flags in it", async () => {
    const commands = new Map(await loadCommands());
    const words =
      "run exec start ask prompt stop halt interrupt cancel abort end terminate status stat info inspect";
    const more =
      "describe list ls jobs runs history fork branch retry restart talk revert rollback changes questions reply unpause follow watch tail trace schedule schedules todo todos remember sessions top";
    const last = "grant revoke login auth configure onboard settings rm clean prune example";
    for (const word of `${words} ${more} ${last}`.split(" ").filter((one) => !Object.hasOwn(COMMANDS, one))) {
      for (const args of [[], ["3"]]) {
        const [, line = ""] = /\n {2}rnix (.*)/.exec(meantCommand(word, args)) ?? [];
        const [name = "", second = ""] = line.split(" ");
        const command = commands.get(name);
        expect({ word, name, isThere: command !== undefined }).toEqual({ word, name, isThere: true });
        const flags = Object.entries(command?.flags ?? {});
        const known = flags.some(([flag, { short }]) => second === `--${flag}` || second === `-${short}`);
        if (second.startsWith("-")) expect({ line, known }).toEqual({ line, known: true });
      }
    }
  });
});
