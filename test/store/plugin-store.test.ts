import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { FileLock } from "../../src/store/files/file-lock.ts";
import { PluginStore } from "../../src/store/plugin-store.ts";
import {
  codeOf,
  errorOf,
  fsWith,
  modes,
  openFiles,
  program,
  systemError,
  temporaryFolder,
  until,
} from "./support.ts";

function storeIn(dir: string, more: Partial<ConstructorParameters<typeof PluginStore>[0]> = {}): PluginStore {
  const scopes = { run: join(dir, "run"), project: join(dir, "project"), user: join(dir, "user") };
  return new PluginStore({ plugin: "memory", ...scopes, ...more });
}

describe("documents of a plugin", () => {
  test("live in a folder of the plugin in each scope", async () => {
    const dir = temporaryFolder();
    const store = storeIn(dir);
    expect(await store.read("project", "a/b.md")).toBeNull();
    const version = await store.replace("project", "a/b.md", "text", null);
    expect(await store.read("project", "a/b.md")).toEqual({ text: "text", version });
    expect(await store.read("user", "a/b.md")).toBeNull();
    expect(await store.read("run", "a/b.md")).toBeNull();
    expect(await storeIn(dir, { plugin: "other" }).read("project", "a/b.md")).toBeNull();
    expect(readFileSync(join(dir, "project/memory/a/b.md"), "utf8")).toBe("text");
    expect(Object.values(modes(dir)).every((mode) => mode === "600" || mode === "700")).toBe(true);
    expect(openFiles(dir)).toBe(0);
  });

  const cases: [string, string | null | "current", boolean][] = [
    ["none, and none is there", null, true],
    ["none, but one is there", null, false],
    ["the one that is there", "current", true],
    ["another one", "0".repeat(64), false],
  ];
  for (const [i, [expected, ifVersion, succeeds]] of cases.entries()) {
    test(`expecting ${expected} ${succeeds ? "succeeds" : "is INVALID"}`, async () => {
      const store = storeIn(temporaryFolder());
      const current = i === 0 ? null : await store.replace("user", "doc", "old", null);
      const given = ifVersion === "current" ? current : ifVersion;
      const error = await errorOf(() => store.replace("user", "doc", "new", given));
      expect(error?.code).toBe(succeeds ? undefined : "INVALID");
      expect((await store.read("user", "doc"))?.text).toBe(succeeds ? "new" : "old");
    });
  }

  test("two processes never lose an update of each other", async () => {
    const dir = temporaryFolder();
    const counters = ["a", "b"].map((who) => program("count", dir, "60", who));
    await Promise.all(counters.map((counter) => until(counter.stdout, "ready\n")));
    for (const counter of counters) await counter.stdin.end();
    for (const counter of counters) expect(await counter.exited).toBe(0);
    const store = new PluginStore({ plugin: "counter", project: dir, user: dir });
    expect((await store.read("project", "count"))?.text).toBe("120");
    const lines = await store.lines("project", "log", 0, 1_000);
    for (const who of ["a", "b"]) {
      const own = lines.filter((line) => "who" in line && line.who === who);
      expect(own).toEqual(Array.from({ length: 60 }, (_, i) => ({ who, n: i + 1 })));
    }
  });

  test("the next writer removes the temporary file of a killed one", async () => {
    const dir = temporaryFolder();
    const store = storeIn(dir);
    const version = await store.replace("user", "doc", "old", null);
    writeFileSync(join(dir, "user/memory/~doc.123-1.tmp"), "half");
    await store.replace("user", "doc", "new", version);
    expect(readdirSync(join(dir, "user/memory")).toSorted()).toEqual(["doc", "~lock"]);
  });

  test("without a run there is no run scope", async () => {
    const store = storeIn(temporaryFolder(), { run: undefined });
    expect(await codeOf(() => store.read("run", "doc"))).toBe("UNAVAILABLE");
  });

  test("a lock that is never given back is TIMEOUT, not a hang", async () => {
    const dir = temporaryFolder();
    let now = 0;
    const clock = {
      monotonic: () => now,
      timer: (ms: number, f: () => void) => {
        now += ms * 100;
        queueMicrotask(f);
        return { cancel: () => undefined };
      },
    };
    const lock = FileLock.tryAcquire(join(dir, "memory/~lock"));
    const store = new PluginStore({ plugin: "memory", project: dir, user: dir }, { clock });
    expect(await codeOf(() => store.replace("user", "doc", "x", null))).toBe("TIMEOUT");
    lock?.release();
    await store.replace("user", "doc", "x", null);
  });

  test("a full disk is EXHAUSTED, leaves the old text and releases the lock", async () => {
    const dir = temporaryFolder();
    let full = false;
    const fs = fsWith({
      fsync: async () => {
        if (full) throw systemError("ENOSPC");
      },
      fdatasync: async () => {
        if (full) throw systemError("ENOSPC");
      },
    });
    const store = new PluginStore({ plugin: "memory", project: dir, user: dir }, { fs });
    const version = await store.replace("user", "doc", "old", null);
    full = true;
    expect(await codeOf(() => store.replace("user", "doc", "new", version))).toBe("EXHAUSTED");
    expect(await codeOf(() => store.append("user", "log", { n: 1 }))).toBe("EXHAUSTED");
    expect(await store.read("user", "doc")).toEqual({ text: "old", version });
    full = false;
    await store.replace("user", "doc", "new", version);
  });
});

