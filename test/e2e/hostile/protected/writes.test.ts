import { expect, test } from "bun:test";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { binary } from "../../support/binary.ts";
import { Machine } from "../../support/machine.ts";
import { toolResults } from "../../support/requests.ts";
import { bash, calls, says } from "../../support/scenes.ts";
import { receiptOf } from "../../support/verdict.ts";

const write = (path: string): ["Write", { path: string; content: string }] => [
  "Write",
  { path, content: "# written by the run" },
];
const read = (machine: Machine, path: string): string =>
  machine.has(path) ? readFileSync(join(machine.project, path), "utf8") : "";

/** What each of the calls of a run of one step came to. */
async function results(machine: Machine, made: Parameters<typeof calls>, flags: string[]): Promise<string[]> {
  const model = await machine.play({ go: [calls(...made), says("done")] });
  const { code } = await machine.run(["spawn", "go", "--output", "json", ...flags]);
  expect(code).toBe(0);
  const last = model.requests.at(-1);
  return last ? toolResults(last) : [];
}

test("a run with every right can't write to .git, .rnix or a bare repository", async () => {
  await using machine = new Machine({ git: true });
  const config = read(machine, ".git/config");
  mkdirSync(join(machine.project, "sub"));
  for (const folder of ["bare/objects", "bare/refs"]) {
    mkdirSync(join(machine.project, folder), { recursive: true });
  }
  symlinkSync(".git", join(machine.project, "link"));
  machine.write(join(machine.elsewhere, ".git/config"), config);
  const targets = [
    ".git/config",
    ".git/hooks/post-commit",
    ".GIT/config2",
    "sub/.git",
    "sub/.git/config",
    "link/info/attributes",
    "bare/HEAD",
    ".rnix/config.yaml",
    ".rnix/agents/default/agent.yaml",
    "sub/.rnix/plugins/x.ts",
    join(machine.elsewhere, ".git/config"),
  ];
  const edit = ["Edit", { path: ".git/config", old_string: "[core]", new_string: "[alias]" }] as const;
  const said = await results(
    machine,
    [...targets.map(write), [edit[0], edit[1]]],
    [...["--allow", "*", "--add", machine.elsewhere]],
  );
  expect(said).toHaveLength(targets.length + 1);
  for (const result of said) expect(result).toMatch(/PERMISSION.* is protected, as (git runs|Rnix loads)/s);
  expect(read(machine, ".git/config")).toBe(config);
  for (const path of targets.slice(1, -1)) expect(read(machine, path)).toBe("");
});

test("a run that may write can't make a repository whose programs git would run", async () => {
  await using machine = new Machine();
  const taken = join(machine.elsewhere, "taken");
  const files: Record<string, string> = {
    "store/objects/x": "",
    "store/refs/x": "",
    "store/config": `[core]\nrepositoryformatversion = 1\nbare = false\nfsmonitor = "touch '${taken}'; false"\n[extensions]\nworktreeConfig = true\n`,
    "work/config.worktree": "[core]\nworktree = .\nbare = false\n",
    "work/commondir": "../store\n",
    "work/HEAD": "ref: refs/heads/main\n",
  };
  const made = Object.entries(files).map(([path, content]): ["Write", { path: string; content: string }] => [
    "Write",
    { path, content },
  ]);
  const said = await results(machine, made, ["--allow", "Write"]);
  expect(said.map((result) => result.includes("is protected"))).toEqual(made.map((_, i) => i === 5));
  Bun.spawnSync(["git", "status"], { cwd: join(machine.project, "work"), env: machine.env });
  expect(machine.has(taken)).toBe(false);
  // With the file that was refused it is one: this would have run the program.
  machine.write("work/HEAD", files["work/HEAD"] ?? "");
  Bun.spawnSync(["git", "status"], { cwd: join(machine.project, "work"), env: machine.env });
  expect(machine.has(taken)).toBe(true);
});

test("a rule that names a protected path allows it; reading, the shell and other files need no rule", async () => {
  await using machine = new Machine({ git: true });
  const said = await results(
    machine,
    [
      write(".git/info/exclude"),
      write(".git/config"),
      write(".rnix/notes/today.md"),
      write(".github/workflows/ci.yml"),
      write(".gitignore"),
      ["Read", { path: ".git/config" }],
      ["Bash", { command: "git config user.name x && git config user.name" }],
    ],
    ["--allow", "*", "--allow", "Write(.git/info/exclude)", "--allow", "Write(.rnix/notes/**)"],
  );
  expect(said.map((result) => result.includes("is protected"))).toEqual([
    ...[false, true, false, false, false, false, false],
  ]);
  expect(read(machine, ".git/info/exclude")).toBe("# written by the run");
  expect(read(machine, ".rnix/notes/today.md")).toBe("# written by the run");
  expect(said[5]).toContain("[core]");
  expect(said[6]).toContain("x");
});

test("rnix allow gives a live run a protected path, and its child no more than its own", async () => {
  await using machine = new Machine({ git: true });
  const child = `'${binary()}' spawn 'child task' --allow '*' --allow 'Write(.git/**)' -q`;
  const model = await machine.play({
    "parent task": [
      bash("touch held; until test -e go; do sleep 0.02; done"),
      calls(write(".git/info/exclude"), write(".git/description")),
      bash(child),
      says("done"),
    ],
    "child task": [calls(write(".git/info/attributes"), write(".git/description")), says("done")],
  });
  const run = machine.start(["spawn", "parent task", "--allow", "*", "--output", "json"]);
  await machine.held();
  const before = read(machine, ".git/description");
  expect((await machine.run(["allow", "1", "Write(.git/info/**)"])).stderr).toMatch(
    /^process 1 may use: .*Write, Write\(\.git\/info\/\*\*\)\n/,
  );
  machine.write("go", "");
  expect(receiptOf(await run.done).exit_code).toBe(0);
  expect(read(machine, ".git/info/exclude")).toBe("# written by the run");
  expect(read(machine, ".git/info/attributes")).toBe("# written by the run");
  expect(read(machine, ".git/description")).toBe(before);
  const refused = model.requests.flatMap(toolResults).filter((result) => result.includes("is protected"));
  expect(new Set(refused).size).toBeGreaterThan(0);
});
