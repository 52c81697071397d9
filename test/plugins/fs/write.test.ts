import { describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../../../src/plugin/index.ts";
import { Project } from "./project.ts";

test("a new file is made with its folders, and reported as changed by its absolute path", async () => {
  using project = new Project();
  expect(await project.run({ op: "write", path: "a/b/c.txt", content: "grüße\n" })).toBe(
    "Created a/b/c.txt (8 bytes).",
  );
  expect(project.text("a/b/c.txt")).toBe("grüße\n");
  expect(project.notes.changed).toEqual([project.path("a/b/c.txt")]);
});

test("an existing file is replaced whole", async () => {
  using project = new Project();
  project.put("a.txt", "something long");
  expect(await project.run({ op: "write", path: "a.txt", content: "x" })).toBe(
    "Replaced a.txt (1 bytes, before 14 bytes).",
  );
  expect(project.text("a.txt")).toBe("x");
});

test("an empty content makes an empty file", async () => {
  using project = new Project();
  await project.run({ op: "write", path: "a.txt", content: "" });
  expect(project.text("a.txt")).toBe("");
});

for (const mode of [0o600, 0o644, 0o755, 0o4711]) {
  test(`the mode 0${mode.toString(8)} stays the same after Write and Edit`, async () => {
    using project = new Project();
    chmodSync(project.put("run.sh", "old"), mode);
    await project.run({ op: "write", path: "run.sh", content: "new" });
    expect(statSync(project.path("run.sh")).mode & 0o7777).toBe(mode);
    await project.run({ op: "edit", path: "run.sh", old_string: "new", new_string: "newer" });
    expect(statSync(project.path("run.sh")).mode & 0o7777).toBe(mode);
  });
}

test("a write leaves no other file", async () => {
  using project = new Project();
  await project.run({ op: "write", path: "a.txt", content: "x" });
  await project.run({ op: "write", path: "a.txt", content: "y" });
  expect(readdirSync(project.dir)).toEqual(["a.txt"]);
});

describe("a failed write changes nothing:", () => {
  test("a folder", async () => {
    using project = new Project();
    mkdirSync(project.path("src"));
    const error = await project.fails({ op: "write", path: "src", content: "x" });
    expect(error.code).toBe("INVALID");
    expect(error.message).toContain("folder");
  });

  test("a name that ends with a slash", async () => {
    using project = new Project();
    expect((await project.fails({ op: "write", path: "src/", content: "x" })).code).toBe("INVALID");
    expect(readdirSync(project.dir)).toEqual([]);
  });

  test("a folder that no user may write to", async () => {
    using project = new Project();
    // /proc refuses new files to root as well, which a folder's mode does not.
    const context = { ...project.context, folders: ["/proc/sys/kernel"] };
    const error = await project.fails(
      { op: "write", path: "/proc/sys/kernel/rnix-test", content: "x" },
      undefined,
      context,
    );
    expect(error.code).toBeOneOf(["PERMISSION", "NOT_FOUND"]);
    expect(error.message).toStartWith("Could not write /proc/sys/kernel/rnix-test");
  });

  test("a read-only folder, and a read-only file", async () => {
    using project = new Project();
    project.put("dir/a.txt", "old");
    project.put("b.txt", "old");
    chmodSync(project.path("dir"), 0o500);
    chmodSync(project.path("b.txt"), 0o400);
    const paths = ["dir/new.txt", "dir/a.txt", "dir/deep/new.txt", "b.txt"];
    const owned = ["..", ".", "dir", "dir/a.txt", "b.txt"].map((name) => project.path(name));
    const operations = paths.map((path) => ({ op: "write", path, content: "x" }));
    const child = Bun.spawn(
      [
        process.execPath,
        join(import.meta.dir, "run-unprivileged.ts"),
        project.dir,
        JSON.stringify(operations),
        ...owned,
      ],
      { stdout: "pipe", stderr: "inherit" },
    );
    const ends: string[] = JSON.parse(await child.stdout.text());
    expect(ends.map((end) => end.slice(0, end.lastIndexOf(":")))).toEqual(
      paths.map((path) => `PERMISSION: Could not write ${path}`),
    );
    expect(readdirSync(project.path("dir"))).toEqual(["a.txt"]);
    expect(project.text("dir/a.txt") + project.text("b.txt")).toBe("oldold");
  });

  test("a call that was cancelled before its start", async () => {
    using project = new Project();
    const error = await project.fails(
      { op: "write", path: "a/b.txt", content: "x" },
      AbortSignal.abort(new SyscallError("CANCELLED", "The run was stopped.")),
    );
    expect(error.code).toBe("CANCELLED");
    expect(readdirSync(project.dir)).toEqual([]);
  });

  test("a call that is cancelled while it runs leaves either the old or the new file", async () => {
    using project = new Project();
    project.put("a.txt", "old");
    const content = "x".repeat(4 * 1024 * 1024);
    for (let turns = 0; turns < 6; turns++) {
      const controller = new AbortController();
      const writing = project.run({ op: "write", path: "a.txt", content }, controller.signal).then(
        () => "done",
        (error: { code: string }) => error.code,
      );
      for (let turn = 0; turn < turns; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
      controller.abort(new SyscallError("CANCELLED", "The run was stopped."));
      expect(await writing).toBeOneOf(["done", "CANCELLED"]);
      expect(project.text("a.txt").length).toBeOneOf([3, content.length]);
      expect(readdirSync(project.dir)).toEqual(["a.txt"]);
    }
  });
});

test("two concurrent writes to one file leave the whole content of one", async () => {
  using project = new Project();
  project.put("a.txt", "old");
  const contents = ["a".repeat(1_000_000), "b".repeat(1_000_000)];
  const ends = await Promise.allSettled(
    contents.map((content) => project.run({ op: "write", path: "a.txt", content })),
  );
  expect(ends.some((end) => end.status === "fulfilled")).toBe(true);
  expect(contents).toContain(project.text("a.txt"));
  expect(readdirSync(project.dir)).toEqual(["a.txt"]);
});
