import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Call, Permissions } from "../../../src/kernel/permission/permissions.ts";

/* Rules on files that a driver has opened, and on calls whose driver asks for each file. */

const PROJECT = "/home/u/project";
const path = "/dev/fs";
const TOOLS = [
  { name: "Read", subject: "path", path, readOnly: true },
  { name: "Write", subject: "path", path },
  { name: "Grep", subject: "path", path, filters: true, readOnly: true },
  { name: "Glob", subject: "path", path, filters: true, readOnly: true },
];

function of(allow: string[], deny: string[] = [], project = PROJECT): Permissions {
  const facts = { tools: TOOLS, devices: [path], projectDir: project, cwd: project };
  return Permissions.of({ ...facts, ...(project === PROJECT && { realPath: same }), allow, deny });
}

const same = (real: string): string => real;

/** Whether `Grep` may have each of these files, relative to the project or absolute. */
function may(permissions: Permissions, tool: string | null, files: string[], also: string[] = []): boolean[] {
  const call: Call = { tool, path, ...(tool !== null && { subject: "." }) };
  return files.map((file) => {
    const opened = file.startsWith("/") ? file : join(PROJECT, file);
    return permissions.refusalOfOpened({ ...call, opened }, also) === null;
  });
}

describe("a file that was opened", () => {
  const FILES = [
    ".env",
    "a/.env",
    "a/ENV",
    "a/.ENV",
    "src/a",
    "secret",
    "secret/key",
    "/data/.env",
    "/data/x",
  ];
  const cases: [allow: string[], deny: string[], refused: string[]][] = [
    [["*"], [], []],
    [["*"], ["Grep(**/.env)"], [".env", "a/.env", "a/.ENV"]],
    [["*"], ["/dev/fs/**/.env"], [".env", "a/.env", "a/.ENV", "/data/.env"]],
    [["*"], ["Read(**/.env)"], [".env", "a/.env", "a/.ENV"]],
    [["*"], ["Grep(/data/**)"], ["/data/.env", "/data/x"]],
    [["*"], ["Read(secret/**)"], ["secret", "secret/key"]],
    [["*"], ["/dev/fs/secret"], ["secret", "secret/key"]],
    // Of another tool, or of none but Read as a whole: it is searched still.
    [["*"], ["Write(**/.env)", "Glob(**/.env)"], []],
    [["*"], ["Read"], []],
    [["Read(src/**)", "Grep(src/**)"], [], FILES.filter((file) => file !== "src/a")],
    [["/dev/fs/src/**"], [], FILES.filter((file) => file !== "src/a")],
    [["Read", "Write"], [], FILES],
    [["Grep"], ["*"], FILES],
  ];
  for (const [allow, deny, refused] of cases) {
    test(`allow [${allow}] deny [${deny}]`, () => {
      const allowed = may(of(allow, deny), "Grep", FILES, ["Read"]);
      expect(FILES.filter((_, index) => !allowed[index])).toEqual(refused);
    });
  }

  test("a parent's rules apply to its child", () => {
    const child = of(["*"], ["Read(**/.env)"]).child(["*"], ["Grep(src/**)"]);
    expect(may(child, "Grep", ["a/.env", "src/a", "b"], ["Read"])).toEqual([false, false, true]);
  });

  test("is protected by its real path, under any name", () => {
    const files = [".git/config", ".rnix/agents/a/agent.yaml", "src/a"];
    expect(may(of(["*"]), "Write", files)).toEqual([false, false, true]);
    expect(may(of(["*", "Write(.git/**)"]), "Write", files)).toEqual([true, false, true]);
    expect(may(of(["*"]), "Read", files)).toEqual([true, true, true]);
  });

  test("opened raw is decided by device paths", () => {
    expect(may(of(["*"], ["/dev/fs/secret/**"]), null, ["secret/key", "src/a"])).toEqual([false, true]);
    expect(may(of(["/dev/fs/src/**"]), null, ["secret/key", "src/a"])).toEqual([false, true]);
  });
});

describe("in a project that is named through a link", () => {
  let root: string;
  beforeAll(() => {
    root = realpathSync(mkdtempSync(join(tmpdir(), "rnix-opened-")));
    mkdirSync(join(root, "real"));
    symlinkSync("real", join(root, "link"));
  });
  afterAll(() => rmSync(root, { recursive: true }));

  test("rules match as they are written, relative and absolute", () => {
    const file = join(root, "real/secret/key");
    for (const deny of ["Grep(secret/**)", `Grep(${root}/link/secret/**)`, `Grep(${root}/real/secret/**)`]) {
      expect(may(of(["*"], [deny], join(root, "link")), "Grep", [file, join(root, "real/b")])).toEqual([
        false,
        true,
      ]);
    }
    expect(may(of(["Grep(secret/**)"], [], join(root, "link")), "Grep", [file])).toEqual([true]);
  });
});

describe("a call whose driver asks for each file", () => {
  const covers = (permissions: Permissions, subject?: string): boolean =>
    permissions.covers({ tool: "Grep", path, subject });

  test("may begin above a denied path, and not in it", () => {
    for (const deny of ["Grep(secret/**)", "/dev/fs/secret/**"]) {
      const permissions = of(["*"], [deny]);
      expect([".", undefined, "src", "secret", "secret/deep"].map((at) => covers(permissions, at))).toEqual([
        true,
        true,
        true,
        false,
        false,
      ]);
    }
  });

  test("may begin above the allowed path, and not beside it", () => {
    for (const allow of ["Grep(src/a/**)", "Grep(src/a/*.ts)", "/dev/fs/src/a/**", "/dev/fs/src/a"]) {
      const permissions = of([allow]);
      expect([".", "src", "src/a", "src/b", "test", "/"].map((at) => covers(permissions, at))).toEqual([
        true,
        true,
        true,
        false,
        false,
        false,
      ]);
    }
  });

  test("any other call may not", () => {
    const read = { tool: "Read", path, subject: "." };
    expect(of(["*"], ["Read(secret/**)"]).covers(read)).toBe(false);
    expect(of(["Read(src/**)"]).covers(read)).toBe(false);
  });
});
