import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, symlinkSync } from "node:fs";
import { basename, relative } from "node:path";
import plugin from "../../../plugins/fs/index.ts";
import { Permissions } from "../../../src/kernel/permission/permissions.ts";
import { O_RDONLY, O_WRONLY, type OpenContext, type ToolDef } from "../../../src/plugin/index.ts";
import { failure } from "../../support/failure.ts";
import { Project } from "./project.ts";

/* What a run's rules say of the files that a call meets on its way. The kernel's own look at the call is not made here. */

const DEVICE = plugin.devices["/dev/fs"];
const DEFS: readonly ToolDef[] = DEVICE.tools;
const TOOLS: Record<string, string> = {
  read: "Read",
  write: "Write",
  edit: "Edit",
  glob: "Glob",
  grep: "Grep",
};

/** The project's context with the rules of a run, for a call of this tool or, with null, a raw open. */
function ruled(
  project: Project,
  tool: string | null,
  rules: { allow?: string[]; deny?: string[] },
): OpenContext {
  const permissions = Permissions.of({
    tools: DEFS.map(({ name, subject, filters }) => ({ name, subject, filters, path: "/dev/fs" })),
    devices: ["/dev/fs"],
    projectDir: project.dir,
    cwd: project.dir,
    allow: rules.allow ?? ["*"],
    deny: rules.deny ?? [],
  });
  return {
    ...project.context,
    access: async (paths, also = []) =>
      paths.map((opened) =>
        permissions.refusalOfOpened({ tool, path: "/dev/fs", subject: ".", opened }, also),
      ),
  };
}

type Operation = { op: string } & Record<string, unknown>;

function run(project: Project, operation: Operation, rules: Parameters<typeof ruled>[2]): Promise<string> {
  return project.run(operation, undefined, ruled(project, TOOLS[operation.op] ?? "", rules));
}

describe("a search leaves out files that rules deny, and counts them", () => {
  let project: Project;
  beforeAll(() => {
    project = new Project();
    for (const path of ["a.ts", "src/b.ts", "src/deep/c.ts", "secret/key", ".env", "src/.env"]) {
      project.put(path, `KEY of ${path}\n`);
    }
    symlinkSync("../secret/key", project.path("src/link"));
    symlinkSync("secret", project.path("way"));
  });
  afterAll(() => project[Symbol.dispose]());

  const FILES = [".env", "a.ts", "secret/key", "src/.env", "src/b.ts", "src/deep/c.ts"];
  const LINKS = ["src/link", "way"];
  const cases: [rules: { allow?: string[]; deny?: string[] }, grep: string[], glob: string[]][] = [
    [{ deny: ["Grep(**/.env)", "Glob(**/.env)"] }, [".env", "src/.env"], [".env", "src/.env"]],
    [{ deny: ["Grep(**/.env)"] }, [".env", "src/.env"], []],
    [{ deny: ["/dev/fs/**/.env"] }, [".env", "src/.env"], [".env", "src/.env"]],
    [{ deny: ["Read(**/.env)"] }, [".env", "src/.env"], [".env", "src/.env"]],
    [{ deny: ["Read(secret/**)"] }, ["secret/key"], ["secret/key", ...LINKS]],
    [{ deny: ["/dev/fs/secret"] }, ["secret/key"], ["secret/key", ...LINKS]],
    [{ deny: ["Write(**)", "Edit(**)"] }, [], []],
    [
      { allow: ["Read(src/**)", "Grep(src/**)", "Glob(src/**)"] },
      [".env", "a.ts", "secret/key"],
      [".env", "a.ts", "secret/key", ...LINKS],
    ],
  ];
  const said = (left: number): string[] =>
    left === 0 ? [] : [`[${left} ${left === 1 ? "file was" : "files were"} left out by rules.]`];

  for (const [rules, grep, glob] of cases) {
    const title = JSON.stringify(rules);
    test(`Grep, ${title}`, async () => {
      const found = await run(project, { op: "grep", pattern: "KEY" }, rules);
      const rest = FILES.filter((file) => !grep.includes(file));
      expect(found.split("\n").toSorted()).toEqual([...rest, ...said(grep.length)].toSorted());
    });

    test(`Glob, ${title}`, async () => {
      const found = await run(project, { op: "glob", pattern: "**/*" }, rules);
      const rest = [...FILES, ...LINKS].filter((file) => !glob.includes(file));
      expect(found.split("\n").toSorted()).toEqual([...rest, ...said(glob.length)].toSorted());
    });
  }

  test("in a number that does not depend on what is searched for", async () => {
    const rules = { deny: ["Read(secret/**)"] };
    const left = async (operation: Operation): Promise<string | undefined> =>
      (await run(project, operation, rules)).split("\n").find((line) => line.includes("left out"));
    for (const pattern of ["secret/k*", "secret/z*", "secret/key"])
      expect(await left({ op: "glob", pattern })).toBe(said(1)[0]);
    for (const glob of ["k*", "z*", "secret/**"])
      expect(await left({ op: "grep", pattern: "KEY", glob })).toBe(said(1)[0]);
    expect(await left({ op: "grep", pattern: "nothing at all" })).toBe(said(1)[0]);
    expect(await left({ op: "grep", pattern: "KEY", head_limit: 1 })).toBeUndefined();
  });

  test("through a link to the folder, and by the file's name, too", async () => {
    const rules = { deny: ["Read(secret/**)"] };
    expect(await run(project, { op: "grep", pattern: "KEY", path: "way" }, rules)).toBe(
      "Nothing in secret matches KEY.\n[1 file was left out by rules.]",
    );
    expect(await run(project, { op: "glob", pattern: "*", path: "way" }, rules)).toBe(
      "No file in secret matches *.\n[1 file was left out by rules.]",
    );
    for (const path of ["way/key", "src/link", "secret/key"]) {
      const error = await failure(() => run(project, { op: "grep", pattern: "KEY", path }, rules));
      expect(error.code).toBe("PERMISSION");
      expect(error.message).toContain("The deny rule Read(secret/**) forbids it.");
      expect(error.message).not.toContain("KEY of");
    }
  });
});

