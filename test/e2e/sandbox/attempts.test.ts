import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { installed } from "../../support/installed.ts";
import { Machine } from "../support/machine.ts";
import { toolResults } from "../support/requests.ts";
import { calls, says } from "../support/scenes.ts";
import { dropPrivileges } from "../support/unprivileged.ts";
import { ATTEMPTS } from "./attempts.ts";

const SECRET = "sekret-98765";

const HIDDEN = ATTEMPTS.flatMap(([title]) => /^read ~\/(\S+)$/.exec(title)?.[1] ?? []);
const PROTECTED = ATTEMPTS.flatMap(([title]) => /^write (\S+\/\S+|\.\S+)$/.exec(title)?.[1] ?? []);

/** The user's files, and what the attempts look for. */
function furnish(machine: Machine): void {
  for (const path of HIDDEN) machine.write(join(machine.home, path), SECRET);
  for (const path of PROTECTED.filter((one) => !one.startsWith(".git/config")))
    machine.write(path, path.endsWith(".json") ? "{}" : "# theirs\n");
  symlinkSync(join(machine.home, ".ssh"), join(machine.home, "keys"));
  machine.write(join(machine.home, "notes.txt"), "notes\n");
  machine.write(join(machine.home, ".gitconfig"), "[user]\nname=a\nemail=a@b.c\n");
  chmodSync(machine.write(join(machine.configDir, "env"), `X_KEY=${SECRET}\n`), 0o600);
  machine.write(join(machine.elsewhere, "file"), "theirs\n");
  machine.write(join(machine.elsewhere, "of-another"), "theirs\n");
  mkdirSync(join(machine.project, ".git/modules/sub/hooks"), { recursive: true });
  machine.write(".git/modules/sub/HEAD", "ref: refs/heads/main\n");
  machine.write(".git/modules/sub/config", "[core]\n");
}

/** Every attempt in one call; prints the titles of those that succeed. */
function script(machine: Machine, otherPid: number): string {
  const variables = {
    SECRET,
    OUT: machine.elsewhere,
    DATA: machine.dataDir,
    CONFIG: machine.configDir,
    OTHER_PID: `${otherPid}`,
  };
  const exports = Object.entries(variables).map(([name, value]) => `export ${name}=${value}`);
  const lines = ATTEMPTS.map(
    ([title, , line]) =>
      `( ${line}\n) >/dev/null 2>&1 </dev/null && echo 'ESCAPED ${title.replaceAll("'", "")}'`,
  );
  return [...exports, "trap : TERM", ...lines, "echo ALL TRIED"].join("\n");
}

const there = installed("bwrap", "setpriv");

for (const who of there ? (["root", "an ordinary user"] as const) : []) {
  describe(`${who} in a sandbox`, () => {
    let machine: Machine;
    let other: Bun.Subprocess;
    let output = "";

    beforeAll(async () => {
      machine = new Machine({ git: true });
      furnish(machine);
      if (who !== "root") dropPrivileges(machine);
      other = Bun.spawn([...machine.wrapper, "sleep", "98765"], { env: { OF_ANOTHER: SECRET } });
      const model = await machine.play({
        "leave the sandbox": [calls(["Bash", { command: script(machine, other.pid) }]), says("done")],
        "a child": [says("done")],
      });
      await machine.ok(["spawn", "--no-stdin", "--sandbox", "required", "leave the sandbox"]);
      const results = model.requests.flatMap(toolResults);
      output = results.find((text) => text.includes("ALL TRIED")) ?? "";
      expect(output).toContain("ALL TRIED");
    });
    afterAll(async () => {
      other.kill("SIGKILL");
      rmSync(machine.home, { recursive: true });
      await machine[Symbol.asyncDispose]();
    });

    for (const [title, by] of ATTEMPTS) {
      test(`can't ${title}: ${by}`, () => {
        expect(output.split("\n")).not.toContain(`ESCAPED ${title.replaceAll("'", "")}`);
      });
    }
  });
}
