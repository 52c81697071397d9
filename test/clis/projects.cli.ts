/** Real npm projects are built and tested in the sandbox as outside of it. */
import { describe, expect, test } from "bun:test";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../e2e/support/machine.ts";
import { toolResults } from "../e2e/support/requests.ts";
import { bash, says } from "../e2e/support/scenes.ts";
import { installed } from "../support/installed.ts";

const SERVER = `require("http").createServer((_, to) => to.end("served")).listen(0, "127.0.0.1", function () {
  fetch("http://127.0.0.1:" + this.address().port).then((r) => r.text()).then((text) => { console.log(text); this.close(); });
})`;
const GIT = "git -c user.name=a -c user.email=a@b.c";

/** A cargo of the system: one in a home is hidden. */
const hasCargo = Bun.spawnSync(["sh", "-c", "cargo --version"], {
  env: { PATH: process.env.PATH, HOME: "/nowhere" },
}).success;

/** Commands whose output is the same inside and outside. */
const COMMANDS = [
  "node_modules/.bin/tape 'test/**/*.js'",
  "npm pack --ignore-scripts --silent && tar tzf *.tgz | sort",
  "npm install --offline --no-save --no-package-lock --no-audit --no-fund --silent --prefix out ./*.tgz && ls out/node_modules",
  `node -e '${SERVER}'`,
  "git worktree add -q --detach tree && cd tree && git status --short && cd .. && git worktree remove tree && ls -d tree",
  `${GIT} commit -q --allow-empty -m "Change nothing" && git log -1 --format=%s && git reset -q --hard HEAD~1`,
  "git init -q new && cd new && echo a >a && git add a && git status --short && cd .. && rm -rf new",
  ...(hasCargo
    ? ["cargo init -q --vcs none --name made made && cd made && cargo build -q --offline && ls target"]
    : []),
  "git status --short --ignored | sort",
];

async function outside(machine: Machine, command: string): Promise<string> {
  const { project } = machine;
  const env = { ...machine.env, HOME: join(machine.elsewhere, "home") };
  const shell = Bun.spawn(["bash", "-c", `${command} 2>&1`], {
    cwd: project,
    env,
    stdin: "ignore",
    stdout: "pipe",
  });
  const text = (await new Response(shell.stdout).text()).trimEnd();
  return (await shell.exited) === 0 ? text : `${text}\n[exit code ${shell.exitCode}]`;
}

async function prepared(name: string): Promise<Machine> {
  const packages = process.env.RNIX_TEST_PROJECTS;
  if (packages === undefined) throw new Error("These tests are run by `npm run test:clis`.");
  const machine = new Machine({ git: true });
  cpSync(join(packages, name), machine.project, { recursive: true });
  cpSync(packages, join(machine.project, "node_modules"), { recursive: true, verbatimSymlinks: true });
  machine.write(".gitignore", "node_modules\n.rnix\n*.tgz\nout\nmade\n");
  await outside(machine, `git add -A && ${GIT} commit -qm "Add ${name}"`);
  return machine;
}

describe.if(installed("bwrap"))("in the sandbox as outside:", () => {
  test.each(["minimist", "shell-quote", "concat-map"])(
    "%s",
    async (name) => {
      await using other = await prepared(name);
      const expected: string[] = [];
      for (const command of COMMANDS) expected.push(await outside(other, command));
      expect(expected[0]).toMatch(/^# ok$/m);
      await using machine = await prepared(name);
      // The largest output is shown whole.
      machine.config({ tool_result_chars: 1_000_000 });
      const model = await machine.play({
        "do it": [...COMMANDS.map((command) => bash(`${command} 2>&1`)), says("done")],
      });
      await machine.ok(["spawn", "--no-stdin", "--sandbox", "required", "do it"]);
      const own = (text: string, { root }: Machine): string => text.replaceAll(root, "ROOT");
      const results = toolResults(model.last).map((text) => own(text, machine).trimEnd());
      expect(results).toEqual(expected.map((text) => own(text, other)));
    },
    120_000,
  );
});
