import { describe, expect, test } from "bun:test";
import { mkdirSync, symlinkSync, truncateSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { SyscallError } from "../../../src/plugin/index.ts";
import { measured } from "../../support/measured.ts";
import { Project } from "./project.ts";

const lines = (count: number): string =>
  Array.from({ length: count }, (_, index) => `line ${index + 1}\n`).join("");

describe("the window of lines", () => {
  const GRID: [string, object, string][] = [
    ["all of a short file", {}, "1\tline 1\n2\tline 2\n3\tline 3"],
    ["from a line on", { offset: 2 }, "2\tline 2\n3\tline 3\n[The file ends here; it has 3 lines.]"],
    ["some lines", { limit: 2 }, "1\tline 1\n2\tline 2\n[Lines 1 to 2 of 3. Continue with offset 3.]"],
    ["one line", { offset: 2, limit: 1 }, "2\tline 2\n[Lines 2 to 2 of 3. Continue with offset 3.]"],
    ["the last line", { offset: 3, limit: 5 }, "3\tline 3\n[The file ends here; it has 3 lines.]"],
  ];
  for (const [title, range, answer] of GRID) {
    test(`shows ${title}`, async () => {
      using project = new Project();
      project.put("a.txt", lines(3));
      expect(await project.run({ op: "read", path: "a.txt", ...range })).toBe(answer);
    });
  }

  test("behind the end is INVALID and names the number of lines", async () => {
    using project = new Project();
    project.put("a.txt", lines(3));
    const error = await project.fails({ op: "read", path: "a.txt", offset: 4 });
    expect(error.code).toBe("INVALID");
    expect(error.message).toContain("a.txt has 3 lines");
  });

  for (const wrong of [
    { offset: 0 },
    { offset: -1 },
    { limit: 0 },
    { offset: 1.5 },
    { limit: "all" },
    { lines: 3 },
  ]) {
    test(`${JSON.stringify(wrong)} is INVALID`, async () => {
      using project = new Project();
      project.put("a.txt", lines(3));
      expect((await project.fails({ op: "read", path: "a.txt", ...wrong })).code).toBe("INVALID");
    });
  }

  test("is 2000 lines by default, and the answer says how to continue", async () => {
    using project = new Project();
    project.put("a.txt", lines(2500));
    const answer = (await project.run({ op: "read", path: "a.txt" })).split("\n");
    expect(answer.length).toBe(2001);
    expect(answer.at(-1)).toBe("[Lines 1 to 2000 of 2500. Continue with offset 2001.]");
    const rest = await project.run({ op: "read", path: "a.txt", offset: 2001 });
    expect(rest).toStartWith("2001\tline 2001\n");
    expect(rest).toContain("2500\tline 2500\n");
  });

  test("ends early when its text is long, and continuing as advised gives every line once", async () => {
    using project = new Project();
    project.put("a.txt", `${"x".repeat(1500)}\n`.repeat(150));
    const seen: number[] = [];
    for (let offset: number | undefined = 1; offset !== undefined; ) {
      const answer = await project.run({ op: "read", path: "a.txt", offset });
      expect(answer.length).toBeLessThan(110_000);
      seen.push(...[...answer.matchAll(/^(\d+)\tx+$/gm)].map((match) => Number(match[1])));
      const next = /Continue with offset (\d+)/.exec(answer);
      offset = next ? Number(next[1]) : undefined;
    }
    expect(seen).toEqual(Array.from({ length: 150 }, (_, index) => index + 1));
  });
});

describe("the kind of a file", () => {
  const GRID: [string, string | Uint8Array, string][] = [
    ["an empty file", "", "[f is empty.]"],
    ["one newline", "\n", "1\t"],
    ["no newline at the end", "a\nb", "1\ta\n2\tb"],
    ["Windows line endings", "a\r\nb\r\n", "1\ta\n2\tb"],
    ["a byte order mark", "\uFEFFa\nb\n", "1\ta\n2\tb"],
    ["empty lines", "\n\na\n\n", "1\t\n2\t\n3\ta\n4\t"],
    ["many languages", "grüße 名前 🚀\n", "1\tgrüße 名前 🚀"],
    [
      "Latin-1",
      new Uint8Array([0x67, 0x72, 0xfc, 0xdf, 0x65, 10]),
      "1\tgr\uFFFD\uFFFDe\n[The file is not valid UTF-8: invalid bytes are shown as \uFFFD.]",
    ],
    ["a replacement character that is really there", "a\uFFFDb\n", "1\ta\uFFFDb"],
  ];
  for (const [title, content, answer] of GRID) {
    test(`${title} is shown as text`, async () => {
      using project = new Project();
      project.put("f", content);
      expect(await project.run({ op: "read", path: "f" })).toBe(answer);
    });
  }

  const BINARY: [string, Uint8Array][] = [
    ["PNG image", Buffer.from("\x89PNG\r\n\x1a\n", "latin1")],
    ["JPEG image", Buffer.from("\xff\xd8\xff\xe0", "latin1")],
    ["PDF document", Buffer.from("%PDF-1.7\n")],
    ["ELF program", Buffer.from("\x7fELF\x02\x01", "latin1")],
    ["gzip archive", Buffer.from("\x1f\x8b\x08", "latin1")],
    ["UTF-16 text", Buffer.from("\xff\xfea\0b\0", "latin1")],
    ["unknown kind", Buffer.from("text with \0 in it")],
  ];
  for (const [kind, content] of BINARY) {
    test(`a binary file is named as ${kind} with its size`, async () => {
      using project = new Project();
      project.put("f", content);
      const answer = await project.run({ op: "read", path: "f" });
      expect(answer).toStartWith(`[f is a binary file (${kind}`);
      expect(answer).toContain(`${content.length} bytes`);
    });
  }

  for (const cut of [0, 1, 2, 3]) {
    test(`a long line is truncated between characters, ${cut} bytes off`, async () => {
      using project = new Project();
      project.put("f", `${"x".repeat(cut)}${"🚀".repeat(5000)}\nnext\n`);
      const [first, second] = (await project.run({ op: "read", path: "f" })).split("\n");
      expect(first).toStartWith(`1\t${"x".repeat(cut)}🚀`);
      expect(first).toContain(`… [line cut here: it has ${20_000 + cut} bytes]`);
      expect(first).not.toContain("\uFFFD");
      expect(first?.length).toBeLessThan(2100);
      expect(second).toBe("2\tnext");
    });
  }

  test("lines across two reads are whole", async () => {
    using project = new Project();
    const long = `${"é".repeat(40_000)}END`;
    project.put("f", `a\n${long}\nb\n`);
    const answer = (await project.run({ op: "read", path: "f" })).split("\n");
    expect(answer.length).toBe(3);
    expect(answer[2]).toBe("3\tb");
  });
});

describe("a huge file", () => {
  test("of zeros is a binary file at once", async () => {
    using project = new Project();
    truncateSync(project.put("sparse", ""), 200 * 1024 * 1024);
    expect(await project.run({ op: "read", path: "sparse" })).toContain("200.0 MiB");
  });

  test("of text gives its window without being read to the end or held in memory", async () => {
    const { answer, peakBytes } = await measured(
      join(import.meta.dir, "../programs/large-file.ts"),
      "window",
    );
    expect(answer).toBe(
      "15000\ta line\n15001\ta line\n[Lines 15000 to 15001 of a file of 200.0 MiB. Continue with offset 15002.]",
    );
    expect(peakBytes).toBeLessThan(64 * 1024 * 1024);
  });

  test("is not read further after the call is cancelled", async () => {
    using project = new Project();
    truncateSync(project.put("big", "a line\n".repeat(20_000)), 200 * 1024 * 1024);
    const controller = new AbortController();
    const failing = project.fails({ op: "read", path: "big", offset: 1_000_000 }, controller.signal);
    setImmediate(() => controller.abort(new SyscallError("CANCELLED", "The run was stopped.")));
    expect((await failing).code).toBe("CANCELLED");
  });
});

describe("a path without a regular file", () => {
  const GRID: [string, string, string][] = [
    ["config.yml", "config.yaml", "config.yaml"],
    ["readme.md", "README.md", "README.md"],
    ["src/idnex.ts", "src/index.ts", "src/index.ts"],
    ["sorce/index.ts", "source/index.ts", "source"],
  ];
  for (const [asked, there, hint] of GRID) {
    test(`${asked} is NOT_FOUND and ${there} is named`, async () => {
      using project = new Project();
      project.put(there, "x");
      const error = await project.fails({ op: "read", path: asked });
      expect(error.code).toBe("NOT_FOUND");
      expect(error.message).toContain(`Did you mean ${hint}?`);
    });
  }

  test.each(["link.txt", "link.txt/below"])("names a broken symlink: %s", async (path) => {
    using project = new Project();
    symlinkSync("gone.txt", project.path("link.txt"));
    const error = await project.fails({ op: "read", path });
    expect(error.code).toBe("NOT_FOUND");
    expect(error.message).toContain("link.txt is a broken symlink");
    expect(error.message).not.toContain("Did you mean");
  });

  test("the error for a name without a similar one names Glob", async () => {
    using project = new Project();
    expect((await project.fails({ op: "read", path: "some/where.txt" })).message).toContain("Glob");
  });

  test("a folder is INVALID with a hint to Glob", async () => {
    using project = new Project();
    mkdirSync(project.path("src"));
    const error = await project.fails({ op: "read", path: "src" });
    expect(error.code).toBe("INVALID");
    expect(error.message).toContain("Glob");
  });

  test("a FIFO is not waited for", async () => {
    using project = new Project();
    expect(Bun.spawnSync(["mkfifo", project.path("fifo")]).exitCode).toBe(0);
    for (const operation of [
      { op: "read", path: "fifo" },
      { op: "write", path: "fifo", content: "x" },
      { op: "edit", path: "fifo", old_string: "a", new_string: "b" },
      { op: "grep", pattern: "a", path: "fifo" },
    ]) {
      const error = await project.fails(operation);
      expect(error.code).toBe("INVALID");
      expect(error.message).toContain("FIFO");
    }
    expect(await project.run({ op: "grep", pattern: "a" })).toContain("Nothing");
  });

  test("a socket is not read", async () => {
    using project = new Project();
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(project.path("socket"), resolve));
    try {
      expect((await project.fails({ op: "read", path: "socket" })).message).toContain("socket");
    } finally {
      server.close();
    }
  });

  test("an endless device in an added folder is not read", async () => {
    using project = new Project();
    const context = { ...project.context, folders: ["/dev"] };
    const error = await project.fails({ op: "read", path: "/dev/zero" }, undefined, context);
    expect(error.code).toBe("INVALID");
    expect(error.message).toContain("device");
  });
});
