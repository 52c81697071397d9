import { describe, expect, test } from "bun:test";
import { existsSync, linkSync, lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { O_RDONLY, O_WRONLY, type OpenContext } from "../../../src/plugin/index.ts";
import { exchange } from "../../support/conformance/vfs-file.ts";
import { failure } from "../../support/failure.ts";
import { Project, SECRET } from "./project.ts";

/** Paths that lead outside, each made in a fresh project. */
const ATTACKS: Record<string, (project: Project) => string> = {
  "an absolute path": (p) => join(p.outside, "secret.txt"),
  "a path through ..": () => "../outside/secret.txt",
  "a path through a folder and ..": () => "src/../../outside/secret.txt",
  "a symlink to a file": (p) => link(p, "link.txt", join(p.outside, "secret.txt")),
  "a relative symlink to a file": (p) => link(p, "link.txt", "../outside/secret.txt"),
  "a symlink to a folder": (p) => join(link(p, "folder", p.outside), "secret.txt"),
  "a symlink to a symlink": (p) => {
    link(p, "second", p.outside);
    return join(link(p, "first", "second"), "secret.txt");
  },
  "a symlink to the root": (p) => join(link(p, "root", "/"), p.outside, "secret.txt"),
  "a folder whose name begins like the project's": (p) => {
    mkdirSync(`${p.dir}-other`);
    return `${p.dir}-other/secret.txt`;
  },
  "the root": () => "/",
  "the home of another user": () => "/root/.ssh/id_rsa",
  "a device": () => "/dev/zero",
  "its own memory": () => "/proc/self/environ",
  "a name with a NUL byte": () => "a.txt\0.png",
};

function link(project: Project, name: string, aim: string): string {
  symlinkSync(aim, project.path(name));
  return name;
}

const OPERATIONS: Record<string, (path: string) => object> = {
  Read: (path) => ({ op: "read", path }),
  Write: (path) => ({ op: "write", path, content: "overwritten" }),
  "Edit that changes": (path) => ({ op: "edit", path, old_string: "secret", new_string: "overwritten" }),
  "Edit that creates": (path) => ({ op: "edit", path, old_string: "", new_string: "overwritten" }),
  Glob: (path) => ({ op: "glob", pattern: "*", path }),
  "Glob by its pattern": (path) => ({ op: "glob", pattern: `${path}/*` }),
  Grep: (path) => ({ op: "grep", pattern: "secret", path, output_mode: "content" }),
};

describe("a path that leads outside is refused", () => {
  for (const [attack, make] of Object.entries(ATTACKS)) {
    for (const [tool, operation] of Object.entries(OPERATIONS)) {
      test(`${attack}, by ${tool}`, async () => {
        using project = new Project();
        const error = await project.fails(operation(make(project)));
        expect(`${error.code}: ${error.message}`).toStartWith("PERMISSION: ");
        expect(error.message).not.toContain(SECRET);
        if (!attack.includes("NUL")) {
          expect(error.message).toContain(project.dir);
          expect(error.message).toContain("--add");
        }
        expect(readFileSync(join(project.outside, "secret.txt"), "utf8")).toBe(SECRET);
        expect(readdirSync(project.outside)).toEqual(["secret.txt"]);
        expect(project.notes.changed).toEqual([]);
      });
    }

    test(`${attack}, as a file`, async () => {
      using project = new Project();
      const path = make(project);
      for (const flags of [O_RDONLY, O_WRONLY] as const) {
        const error = await failure(async () => {
          const file = await project.open(path.startsWith("/") ? path : `/${path}`, flags);
          await exchange(file, flags === O_RDONLY ? null : "overwritten").finally(() => file.close());
        });
        expect(error.code).toBeOneOf(["PERMISSION", "INVALID"]);
      }
      expect(readFileSync(join(project.outside, "secret.txt"), "utf8")).toBe(SECRET);
    });
  }
});

describe("a path that leads inside through a link outside", () => {
  const asked = (project: Project, name: string) => join(project.outside, "way-in", name);
  function projectWithWayIn(): Project {
    const project = new Project();
    project.put("src/a.txt", "inside");
    symlinkSync(project.dir, join(project.outside, "way-in"));
    return project;
  }

  test.each(Object.entries(OPERATIONS).filter(([tool]) => !tool.startsWith("Edit that ch")))(
    "works like any other, by %s",
    async (tool, operation) => {
      using project = projectWithWayIn();
      const isNew = tool === "Write" || tool.startsWith("Edit");
      const name = isNew ? "src/deep/new.txt" : tool === "Read" || tool === "Grep" ? "src/a.txt" : "src";
      await project.run(operation(asked(project, name)));
      if (isNew) expect(project.text(name)).toBe("overwritten");
    },
  );

  test("is NOT_FOUND when no file exists, and refused when it leads outside again", async () => {
    using project = projectWithWayIn();
    const missing = await project.fails({ op: "read", path: asked(project, "src/b.txt") });
    expect(missing.code).toBe("NOT_FOUND");
    link(project, "out", project.outside);
    for (const path of ["out/secret.txt", "out/none.txt", "out/way-in/../secret.txt"]) {
      const error = await project.fails({ op: "read", path: asked(project, path) });
      expect(error.code).toBe("PERMISSION");
    }
  });
});

describe("a new file", () => {
  test("is not made below a symlink that leads outside", async () => {
    using project = new Project();
    link(project, "folder", project.outside);
    const error = await project.fails({ op: "write", path: "folder/deep/new.txt", content: "x" });
    expect(error.code).toBe("PERMISSION");
    expect(readdirSync(project.outside)).toEqual(["secret.txt"]);
  });

  test("is not made through a broken symlink", async () => {
    using project = new Project();
    link(project, "link.txt", join(project.outside, "new.txt"));
    const error = await project.fails({ op: "write", path: "link.txt", content: "x" });
    expect(error.code).toBe("PERMISSION");
    expect(existsSync(join(project.outside, "new.txt"))).toBe(false);
  });

  test("is not made below a file", async () => {
    using project = new Project();
    project.put("file", "x");
    const error = await project.fails({ op: "write", path: "file/new.txt", content: "x" });
    expect(error.code).toBe("INVALID");
    expect(project.text("file")).toBe("x");
  });
});

describe("a path that stays inside is accepted", () => {
  const NAMES = [
    "with space.txt",
    "-rf",
    "näïve – 名前 🚀.txt",
    "quo'te\".txt",
    "new\nline.txt",
    "back\\slash.txt",
    "per%2e%2ecent",
    "notes (deleted)",
    "...",
    "..a",
    "a*b?[c].txt",
    "$HOME",
    "~",
    " ",
    "n".repeat(255),
  ];
  for (const name of NAMES) {
    test(`the name ${JSON.stringify(name.slice(0, 40))}`, async () => {
      using project = new Project();
      await project.run({ op: "write", path: name, content: "content" });
      expect(readdirSync(project.dir)).toEqual([name]);
      expect(await project.run({ op: "read", path: name })).toBe("1\tcontent");
      expect(
        await project.run({ op: "edit", path: name, old_string: "content", new_string: "new" }),
      ).toContain("+new");
      expect(await project.run({ op: "grep", pattern: "new" })).toBe(name);
      expect(await project.run({ op: "glob", pattern: "**/*" })).toBe(name);
    });
  }

  test("a name longer than the file system allows is INVALID", async () => {
    using project = new Project();
    expect((await project.fails({ op: "write", path: "n".repeat(300), content: "x" })).code).toBe("INVALID");
    expect((await project.fails({ op: "read", path: "n".repeat(300) })).code).toBe("INVALID");
  });

  test("a symlink inside the project is followed, and stays one after a write", async () => {
    using project = new Project();
    project.put("real.txt", "old");
    link(project, "link.txt", "real.txt");
    expect(await project.run({ op: "read", path: "link.txt" })).toBe("1\told");
    await project.run({ op: "write", path: "link.txt", content: "new" });
    expect(lstatSync(project.path("link.txt")).isSymbolicLink()).toBe(true);
    expect(project.text("real.txt")).toBe("new");
    expect(project.notes.changed).toEqual([project.path("real.txt")]);
  });

  test("a cycle of symlinks is an error", async () => {
    using project = new Project();
    link(project, "a", "b");
    link(project, "b", "a");
    expect((await project.fails({ op: "read", path: "a" })).code).toBe("INVALID");
    expect((await project.fails({ op: "write", path: "a", content: "x" })).code).toBe("INVALID");
  });

  test("an added folder may be read and written, by its real path and through a link", async () => {
    using project = new Project();
    const context: OpenContext = { ...project.context, folders: [project.outside] };
    const path = join(project.outside, "secret.txt");
    expect(await project.run({ op: "read", path }, undefined, context)).toContain(SECRET);
    await project.run({ op: "write", path, content: "new" }, undefined, context);
    expect(readFileSync(path, "utf8")).toBe("new");
    expect(await project.run({ op: "glob", pattern: "*", path: project.outside }, undefined, context)).toBe(
      path,
    );
  });

  test("a project that is reached by a symlink may be named either way", async () => {
    using project = new Project();
    project.put("a.txt", "hello");
    const alias = join(project.outside, "alias");
    symlinkSync(project.dir, alias);
    const context: OpenContext = {
      ...project.context,
      project: { ...project.context.project, dir: alias },
      cwd: alias,
    };
    for (const path of ["a.txt", join(alias, "a.txt"), project.path("a.txt")]) {
      expect(await project.run({ op: "read", path }, undefined, context)).toBe("1\thello");
    }
  });

  test("in a subfolder, paths are relative to it, and the rest of the project can be reached", async () => {
    using project = new Project();
    project.put("top.txt", "top");
    project.put("sub/low.txt", "low");
    const context: OpenContext = { ...project.context, cwd: project.path("sub") };
    expect(await project.run({ op: "read", path: "low.txt" }, undefined, context)).toBe("1\tlow");
    expect(await project.run({ op: "read", path: "../top.txt" }, undefined, context)).toBe("1\ttop");
  });
});

describe("the run's records", () => {
  for (const path of [
    ".rnix/data",
    ".rnix/data/steps/x.jsonl",
    "src/../.rnix/data/x",
    ".rnix/./data/x",
    "sub/.rnix/data/x",
  ]) {
    test(`${path} can't be written`, async () => {
      using project = new Project();
      for (const operation of [
        { op: "write", path, content: "x" },
        { op: "edit", path, old_string: "", new_string: "x" },
      ]) {
        expect((await project.fails(operation)).code).toBe("PERMISSION");
      }
      expect(existsSync(project.path(".rnix"))).toBe(false);
    });
  }

  test("can't be written through a symlink either, and the rest of .rnix can", async () => {
    using project = new Project();
    project.put(".rnix/data/proc-info.json", "{}");
    link(project, "data", ".rnix/data");
    expect((await project.fails({ op: "write", path: "data/proc-info.json", content: "x" })).code).toBe(
      "PERMISSION",
    );
    expect(project.text(".rnix/data/proc-info.json")).toBe("{}");
    await project.run({ op: "write", path: ".rnix/agents/a/agent.yaml", content: "name: a" });
    expect(project.text(".rnix/agents/a/agent.yaml")).toBe("name: a");
  });
});

describe("Rnix's own folders in a project that holds them, as HOME does", () => {
  const at = (project: Project): OpenContext => ({
    ...project.context,
    guarded: [
      { dir: project.path("conf"), readable: false },
      { dir: project.path("trust"), readable: true },
    ],
  });

  test("can be written by no run, and read where they are readable", async () => {
    using project = new Project();
    project.put("conf/env", "KEY=secret");
    project.put("trust/p.json", "{}");
    project.put("confused/x", "mine");
    const context = at(project);
    for (const path of ["conf/env", "conf/plugins/new.ts", "trust/p.json", "trust/new.json"]) {
      const write = { op: "write", path, content: "x" };
      expect((await failure(() => project.run(write, undefined, context))).code).toBe("PERMISSION");
    }
    expect(
      (await failure(() => project.run({ op: "read", path: "conf/env" }, undefined, context))).code,
    ).toBe("PERMISSION");
    expect(await project.run({ op: "read", path: "trust/p.json" }, undefined, context)).toBe("1\t{}");
    expect(await project.run({ op: "read", path: "confused/x" }, undefined, context)).toBe("1\tmine");
  });

  test("are not searched", async () => {
    using project = new Project();
    project.put("conf/env", "KEY=secret");
    project.put("other.txt", "KEY=other");
    const found = await project.run({ op: "grep", pattern: "KEY=" }, undefined, at(project));
    expect(found).toContain("other.txt");
    expect(found).not.toContain("env");
  });
});

describe("a folder that is repeatedly replaced by a symlink", () => {
  /**
   * Puts a folder of the project and a link to the one outside at the same path in turn, until it is
   * ended. A folder that a write made there is moved aside.
   */
  const SWAPPER = `
    const { renameSync } = require("node:fs");
    const [swap, good, bad] = process.argv.slice(-3);
    let aside = 0;
    const place = (path) => {
      for (let placed = false; !placed; ) {
        try {
          renameSync(path, swap);
          placed = true;
        } catch (error) {
          if (!["EISDIR", "ENOTEMPTY"].includes(error.code)) throw error;
          renameSync(swap, good + aside++);
        }
      }
      renameSync(swap, path);
    };
    console.log("ready");
    for (;;) { place(good); place(bad); }`;

  async function underAttack(project: Project, run: () => Promise<void>): Promise<void> {
    mkdirSync(project.path("good"));
    project.put("good/secret.txt", "harmless");
    link(project, "bad", project.outside);
    const swapper = Bun.spawn(
      [process.execPath, "-e", SWAPPER, project.path("swap"), project.path("good"), project.path("bad")],
      { stdout: "pipe", stderr: "inherit" },
    );
    try {
      await swapper.stdout.getReader().read();
      await run();
    } finally {
      swapper.kill("SIGKILL");
      await swapper.exited;
    }
  }

  async function attempt(run: () => Promise<string>): Promise<string> {
    try {
      return await run();
    } catch (thrown) {
      return String(thrown);
    }
  }

  test("never gives content from outside", async () => {
    using project = new Project();
    let harmless = 0;
    await underAttack(project, async () => {
      for (let round = 0; round < 400; round++) {
        const read = await attempt(() => project.run({ op: "read", path: "swap/secret.txt" }));
        const found = await attempt(() =>
          project.run({ op: "grep", pattern: ".", path: "swap", output_mode: "content" }),
        );
        expect(read).not.toContain(SECRET);
        expect(found).not.toContain(SECRET);
        if (read.includes("harmless")) harmless++;
      }
    });
    expect(harmless).toBeGreaterThan(0);
  });

  test("never lets a write reach outside", async () => {
    using project = new Project();
    let written = 0;
    await underAttack(project, async () => {
      for (let round = 0; round < 400; round++) {
        const answer = await attempt(() =>
          project.run({ op: "write", path: `swap/deep/${round}.txt`, content: "x" }),
        );
        if (answer.startsWith("Created")) written++;
      }
    });
    expect(readdirSync(project.outside)).toEqual(["secret.txt"]);
    expect(readFileSync(join(project.outside, "secret.txt"), "utf8")).toBe(SECRET);
    expect(written).toBeGreaterThan(0);
  });
});

test("a hard link inside the project is a file like any other, and a write does not reach its other name", async () => {
  using project = new Project();
  project.put("a.txt", "old");
  linkSync(project.path("a.txt"), project.path("b.txt"));
  await project.run({ op: "write", path: "a.txt", content: "new" });
  expect(project.text("b.txt")).toBe("old");
});
