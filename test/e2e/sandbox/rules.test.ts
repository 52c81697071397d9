/** Rules over files bind the programs of a run in a sandbox: what they deny is closed, what they allow by name is open. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, renameSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { installed } from "../../support/installed.ts";
import { Machine } from "../support/machine.ts";
import { toolResults } from "../support/requests.ts";
import { bash, says } from "../support/scenes.ts";
import { dropPrivileges } from "../support/unprivileged.ts";

const SECRET = "sekret-4711";
/** A mark that no program prints where the rules hold. */
const READS = (path: string): string => `cat ${path} | grep -q ${SECRET} && echo ESCAPED`;
const WRITES = (path: string): string => `echo ${SECRET} >>${path} && echo ESCAPED`;

/** Rules, commands that they stop, with the path that is named, and commands that work. */
const CASES: {
  rules: string[];
  stopped?: [command: string, named: string | null][];
  works?: string[];
}[] = [
  {
    rules: ["--deny", "Read(**/.env)"],
    stopped: [
      [READS(".env"), ".env"],
      [READS("packages/a/.env"), "packages/a/.env"],
      [WRITES(".env"), ".env"],
      // By the link, by a copy, by another name, by a new file in its place, by another root.
      [READS("link-to-env"), null],
      [`cp .env copy; ${READS("copy")}`, ".env"],
      [`ln .env hard; ${READS("hard")}`, null],
      [`mv .env moved; ${READS("moved")}`, null],
      [`rm -f .env; ${READS(".env")}`, null],
      [`mv packages other && ${READS("other/a/.env")}; mv other packages`, null],
      [READS("/proc/1/root$PWD/.env"), null],
      [`grep -rqs ${SECRET} --include=.env . && echo ESCAPED`, null],
      // A file that the project has since the last command.
      [`echo ${SECRET} >packages/new && mv packages/new packages/.env`, null],
      [READS("packages/.env"), "packages/.env"],
    ],
    works: [READS("secret/key"), READS("env.txt"), WRITES("env.txt"), "git status --short"],
  },
  {
    rules: ["--deny", "Read(secret/**)", "--deny", "Read(packages/a/.env)"],
    stopped: [
      [READS("secret/key"), "secret/key"],
      ["ls -A secret | grep . && echo ESCAPED", null],
      [WRITES("secret/new"), "secret/new"],
      [`mv packages other; ${READS("other/a/.env")}`, null],
      [`mv packages/a packages/b; ${READS("packages/b/.env")}`, null],
    ],
    works: [READS(".env"), WRITES("packages/a/other")],
  },
  {
    rules: ["--deny", "Write(src/**)", "--deny", "Edit(env.txt)"],
    stopped: [
      [WRITES("src/a.ts"), "src/a.ts"],
      [WRITES("src/new.ts"), "src/new.ts"],
      [WRITES("env.txt"), "env.txt"],
      ["rm src/a.ts && echo ESCAPED", "src/a.ts"],
      ["mv src source && echo ESCAPED", null],
      [`echo x >n; mv n env.txt && echo ESCAPED`, null],
      [`sed -i s/a/b/ src/a.ts && echo ESCAPED`, null],
    ],
    works: [READS("src/a.ts"), WRITES("other.ts"), READS("env.txt")],
  },
  {
    rules: ["--allow", "Bash,Write(.github/**),Edit(agents/mine/**),Write(.git/hooks/**)"],
    stopped: [
      [WRITES(".mcp.json"), ".mcp.json"],
      [WRITES("agents/theirs/agent.yaml"), "agents/theirs/agent.yaml"],
      [WRITES(".git/config"), ".git/config"],
    ],
    works: [
      WRITES(".github/workflows/ci.yml"),
      WRITES(".github/workflows/new.yml"),
      WRITES("agents/mine/agent.yaml"),
      WRITES(".git/hooks/pre-commit"),
    ],
  },
  {
    rules: ["--allow", "Bash,Edit(.github/workflows/ci.yml)"],
    stopped: [[WRITES(".github/workflows/new.yml"), ".github/workflows/new.yml"]],
    works: [WRITES(".github/workflows/ci.yml")],
  },
  {
    rules: ["--allow", "Bash,Write(**),Write", "--deny", "Write(.github/workflows/ci.yml)"],
    stopped: [
      [WRITES(".github/workflows/ci.yml"), ".github/workflows/ci.yml"],
      [WRITES(".github/workflows/new.yml"), ".github/workflows/new.yml"],
      [WRITES("agents/mine/agent.yaml"), "agents/mine/agent.yaml"],
    ],
  },
  {
    rules: ["--allow", "Bash,Write(.github/**)", "--deny", "Write(.github/workflows/ci.yml)"],
    stopped: [[WRITES(".github/workflows/ci.yml"), ".github/workflows/ci.yml"]],
    works: [WRITES(".github/workflows/new.yml")],
  },
];

