/** What a program prints about a refused path is explained by the mounts of its sandbox. */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { bindRead, bindWrite, hidden } from "../../src/sandbox/policy.ts";
import { refusals, type SandboxView } from "../../src/sandbox/sandbox.ts";

const dir = realpathSync(mkdtempSync(join(tmpdir(), "rnix-refusals-")));
const project = join(dir, "project");
const home = join(dir, "home");
for (const file of ["project/.git/hooks/sample", "project/a.txt", "home/.ssh/id", "elsewhere/b.txt"]) {
  mkdirSync(dirname(join(dir, file)), { recursive: true });
  writeFileSync(join(dir, file), "");
}
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const VIEW: SandboxView = {
  mounts: [bindWrite(project), bindRead(join(project, ".git/hooks")), hidden(join(home, ".ssh"), "folder")],
  given: [project],
  isInPlace: true,
  isReadOnly: false,
  cwd: project,
  home,
};

/** The path that is named, below `dir`; "" for none. */
function named(output: string, view: Partial<SandboxView> = {}): string {
  const [line = ""] = refusals(output, { ...VIEW, ...view });
  return (line.split(" ")[0] ?? "").replace(`${dir}/`, "");
}

const HOOK = "project/.git/hooks/pre-commit";
const CASES: [string, string][] = [
  ["/usr/bin/bash: line 1: .git/hooks/pre-commit: Read-only file system", HOOK],
  ["sh: 1: cannot create .git/hooks/pre-commit: Read-only file system", HOOK],
  ["touch: cannot touch '.git/hooks/pre-commit': Read-only file system", HOOK],
  ["Error: EROFS: read-only file system, open '.git/hooks/pre-commit'", HOOK],
  ["OSError: [Errno 30] Read-only file system: '.git/hooks/pre-commit'", HOOK],
  [`cat: ${home}/.ssh/id: No such file or directory`, "home/.ssh/id"],
  ["cat: ~/.ssh/id: No such file or directory", "home/.ssh/id"],
  [`cp: cannot create regular file '${dir}/elsewhere/c.txt': Read-only file system`, "elsewhere/c.txt"],
  ["cat: missing.txt: No such file or directory", ""],
  ["all is well", ""],
];

describe("a message names the path", () => {
  for (const [message, path] of CASES) {
    test(message.replaceAll(dir, ""), () => expect(named(`before\n${message}\nafter\n`)).toBe(path));
  }
});

test("at the level read-only, the project itself", () => {
  const mounts = [bindRead(project)];
  const [line = ""] = refusals("bash: line 3: a.txt: Read-only file system", {
    ...VIEW,
    mounts,
    isReadOnly: true,
  });
  expect(line).toBe(
    `${project}/a.txt is read-only in this sandbox. Only the user can allow it: --sandbox-level project`,
  );
});

test("at most five", () => {
  const lines = Array.from(
    { length: 9 },
    (_, i) => `touch: cannot touch '.git/hooks/${i}': Read-only file system`,
  );
  expect(refusals(lines.join("\n"), VIEW)).toHaveLength(5);
});