describe("a file that a rule denies by its real path", () => {
  const deny = ["Read(secret/**)", "Write(secret/**)", "Edit(secret/**)"];
  function made(): Project {
    const project = new Project();
    project.put("secret/key.txt", "the key");
    symlinkSync("secret/key.txt", project.path("link.txt"));
    symlinkSync("secret", project.path("way"));
    return project;
  }
  const operations: Operation[] = [
    { op: "read", path: "link.txt" },
    { op: "read", path: "way/key.txt" },
    { op: "edit", path: "link.txt", old_string: "key", new_string: "x" },
    { op: "edit", path: "way/new.txt", old_string: "", new_string: "x" },
    { op: "write", path: "link.txt", content: "x" },
    { op: "write", path: "way/new.txt", content: "x" },
    { op: "write", path: "way/deep/er/new.txt", content: "x" },
    { op: "grep", pattern: "key", path: "link.txt" },
  ];
  for (const operation of operations) {
    test(`is refused: ${JSON.stringify(operation)}`, async () => {
      using project = made();
      const error = await failure(() => run(project, operation, { deny }));
      expect(error.code).toBe("PERMISSION");
      expect(error.message).toMatch(/leads to secret\/.*\. The deny rule \w+\(secret\/\*\*\) forbids it\./);
      expect(project.text("secret/key.txt")).toBe("the key");
      expect(readdirSync(project.path("secret"))).toEqual(["key.txt"]);
      expect(project.notes.changed).toEqual([]);
    });
  }

  test("can't be edited when it may not be read, because a failed edit shows its lines", async () => {
    using project = made();
    const operation = { op: "edit", path: "secret/key.txt", old_string: "the  key", new_string: "x" };
    const error = await failure(() => run(project, operation, { deny: ["Read(secret/**)"] }));
    expect(error.message).toContain("The deny rule Read(secret/**) forbids it.");
    await run(project, { op: "write", path: "secret/key.txt", content: "x" }, { deny: ["Read(secret/**)"] });
    expect(project.text("secret/key.txt")).toBe("x");
  });

  test("is not suggested", async () => {
    using project = made();
    project.put("secret/other.txt", "");
    for (const path of ["secret/keys.txt", "way/keys.txt"]) {
      const found = await failure(() => run(project, { op: "read", path }, {}));
      expect(found.message).toContain("key.txt?");
      const hidden = await failure(() => run(project, { op: "read", path }, { deny: ["Read(**/key.txt)"] }));
      expect(hidden.code).toBe("NOT_FOUND");
      expect(hidden.message).not.toContain("key.txt?");
    }
  });

  test("is refused to a plain open, read, write and stat, from the moment of the rule", async () => {
    using project = made();
    const context = ruled(project, null, { deny: ["/dev/fs/secret"] });
    for (const subpath of ["/link.txt", "/way/key.txt", `${project.dir}/secret/key.txt`]) {
      for (const flags of [O_RDONLY, O_WRONLY] as const) {
        const error = await failure(() => project.open(subpath, flags, context));
        expect(`${error.code}: ${error.message}`).toMatch(
          /^PERMISSION: .*The deny rule \/dev\/fs\/secret forbids it/,
        );
      }
    }
    let denied = false;
    const later = { ...context, access: async () => [denied ? "The rule is new." : null] };
    const file = await project.open("/link.txt", O_RDONLY, later);
    expect(await file.read(3, new AbortController().signal)).toHaveLength(3);
    expect(await file.stat()).toMatchObject({ size: 7 });
    denied = true;
    for (const call of [() => file.read(3, new AbortController().signal), () => file.stat()]) {
      expect((await failure(call)).message).toContain("The rule is new.");
    }
    await file.close();
  });

  test("is decided by the path of the descriptor", async () => {
    using project = made();
    const asked: string[] = [];
    const access: OpenContext["access"] = async (paths) => {
      asked.push(...paths.map((path) => relative(project.dir, path)));
      return paths.map(() => null);
    };
    const context = { ...project.context, access };
    await project.run({ op: "read", path: "link.txt" }, undefined, context);
    await project.run({ op: "write", path: "way/deep/new.txt", content: "x" }, undefined, context);
    expect([...new Set(asked)]).toEqual(["secret/key.txt", "secret/deep/new.txt"]);
    expect(asked.every((path) => basename(path) !== "")).toBe(true);
  });
});
