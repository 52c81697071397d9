/** A document that an editor, which takes no lock, saves at the moment at which the store replaces it. */
import { describe, expect, test } from "bun:test";
import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { type FsPort, realFs } from "../../../src/store/files/fs-port.ts";
import { PluginStore } from "../../../src/store/plugin-store.ts";
import { codeOf, errorOf, fsWith, systemError, temporaryFolder } from "../support.ts";

const { swap } = realFs;

/** A store in a new folder whose document has the text "old"; `swap` takes the place of the system's. */
async function scene(replaced: Partial<FsPort>) {
  const dir = temporaryFolder();
  const folders = { plugin: "memory", project: dir, user: dir };
  const plain = new PluginStore(folders);
  const version = await plain.replace("user", "doc.md", "old", null);
  return {
    version,
    file: join(dir, "memory/doc.md"),
    plain,
    store: new PluginStore(folders, { fs: fsWith(replaced) }),
    text: async () => (await plain.read("user", "doc.md"))?.text,
    names: () => readdirSync(join(dir, "memory")).toSorted(),
  };
}

const SAVES: [string, (file: string) => void][] = [
  ["in place", (file) => writeFileSync(file, "of the editor")],
  [
    "by a new file of that name",
    (file) => {
      writeFileSync(`${file}.new`, "of the editor");
      renameSync(`${file}.new`, file);
    },
  ],
  [
    "after it moved the old one away",
    (file) => {
      renameSync(file, `${file}~`);
      writeFileSync(file, "of the editor");
      rmSync(`${file}~`);
    },
  ],
];

describe("an editor that saves between the comparison and the replacement keeps its text", () => {
  for (const [how, save] of SAVES) {
    test(how, async () => {
      let count = 0;
      const one = await scene({
        swap(a, b) {
          if (++count === 1) save(b);
          return swap(a, b);
        },
      });
      const error = await errorOf(() => one.store.replace("user", "doc.md", "new", one.version));
      expect(error).toMatchObject({ code: "INVALID", retryable: true });
      expect(await one.text()).toBe("of the editor");
      expect(one.names()).toEqual(["doc.md", "~lock"]);
    });

    test(`${how}, and once more over the new text`, async () => {
      let count = 0;
      const one = await scene({
        swap(a, b) {
          if (++count === 1) save(b);
          const done = swap(a, b);
          if (count === 1) writeFileSync(b, "of the editor, again");
          return done;
        },
      });
      expect(await codeOf(() => one.store.replace("user", "doc.md", "new", one.version))).toBe("INVALID");
      expect(await one.text()).toBe("of the editor, again");
      expect(readFileSync(`${one.file}.recovered`, "utf8")).toBe("of the editor");
    });

    test(`${how}, while the store is killed before it has compared`, async () => {
      const one = await scene({
        swap(a, b) {
          save(b);
          swap(a, b);
          throw systemError("EIO");
        },
        remove: () => {
          throw systemError("EIO");
        },
      });
      expect(await errorOf(() => one.store.replace("user", "doc.md", "new", one.version))).toBeDefined();
      expect(one.names()).toHaveLength(3);
      expect(await one.text()).toBe("of the editor");
      expect(one.names()).toEqual(["doc.md", "~lock"]);
    });
  }

  test("half, and completes it later", async () => {
    let count = 0;
    const one = await scene({
      swap(a, b) {
        if (++count > 1) return swap(a, b);
        const fd = openSync(b, "w");
        writeSync(fd, "of the ");
        setTimeout(() => {
          writeSync(fd, "editor");
          closeSync(fd);
        }, 60);
        return swap(a, b);
      },
    });
    expect(await codeOf(() => one.store.replace("user", "doc.md", "new", one.version))).toBe("INVALID");
    expect(await one.text()).toBe("of the editor");
    expect(one.names()).toEqual(["doc.md", "~lock"]);
  });

  test("by removing the file", async () => {
    const one = await scene({
      swap(a, b) {
        rmSync(b);
        return swap(a, b);
      },
    });
    expect(await codeOf(() => one.store.replace("user", "doc.md", "new", one.version))).toBe("INVALID");
    expect(one.names()).toEqual(["~lock"]);
  });

  test("in the moment in which the document is first made", async () => {
    const one = await scene({
      link(a, b) {
        writeFileSync(b, "of the editor");
        realFs.link?.(a, b);
      },
    });
    expect(await codeOf(() => one.store.replace("user", "first.md", "new", null))).toBe("INVALID");
    expect((await one.plain.read("user", "first.md"))?.text).toBe("of the editor");
    expect(one.names()).toEqual(["doc.md", "first.md", "~lock"]);
  });
});

test("a program that keeps the file open for writing is UNAVAILABLE, and nothing is lost", async () => {
  let fd = -1;
  let waited = 0;
  const dir = temporaryFolder();
  const folders = { plugin: "memory", project: dir, user: dir };
  const version = await new PluginStore(folders).replace("user", "doc.md", "old", null);
  const clock = {
    monotonic: () => waited,
    timer: (ms: number, f: () => void) => {
      waited += ms * 100;
      queueMicrotask(f);
      return { cancel: () => undefined };
    },
  };
  const fs = fsWith({
    swap(a, b) {
      if (fd < 0) fd = openSync(b, "r+");
      return swap(a, b);
    },
  });
  const store = new PluginStore(folders, { fs, clock });
  expect(await codeOf(() => store.replace("user", "doc.md", "new", version))).toBe("UNAVAILABLE");
  expect((await store.read("user", "doc.md"))?.text).toBe("old");
  writeSync(fd, "OLD");
  closeSync(fd);
  expect((await store.read("user", "doc.md"))?.text).toBe("OLD");
  expect(readdirSync(join(dir, "memory")).toSorted()).toEqual(["doc.md", "~lock"]);
});

test("a text that was swapped in and never confirmed stays where no one has edited it", async () => {
  const one = await scene({
    swap(a, b) {
      swap(a, b);
      throw systemError("EIO");
    },
    remove: () => {
      throw systemError("EIO");
    },
  });
  await errorOf(() => one.store.replace("user", "doc.md", "new", one.version));
  expect(await one.text()).toBe("new");
  expect(one.names()).toEqual(["doc.md", "~lock"]);
});

test("where the system can't swap, a replacement is a plain rename", async () => {
  const one = await scene({ swap: () => "unsupported", hasWriters: () => null });
  await one.store.replace("user", "doc.md", "new", one.version);
  expect(await one.text()).toBe("new");
  expect(one.names()).toEqual(["doc.md", "~lock"]);
});
