/** A machine with what the attempts look for, and all attempts as one script. */

import { chmodSync, mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import type { Machine } from "../support/machine.ts";
import { ATTEMPTS } from "./attempts.ts";

export const SECRET = "sekret-98765";

const HIDDEN = ATTEMPTS.flatMap(([title]) => /^read ~\/(\S+)$/.exec(title)?.[1] ?? []);
const PROTECTED = ATTEMPTS.flatMap(([title]) => /^write (\S+\/\S+|\.\S+)$/.exec(title)?.[1] ?? []);

/** The user's files, and what the attempts look for. */
export function furnish(machine: Machine): void {
  for (const path of HIDDEN) machine.write(join(machine.home, path), SECRET);
  for (const path of PROTECTED.filter((one) => !one.startsWith(".git/config")))
    machine.write(path, path.endsWith(".json") ? "{}" : "# theirs\n");
  machine.write(join(machine.home, ".bashrc"), `# ${SECRET}\n`);
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
export function script(machine: Machine, otherPid: number): string {
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
