import { describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import plugin from "../../../plugins/fs/index.ts";
import { type Code, O_RDONLY, O_RDWR, O_WRONLY } from "../../../src/plugin/index.ts";
import { exchange, text } from "../../support/conformance/vfs-file.ts";
import { failure } from "../../support/failure.ts";
import { measured } from "../../support/measured.ts";
import { until } from "../../support/until.ts";
import { Project } from "./project.ts";

const never = new AbortController().signal;

describe("/dev/fs/<path> is that file", () => {
  test("a read gives its bytes, by a path relative to the working folder or the host's", async () => {
    using project = new Project();
    project.put("src/a.txt", "hello\n");
    for (const subpath of ["/src/a.txt", `${project.dir}/src/a.txt`, "/src/../src/./a.txt"]) {
      const file = await project.open(subpath, O_RDONLY);
      expect(text(await exchange(file, null, { max: 3 }))).toBe("hello\n");
      await file.close();
    }
  });

  test("a read gives every byte unchanged", async () => {
    using project = new Project();
    const bytes = Uint8Array.from({ length: 300_000 }, (_, index) => index % 251);
    project.put("a.bin", bytes);
    const file = await project.open("/a.bin", O_RDONLY);
    expect(await exchange(file, null)).toEqual(Buffer.from(bytes));
    await file.close();
  });

  test("a write replaces or creates it with its folders, and takes bytes and text", async () => {
    using project = new Project();
    const file = await project.open("/new/a.txt", O_WRONLY);
    await file.write("first and long", never);
    expect(project.text("new/a.txt")).toBe("first and long");
    await file.write(new Uint8Array([104, 105]), never);
    expect(project.text("new/a.txt")).toBe("hi");
    await file.close();
    expect(project.notes.changed).toEqual([project.path("new/a.txt"), project.path("new/a.txt")]);
  });

  test("JSON written to it is its content, not an operation", async () => {
    using project = new Project();
    const file = await project.open("/a.json", O_WRONLY);
    await file.write('{"op":"read","path":"b.txt"}', never);
    await file.close();
    expect(project.text("a.json")).toBe('{"op":"read","path":"b.txt"}');
  });

  test("a file that is open for both is read from the start after a write", async () => {
    using project = new Project();
    project.put("a.txt", "old content");
    const file = await project.open("/a.txt", O_RDWR);
    expect(text(await file.read(3, never))).toBe("old");
    expect(text(await exchange(file, "new"))).toBe("new");
    await file.close();
  });

  test("its stat describes it", async () => {
    using project = new Project();
    project.put("src/a.txt", "hello");
    const file = await project.open("/src/a.txt", O_RDONLY);
    expect(await file.stat()).toMatchObject({
      name: "a.txt",
      size: 5,
      isDevice: false,
      devicePath: "/dev/fs/src/a.txt",
    });
    await file.close();
    const folder = await project.open("/src", O_RDONLY);
    expect(await folder.stat()).toMatchObject({ name: "src", isFolder: true });
    expect((await failure(() => folder.read(10, never))).code).toBe("INVALID");
    await folder.close();
  });
});

describe("a read", () => {
  test.each<[string, string, Code]>([
    ["of an answer before there was an operation", "", "INVALID"],
    ["of a file that is not there yet", "/b.txt", "NOT_FOUND"],
  ])("%s fails", async (_title, subpath, code) => {
    using project = new Project();
    const file = await project.open(subpath);
    expect((await failure(() => file.read(10, never))).code).toBe(code);
    await file.close();
  });

  test("a missing file can't be opened for reading, and is not created", async () => {
    using project = new Project();
    expect((await failure(() => project.open("/b.txt", O_RDONLY))).code).toBe("NOT_FOUND");
    expect(readdirSync(project.dir)).toEqual([]);
  });
});

describe("a path that could be the host's", () => {
  test("is the project's when the project has such a folder", async () => {
    using project = new Project();
    project.put("etc/passwd", "mine");
    const file = await project.open("/etc/passwd", O_RDONLY);
    expect(text(await exchange(file, null))).toBe("mine");
    await file.close();
  });

  test("is the host's otherwise, and refused", async () => {
    using project = new Project();
    expect((await failure(() => project.open("/etc/passwd", O_RDONLY))).code).toBe("PERMISSION");
    expect((await failure(() => project.open("/etc/new-file", O_WRONLY))).code).toBe("PERMISSION");
  });
});

test("a file of 200 MB is read piece by piece", async () => {
  const { answer, peakBytes } = await measured(join(import.meta.dir, "../programs/large-file.ts"), "whole");
  expect(answer).toBe(String(200 * 1024 * 1024));
  expect(peakBytes).toBeLessThan(100 * 1024 * 1024);
});

test("a FIFO is never opened", async () => {
  using project = new Project();
  expect(Bun.spawnSync(["mkfifo", project.path("fifo")]).exitCode).toBe(0);
  const file = await project.open("/fifo", O_RDONLY);
  expect((await failure(() => file.read(10, never))).code).toBe("INVALID");
  await file.close();
  expect((await failure(() => project.open("/fifo", O_WRONLY))).code).toBe("INVALID");
});

test("no file stays open, whether the call succeeded or failed", async () => {
  using project = new Project();
  mkdirSync(project.path("src"));
  project.put("a.txt", "hello");
  const openFiles = (): number => (process.platform === "linux" ? readdirSync("/proc/self/fd").length : 0);
  const before = openFiles();
  const operations = [
    { op: "read", path: "a.txt" },
    { op: "read", path: "a.txt", offset: 9 },
    { op: "read", path: "src" },
    { op: "write", path: "deep/er/b.txt", content: "x" },
    { op: "write", path: "src", content: "x" },
    { op: "edit", path: "a.txt", old_string: "nothing", new_string: "x" },
    { op: "edit", path: "a.txt", old_string: "hello", new_string: "hello!" },
    { op: "glob", pattern: "**/*" },
    { op: "grep", pattern: "h" },
  ];
  for (const operation of operations) await Promise.allSettled([project.run(operation)]);
  const file = await project.open("/a.txt", O_RDONLY);
  await file.read(2, never);
  await file.close();
  // An idle search Worker has files of its own.
  await plugin.dispose();
  // Other open files of this process may be closed or opened meanwhile.
  await until(() => openFiles() <= before, "all files closed");
});