function furnish(machine: Machine): void {
  const files = [".env", "packages/a/.env", "secret/key", "src/a.ts", "env.txt", ".github/workflows/ci.yml"];
  for (const path of [...files, "agents/mine/agent.yaml", "agents/theirs/agent.yaml"])
    machine.write(path, `# ${SECRET}\n`);
  machine.write(".mcp.json", "{}");
  symlinkSync(".env", join(machine.project, "link-to-env"));
  mkdirSync(join(machine.project, "packages/b"));
}

describe.if(installed("bwrap", "setpriv", "nsenter"))("in a sandbox,", () => {
  for (const { rules, stopped = [], works = [] } of CASES)
    for (const who of ["root", "an ordinary user"] as const)
      test(`${rules.join(" ")} binds the programs of ${who}`, async () => {
        await using machine = new Machine({ git: true });
        furnish(machine);
        if (who !== "root") dropPrivileges(machine);
        const commands = [...stopped.map(([command]) => command), ...works];
        const model = await machine.play({
          "do it": [...commands.map((command) => bash(command)), says("done")],
        });
        await machine.ok(["spawn", "--no-stdin", "--trust", "--sandbox", "required", ...rules, "do it"]);
        const results = toolResults(model.last);
        for (const [i, [command, named]] of stopped.entries()) {
          const result = results[i] ?? "";
          expect(`${command}: ${result.split("\n")[0]}`).not.toContain(": ESCAPED");
          if (named !== null) expect(result).toContain(`[${machine.project}/${named} is `);
          const rule = rules.includes("--deny") && named !== null && !/agents|new.yml/.test(named);
          if (rule) expect(result).toMatch(/by the deny rule (Read|Write|Edit)\(.*\) of this run/);
        }
        for (const [i, command] of works.entries())
          expect(`${command}: ${results[stopped.length + i]}`).not.toMatch(
            /exit code|is closed|is protected/,
          );
        expect(machine.read(".env")).toBe(`# ${SECRET}\n`);
      });

  test("a file stays closed after the user has put another in its place", async () => {
    await using machine = new Machine({ git: true });
    furnish(machine);
    const model = await machine.play({
      "do it": [
        bash("touch held; until [ -e replaced ]; do sleep 0.02; done"),
        bash(READS(".env")),
        bash(WRITES(".mcp.json")),
        says("done"),
      ],
    });
    const rules = ["--trust", "--sandbox", "required", "--deny", "Read(**/.env)"];
    const run = machine.start(["spawn", "--no-stdin", ...rules, "do it"]);
    await machine.held();
    for (const path of [".env", ".mcp.json"]) {
      machine.write(`${path}.new`, `# ${SECRET}\n`);
      renameSync(join(machine.project, `${path}.new`), join(machine.project, path));
    }
    machine.write("replaced", "");
    await run.done;
    for (const result of toolResults(model.last).slice(1)) expect(result).not.toContain("ESCAPED");
  });

  test("more files than it binds are named in a notice", async () => {
    await using machine = new Machine();
    for (let i = 0; i < 205; i++) machine.write(`d${i}/.env`, "");
    await machine.play({ "do it": [bash("true"), says("done")] });
    const args = ["--trust", "--sandbox", "required", "--deny", "Read(**/.env)"];
    const { stderr } = await machine.ok(["spawn", "--no-stdin", ...args, "do it"]);
    expect(stderr).toContain("Read(**/.env): there are more files than a sandbox binds");
  });
});