describe("names", () => {
  const wrong = [
    ...[
      "",
      "/",
      "/a",
      "a/",
      "a//b",
      "..",
      "../a",
      "a/../b",
      "a/..",
      ".",
      "./a",
      "...",
      "a b",
      "a\0",
      "a\n",
      "ä",
    ],
    ...["~lock", "a\\b", "x".repeat(241)],
  ];
  for (const name of wrong) {
    test(`${JSON.stringify(name.slice(0, 20))} is INVALID everywhere`, async () => {
      const store = storeIn(temporaryFolder());
      expect(await codeOf(() => store.read("user", name))).toBe("INVALID");
      expect(await codeOf(() => store.replace("user", name, "x", null))).toBe("INVALID");
      expect(await codeOf(() => store.append("user", name, {}))).toBe("INVALID");
      expect(await codeOf(() => store.lines("user", name, 0, 1))).toBe("INVALID");
      expect(await codeOf(() => storeIn("/x", { plugin: name }))).toBe("INVALID");
    });
  }

  test("letters, digits, dots, underscores, dashes and folders are fine", async () => {
    const store = storeIn(temporaryFolder());
    for (const name of ["a", "A.b-c_9/x..y/.hidden", "..a"]) await store.replace("user", name, name, null);
    expect((await store.read("user", "A.b-c_9/x..y/.hidden"))?.text).toBe("A.b-c_9/x..y/.hidden");
  });

  test("a document where a folder is needed is INVALID", async () => {
    const store = storeIn(temporaryFolder());
    await store.replace("user", "a", "x", null);
    expect(await codeOf(() => store.replace("user", "a/b", "x", null))).toBe("INVALID");
    expect(await codeOf(() => store.read("user", "a/b"))).toBe("INVALID");
  });
});

describe("logs of a plugin", () => {
  test("come back in order, by how many the caller has had", async () => {
    const store = storeIn(temporaryFolder());
    expect(await store.lines("user", "log", 0, 10)).toEqual([]);
    for (let n = 0; n < 7; n++) await store.append("user", "log", { n });
    expect(await store.lines("user", "log", 0, 3)).toEqual([{ n: 0 }, { n: 1 }, { n: 2 }]);
    expect(await store.lines("user", "log", 3, 3)).toEqual([{ n: 3 }, { n: 4 }, { n: 5 }]);
    expect(await store.lines("user", "log", 6, 3)).toEqual([{ n: 6 }]);
    expect(await store.lines("user", "log", 7, 3)).toEqual([]);
    expect(await store.lines("user", "log", 0, 0)).toEqual([]);
  });

  test("damaged lines are reported, and do not shift the count", async () => {
    const dir = temporaryFolder();
    const damaged: [string, number, readonly number[]][] = [];
    const store = storeIn(dir, { onDamaged: (...report) => damaged.push(report) });
    await store.append("user", "log", { n: 0 });
    writeFileSync(join(dir, "user/memory/log"), 'torn{"n', { flag: "a" });
    await store.append("user", "log", { n: 1 });
    writeFileSync(join(dir, "user/memory/log"), '[1]\n{"n":2}\n', { flag: "a" });
    expect(await store.lines("user", "log", 0, 10)).toEqual([{ n: 0 }, { n: 1 }, { n: 2 }]);
    expect(damaged).toEqual([["log", 2, [2, 4]]]);
    expect(await store.lines("user", "log", 2, 10)).toEqual([{ n: 2 }]);
  });

  test("are read over many pages", async () => {
    const dir = temporaryFolder();
    const store = storeIn(dir);
    await store.append("user", "log", { n: 0 });
    const more = Array.from({ length: 2_500 }, (_, i) => JSON.stringify({ n: i + 1 }));
    writeFileSync(join(dir, "user/memory/log"), `${more.join("\n")}\n`, { flag: "a" });
    expect(await store.lines("user", "log", 1_998, 3)).toEqual([{ n: 1998 }, { n: 1999 }, { n: 2000 }]);
    expect(await store.lines("user", "log", 0, 5_000)).toHaveLength(2_501);
  });
});
