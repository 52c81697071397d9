import { describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { prepareDataDir } from "../../../src/store/files/data-dir.ts";
import {
  checkSchemaVersion,
  parseDocument,
  readDocument,
  replaceDocument,
  replaceDocumentNow,
  syncFile,
} from "../../../src/store/files/document.ts";
import { type FsPort, realFs } from "../../../src/store/files/fs-port.ts";
import { codeOf, errorOf, fsWith, modes, openFiles, systemError, temporaryFolder } from "../support.ts";

const ways: [string, (path: string, text: string, fs?: FsPort) => unknown][] = [
  ["replaceDocument", replaceDocument],
  ["replaceDocumentNow", replaceDocumentNow],
];

for (const [name, replace] of ways) {
  describe(name, () => {
    test("replaces the whole file, private to its user, and leaves no other file", async () => {
      const dir = temporaryFolder();
      const path = join(dir, "a.json");
      await replace(path, "a longer first text");
      await replace(path, "wörld");
      expect(readFileSync(path, "utf8")).toBe("wörld");
      expect(modes(dir)).toEqual({ "a.json": "600" });
      expect(openFiles(dir)).toBe(0);
    });

    for (const fault of ["open", "write", "rename"] as const) {
      for (const [system, code] of [
        ["ENOSPC", "EXHAUSTED"],
        ["EROFS", "UNAVAILABLE"],
      ] as const) {
        test(`${system} at ${fault} leaves the old text and is ${code}`, async () => {
          const dir = temporaryFolder();
          const path = join(dir, "a.json");
          await replace(path, "old");
          const fail = (): never => {
            throw systemError(system);
          };
          const changes: Partial<FsPort> =
            fault === "write" ? { write: fail, writeAsync: async () => fail() } : { [fault]: fail };
          const error = await errorOf(() => replace(path, "new", fsWith(changes)));
          expect(error).toMatchObject({ code, cause: { code: system } });
          expect(error?.message).toContain(path);
          expect(readFileSync(path, "utf8")).toBe("old");
          expect(readdirSync(dir)).toEqual(["a.json"]);
          expect(openFiles(dir)).toBe(0);
        });
      }
    }
  });
}

describe("documents", () => {
  test("the durable replacement syncs the text before the name and the folder after it", async () => {
    const dir = temporaryFolder();
    const order: string[] = [];
    const paths = new Map<number, string>();
    const fs = fsWith({
      open: (path, mode) => {
        const fd = realFs.open(path, mode);
        paths.set(fd, path);
        return fd;
      },
      fsync: async (fd) => {
        order.push(paths.get(fd) === dir ? "sync folder" : "sync text");
      },
      rename: (from, to) => {
        order.push("rename");
        realFs.rename(from, to);
      },
    });
    await replaceDocument(join(dir, "a.json"), "{}", fs);
    expect(order).toEqual(["sync text", "rename", "sync folder"]);
  });

  test("the version is equal exactly when the content is", async () => {
    const path = join(temporaryFolder(), "a");
    expect(await readDocument(path)).toBeNull();
    const first = await replaceDocument(path, "one");
    expect(await readDocument(path)).toEqual({ text: "one", version: first });
    const second = await replaceDocument(path, "two");
    expect(second).not.toBe(first);
    expect(await replaceDocument(path, "one")).toBe(first);
  });

  test("what is not UTF-8 text is INVALID, a folder too", async () => {
    const dir = temporaryFolder();
    writeFileSync(join(dir, "a"), Buffer.from([0xff, 0xfe]));
    mkdirSync(join(dir, "b"));
    expect(await codeOf(() => readDocument(join(dir, "a")))).toBe("INVALID");
    expect(await codeOf(() => readDocument(join(dir, "b")))).toBe("INVALID");
  });

  test("a newer schema is refused by name, today's and unmarked ones are not", async () => {
    const error = await errorOf(() => checkSchemaVersion({ v: 2 }, "proc-info.json of run X"));
    expect(error?.code).toBe("INVALID");
    expect(error?.message).toContain("proc-info.json of run X has schema version 2");
    expect(error?.message).toContain("update");
    for (const value of [{ v: 1 }, { v: 0 }, {}, null, 5]) checkSchemaVersion(value, "x");
  });

  test("a damaged document says what is wrong", async () => {
    const schema = z.object({ v: z.literal(1), n: z.number() });
    expect(parseDocument(schema, '{"v":1,"n":2}', "x")).toEqual({ v: 1, n: 2 });
    const cases: [string, string][] = [
      ["", "an empty file"],
      ['{"v":1,', "expected JSON"],
      ['{"v":1,"n":"x"}', "expected number"],
      ['{"v":9,"m":3}', "schema version 9"],
    ];
    for (const [text, message] of cases) {
      const error = await errorOf(() => parseDocument(schema, text, "file x"));
      expect(error?.code).toBe("INVALID");
      expect(error?.message).toContain("file x");
      expect(error?.message).toContain(message);
    }
  });
});

test("many that are made durable at once are opened one after the other", async () => {
  const dir = temporaryFolder();
  const path = join(dir, "document.json");
  replaceDocumentNow(path, "{}");
  let open = 0;
  let most = 0;
  const fs = fsWith({
    open: (...args) => {
      most = Math.max(most, ++open);
      return realFs.open(...args);
    },
    close: (fd) => {
      open--;
      realFs.close(fd);
    },
  });
  await Promise.all(Array.from({ length: 200 }, () => syncFile(path, fs)));
  expect(open).toBe(0);
  expect(most).toBeLessThanOrEqual(4);
});

describe("the data folder", () => {
  test("a project's first run makes it, private and outside the repository", () => {
    const dir = temporaryFolder();
    prepareDataDir(join(dir, ".rnix", "data"));
    expect(modes(dir)).toEqual({ ".rnix": "700", ".rnix/data": "700", ".rnix/data/.gitignore": "600" });
    expect(readFileSync(join(dir, ".rnix", "data", ".gitignore"), "utf8")).toBe("*\n");
  });

  test("a .gitignore that is there is not touched", () => {
    const dir = temporaryFolder();
    mkdirSync(join(dir, ".rnix", "data"), { recursive: true });
    writeFileSync(join(dir, ".rnix", "data", ".gitignore"), "mine\n");
    prepareDataDir(join(dir, ".rnix", "data"));
    prepareDataDir(join(dir, ".rnix", "data"));
    expect(readFileSync(join(dir, ".rnix", "data", ".gitignore"), "utf8")).toBe("mine\n");
  });

  test("two that begin in a project at the same moment both have it", () => {
    const dir = temporaryFolder();
    const inner = join(dir, ".rnix", "data");
    const [temporary, ignore] = [join(inner, "~.gitignore.tmp"), join(inner, ".gitignore")];
    // The other one has given its file, which is ours too, the name before we do.
    const rename = (from: string, to: string): void => {
      if (from === temporary) renameSync(temporary, ignore);
      realFs.rename(from, to);
    };
    prepareDataDir(inner, { ...realFs, rename });
    expect(readFileSync(ignore, "utf8")).toBe("*\n");
  });

  test("another data folder gets no .gitignore", () => {
    const dir = temporaryFolder();
    prepareDataDir(join(dir, "elsewhere", "data"));
    expect(statSync(join(dir, "elsewhere", "data")).isDirectory()).toBe(true);
    expect(existsSync(join(dir, "elsewhere", "data", ".gitignore"))).toBe(false);
  });

  test("a read-only disk is UNAVAILABLE and says what to do", async () => {
    const fs = fsWith({
      mkdir: () => {
        throw systemError("EROFS");
      },
    });
    const error = await errorOf(() => prepareDataDir("/p/.rnix/data", fs));
    expect(error?.code).toBe("UNAVAILABLE");
    expect(error?.message).toContain("RNIX_DATA_DIR");
  });
});
