import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Call, type Facts, Permissions } from "../../../src/kernel/permission/permissions.ts";
import { parseRule } from "../../../src/kernel/permission/rule.ts";

const PROJECT = "/home/u/project";
const FACTS: Facts = {
  tools: [
    { name: "Read", subject: "path", path: "/dev/fs", readOnly: true },
    { name: "Write", subject: "path", path: "/dev/fs" },
    { name: "Edit", subject: "path", path: "/dev/fs" },
    { name: "Bash", subject: "command", path: "/dev/shell" },
  ],
  devices: ["/dev/fs", "/dev/shell"],
  projectDir: PROJECT,
  cwd: PROJECT,
  realPath: (path) => path,
  isThere: () => false,
};

function of(allow: string[], facts: Partial<Facts> = {}, deny: string[] = []): Permissions {
  return Permissions.of({ ...FACTS, ...facts, allow, deny });
}

const write = (subject: string, tool = "Write"): Call => ({ tool, path: "/dev/fs", subject });

const PROTECTED = [
  ".git/config",
  ".git/hooks/post-checkout",
  ".git",
  ".GIT/config",
  ".Git/HEAD",
  "git~1/config",
  ".g\u200dit/config",
  "sub/.git",
  "sub/.git/config",
  "./x/../.git/config",
  `${PROJECT}/.git/config`,
  ".rnix/config.yaml",
  ".rnix/agents/a/agent.yaml",
  ".RNIX/data/x",
  "packages/a/.rnix/skills/x/SKILL.md",
  "/added/.git/config",
  "/added/deep/.rnix/hooks.yaml",
];
const ORDINARY = [
  "src/a.ts",
  ".gitignore",
  ".gitattributes",
  ".github/workflows/ci.yml",
  ".rnixrc",
  "git/config",
  "x.git",
  "HEAD",
  "objects/a",
  "/added/a",
];
const UNNAMED = [
  "*",
  "Write",
  "Edit",
  "Write(**)",
  "Write(*/**)",
  "Write(.*/**)",
  "Write(.g?t/**)",
  "Write(/**)",
];
const DEVICES = ["/dev/fs", "/dev/fs/**", "/dev/**", "/dev/fs/*/config"];

describe("rules that name no protected path", () => {
  const permissions = of([...UNNAMED, ...DEVICES]);
  test.each(PROTECTED)("do not cover a write to %s", (path) => {
    for (const tool of ["Write", "Edit"]) {
      expect(permissions.refusal(write(path, tool))).toMatch(
        / is protected, as (git runs|Rnix loads) what is written there/,
      );
    }
    if (!path.startsWith("/") && !path.includes("..") && !path.includes("\u200d"))
      expect(permissions.covers({ tool: null, path: `/dev/fs/${path}` })).toBe(false);
  });
  test.each(PROTECTED)("cover a read of %s", (path) => {
    expect(permissions.covers(write(path, "Read"))).toBe(true);
    expect(permissions.covers({ tool: null, path: "/dev/fs/.git/config", readOnly: true })).toBe(true);
  });
  test.each(ORDINARY)("cover a write to %s", (path) => expect(permissions.refusal(write(path))).toBeNull());
  test("cover the shell", () => {
    const subject = "git commit -m x > .git/config";
    expect(permissions.covers({ tool: "Bash", path: "/dev/shell", subject })).toBe(true);
  });
});

describe("a rule that names a protected path", () => {
  test.each([
    ["Write(.git/info/exclude)", ".git/info/exclude"],
    ["Write(.git/**)", ".git/config"],
    ["Write(.git/)", ".git/config"],
    ["Write(.git)", ".git"],
    ["Write(**/.git/**)", "sub/.git/config"],
    ["Write(.rnix/notes/**)", ".rnix/notes/today.md"],
    [`Write(${PROJECT}/.rnix/**)`, ".rnix/a"],
    ["Write(/added/.git/**)", "/added/.git/config"],
    ["Write(.rnix/*/.git/**)", ".rnix/trees/.git/config"],
  ])("%s covers %s, with and without others", (rule, path) => {
    expect(of([rule]).refusal(write(path))).toBeNull();
    expect(of(["*", rule]).refusal(write(path))).toBeNull();
    expect(of(["*", rule]).refusal(write("src/a"))).toBeNull();
  });

  test.each([
    ["Write(.git/info/exclude)", ".git/config"],
    ["Write(.rnix/**)", ".git/config"],
    ["Write(.rnix/**)", ".rnix/trees/a/.git/config"],
    ["Write(.git/**)", "sub/.git/config"],
    ["Edit(.git/**)", ".git/config"],
    ["Read(.git/**)", ".git/config"],
    ["Write(/home/u/**)", ".git/config"],
  ])("%s does not cover a write to %s", (rule, path) => {
    expect(of(["*", rule]).covers(write(path))).toBe(false);
  });

  test("may be a device path", () => {
    const permissions = of(["*", "/dev/fs/.git/info"]);
    expect(permissions.covers(write(".git/info/exclude"))).toBe(true);
    expect(permissions.covers({ tool: null, path: "/dev/fs/.git/info/exclude" })).toBe(true);
    expect(permissions.covers(write(".git/config"))).toBe(false);
    expect(permissions.covers({ tool: null, path: "/dev/fs/.git/config" })).toBe(false);
  });

  test("is what a refusal suggests", () => {
    for (const path of [".git/info/exclude", "/added/.rnix/a b"]) {
      const refusal = of(["*"]).refusal(write(path)) ?? "";
      const rule = /allows this: (.*)\.$/.exec(refusal)?.[1] ?? expect.unreachable(refusal);
      expect(of(["*", rule]).refusal(write(path))).toBeNull();
    }
    expect(of(["*"]).refusal(write(".git/info/exclude"))).toBe(
      ".git is protected, as git runs what is written there. Only a rule that names it allows this: Write(.git/info/exclude).",
    );
  });

  test("does not override a deny rule", () => {
    expect(of(["*", "Write(.git/**)"], {}, ["Write"]).covers(write(".git/a"))).toBe(false);
  });

  test("does not make the project's own path count", () => {
    const facts = { projectDir: "/home/u/.rnix/p", cwd: "/home/u/.rnix/p" };
    expect(of(["*"], facts).covers(write("src/a"))).toBe(true);
    expect(of(["*", "Write(/home/u/.rnix/p/**)"], facts).covers(write(".rnix/a"))).toBe(false);
    expect(of(["*", "Write(/home/u/.rnix/p/.rnix/**)"], facts).covers(write(".rnix/a"))).toBe(true);
  });
});

describe("no process has more rights than its parent", () => {
  test("a child may name a path only if its parent does", () => {
    expect(of(["*"]).child(["*", "Write(.git/**)"], []).covers(write(".git/a"))).toBe(false);
    expect(of(["*", "Write(.git/**)"]).child(["*"], []).covers(write(".git/a"))).toBe(false);
    const both = of(["*", "Write(.git/**)"]).child(["Write(.git/info/**)"], []);
    expect(both.covers(write(".git/info/exclude"))).toBe(true);
    expect(both.covers(write(".git/config"))).toBe(false);
  });

  test("a live run with all rights is granted it, reports it, and has it in its record", () => {
    const before = of(["*"]);
    const rule = parseRule("Write(.git/info/**)");
    expect(before.lacks(rule)).toContain("it may use");
    const after = before.grant([rule], null, { lift: true });
    expect(after.lacks(rule)).toBeNull();
    expect(after.covers(write(".git/info/exclude"))).toBe(true);
    expect(after.allowedTools()).toEqual(["Bash", "Edit", "Read", "Write", "Write(.git/info/**)"]);
    expect(Permissions.from(after.record(), FACTS).covers(write(".git/info/exclude"))).toBe(true);
    // A tool that only reads holds it already.
    expect(before.lacks(parseRule("Read(.git/**)"))).toBeNull();
    expect(before.lacks(parseRule("/dev/fs/.rnix"))).not.toBeNull();
  });

  test("a grant to a child requires it of the parent", () => {
    const child = of(["*"]).child(["Write"], []);
    const rule = parseRule("Write(.git/**)");
    expect(child.grant([rule], null, { lift: false }).lacks(rule)).not.toBeNull();
  });
});

describe("on disk", () => {
  let dir = "";
  beforeAll(() => {
    dir = realpathSync(mkdtempSync(join(tmpdir(), "rnix-protected-")));
    for (const bare of ["vendor/x.git", "half"]) mkdirSync(join(dir, bare, "objects"), { recursive: true });
    for (const bare of ["vendor/x.git", "half"]) mkdirSync(join(dir, bare, "refs"));
    writeFileSync(join(dir, "vendor/x.git/HEAD"), "ref: refs/heads/main\n");
    mkdirSync(join(dir, ".git/info"), { recursive: true });
    symlinkSync(".git", join(dir, "link"));
    symlinkSync(".git/config", join(dir, "config"));
    writeFileSync(join(dir, ".git/config"), "");
    mkdirSync(join(dir, "plain/objects"), { recursive: true });
    for (const [folder, name] of [
      ["shared", "HEAD"],
      ["elsewhere", "commondir"],
    ] as const) {
      mkdirSync(join(dir, folder));
      writeFileSync(join(dir, folder, name), "");
    }
  });
  afterAll(() => rmSync(dir, { recursive: true }));
  const facts = (): Partial<Facts> => ({
    projectDir: dir,
    cwd: dir,
    realPath: undefined,
    isThere: undefined,
  });

  test.each([
    "link/config",
    "link/info/new",
    "config",
    "vendor/x.git/config",
    "vendor/x.git/HEAD",
    "vendor/x.git/hooks/deep/new",
  ])("%s is protected", (path) => {
    expect(of(["*", "Write(**)"], facts()).refusal(write(path))).toContain("is protected");
  });

  test("so are the files that make a folder a bare repository", () => {
    const permissions = of(["*"], facts());
    expect(permissions.covers(write("half/HEAD"))).toBe(false);
    expect(permissions.covers(write("half/head"))).toBe(false);
    expect(permissions.covers(write("half/config"))).toBe(true);
    expect(permissions.covers(write("plain/HEAD"))).toBe(true);
  });

  test("and those of one with foreign objects and configuration", () => {
    const permissions = of(["*"], facts());
    expect(permissions.covers(write("shared/commondir"))).toBe(false);
    expect(permissions.covers(write("elsewhere/HEAD"))).toBe(false);
    expect(permissions.covers(write("shared/config.worktree"))).toBe(true);
    expect(permissions.covers(write("plain/commondir"))).toBe(true);
  });

  test.each([
    ["Write(vendor/x.git/**)", "vendor/x.git/config", true],
    ["/dev/fs/vendor/x.git", "vendor/x.git/config", true],
    ["Write(vendor/*/config)", "vendor/x.git/config", false],
    ["Write(vendor/**)", "vendor/x.git/config", false],
    ["/dev/fs/vendor", "vendor/x.git/config", false],
    ["Write(.git/**)", "link/config", true],
  ])("with %s a write to %s is covered: %p", (rule, path, covered) => {
    expect(of(["*", rule], facts()).covers(write(path))).toBe(covered);
    const granted = of(["*"], facts()).grant([parseRule(rule)], null, { lift: true });
    expect(granted.covers(write(path))).toBe(covered);
  });
});
