import { describe, expect, onTestFinished, test } from "bun:test";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { driverSearch } from "../../../src/server/records/driver-search.ts";
import { RecordKey } from "../../../src/store/runs/record-key.ts";
import { SearchIndex } from "../../../src/store/search/search-index.ts";
import { until } from "../../support/until.ts";
import { codeOf, modes, temporaryFolder } from "../support.ts";

interface Place {
  dir: string;
  index: SearchIndex;
  search: ReturnType<typeof driverSearch>;
  warnings: string[];
}

/** The service `search` of a plugin, with its Worker. */
function place(o: { dir?: string; plugin?: string; limits?: object } = {}): Place {
  const dir = o.dir ?? temporaryFolder();
  const key = RecordKey.open(join(dir, "record.key"));
  const warnings: string[] = [];
  const index = new SearchIndex({ key, warn: (text) => warnings.push(text), limits: o.limits });
  onTestFinished(() => index.close());
  const project = { dir: join(dir, "project"), dataDir: join(dir, "project/.rnix/data") };
  const other = { dir: join(dir, "other"), data_dir: join(dir, "other/.rnix/data") };
  const ports = {
    index,
    userDataDir: join(dir, "user"),
    projects: () => [other],
    dataDirs: () => [project.dataDir, other.data_dir],
  };
  return { dir, index, search: driverSearch(ports, o.plugin ?? "memory", project), warnings };
}

const folder = (dir: string): string => join(dir, "index");
const file = (dir: string): string =>
  join(folder(dir), readdirSync(folder(dir)).find((name) => name.endsWith(".db")) ?? "none");

function put({ search }: Place, source: string, text: string): Promise<void> {
  return search.put("project", "notes", source, "1", [{ id: "a", text, fields: { agent: "coder" } }]);
}

async function sourcesOf({ search }: Place): Promise<string[]> {
  return (await search.sources("project", "notes")).map(({ source }) => source);
}

async function hitsOf({ search }: Place, text: string, more = {}): Promise<string[]> {
  const { hits } = await search.find({ text, collections: ["notes"], limit: 10, ...more });
  return hits.map(({ source }) => source);
}

describe("the service search", () => {
  test("finds documents of the project and of the user, each with its place", async () => {
    const one = place();
    await put(one, "project.md", "alpha of the project");
    await one.search.put("user", "notes", "user.md", "2", [
      { id: "b", text: "alpha of the user", time_ms: 5 },
    ]);
    const { hits, pending } = await one.search.find({ text: "alpha", collections: ["notes"], limit: 10 });
    expect(pending).toBe(0);
    const score = expect.any(Number);
    const common = { kind: "document", collection: "notes", score } as const;
    expect(hits.toSorted((a, b) => (a.source < b.source ? -1 : 1))).toEqual([
      {
        ...common,
        scope: "project",
        source: "project.md",
        id: "a",
        snippet: "alpha of the project",
        time_ms: null,
        fields: { agent: "coder" },
      },
      {
        ...common,
        scope: "user",
        source: "user.md",
        id: "b",
        snippet: "alpha of the user",
        time_ms: 5,
        fields: {},
      },
    ]);
  });

  test("makes no folder in a project", async () => {
    const one = place();
    expect(await hitsOf(one, "alpha", { runs: true })).toEqual([]);
    expect(await sourcesOf(one)).toEqual([]);
    await one.search.put("project", "notes", "a.md", "1", []);
    await put(one, "a.md", "alpha");
    expect(readdirSync(one.dir).toSorted()).toEqual(["index", "record.key"]);
    expect(await hitsOf(one, "alpha")).toEqual(["a.md"]);
    expect(await hitsOf(place({ dir: one.dir }), "alpha")).toEqual(["a.md"]);
  });

  test("shows a plugin only its own collections", async () => {
    const one = place();
    await put(one, "a.md", "alpha");
    const other = place({ dir: one.dir, plugin: "other" });
    expect(await hitsOf(other, "alpha")).toEqual([]);
    expect(await sourcesOf(other)).toEqual([]);
    await put(other, "b.md", "alpha");
    expect(await hitsOf(one, "alpha")).toEqual(["a.md"]);
  });

  test("takes another project's documents when it is named, and none of an unknown one", async () => {
    const one = place();
    await put(one, "a.md", "alpha");
    const project = { dir: join(one.dir, "other"), dataDir: join(one.dir, "other/.rnix/data") };
    const ports = {
      index: one.index,
      userDataDir: join(one.dir, "user"),
      projects: () => [],
      dataDirs: () => [],
    };
    await driverSearch(ports, "memory", project).put("project", "notes", "o.md", "1", [
      { id: "a", text: "alpha" },
    ]);
    expect(await hitsOf(one, "alpha", { project: project.dir })).toEqual(["o.md"]);
    expect(await hitsOf(one, "alpha", { project: "/nowhere" })).toEqual([]);
  });

  test("refuses what is no request, and says what was expected", async () => {
    const { search } = place();
    const documents = [{ id: "a", text: "x" }];
    const wrong = [
      () => search.put("project", "../notes", "s", "1", documents),
      () => search.put("project", "notes", "s".repeat(2_000), "1", documents),
      () => search.put("project", "notes", "s", "1", [{ id: "a", text: "x".repeat(65_537) }]),
      () => search.put("project", "notes", "s", "1", [{ id: "a", text: "x", time_ms: Number.NaN }]),
      () => search.find({ text: "x".repeat(5_000), collections: ["notes"], limit: 1 }),
      () => search.find({ text: "x", collections: ["a b"], limit: 1 }),
      () => search.find({ text: "x", collections: ["notes"], limit: 0 }),
      () => search.find({ text: "x", collections: ["notes"], limit: 1.5 }),
    ];
    for (const attempt of wrong) expect(await codeOf(attempt)).toBe("INVALID");
  });

  test("without a request starts no Worker, and after one it ends when idle and starts again", async () => {
    const one = place({ limits: { idleMs: 30 } });
    expect(one.index.isRunning).toBe(false);
    await put(one, "a.md", "alpha");
    expect(one.index.isRunning).toBe(true);
    await until(() => !one.index.isRunning);
    expect(await hitsOf(one, "alpha")).toEqual(["a.md"]);
  });

  test("fails with CLOSED after the end", async () => {
    const one = place();
    await put(one, "a.md", "alpha");
    await one.index.close();
    expect(await codeOf(() => hitsOf(one, "alpha"))).toBe("CLOSED");
  });
});

describe("a Worker that does not answer", () => {
  test("is replaced: the request fails with TIMEOUT, the next one works, and nothing is damaged", async () => {
    const one = place({ limits: { requestMs: 1 } });
    const collection = "memory/project/notes";
    const dataDir = join(one.dir, "project/.rnix/data");
    const documents = Array.from({ length: 2_000 }, (_, id) => ({ id: `${id}`, text: `alpha beta ${id}` }));
    const source = { dataDir, collection, source: "a.md", version: "1" };
    expect(await codeOf(() => one.index.ask("put", { ...source, documents }))).toBe("TIMEOUT");
    expect(await one.index.ask("sources", { dataDir, collection }, 10_000)).toEqual([]);
    await one.index.ask("put", { ...source, documents }, 20_000);
    expect(await one.index.ask("sources", { dataDir, collection }, 10_000)).toHaveLength(1);
  });

  test("is started at most five times a minute", async () => {
    const one = place({ limits: { requestMs: 0 } });
    const codes: (string | undefined)[] = [];
    for (let n = 0; n < 7; n++) codes.push(await codeOf(() => sourcesOf(one)));
    expect(codes.slice(0, 5)).toEqual(Array.from({ length: 5 }, () => "TIMEOUT"));
    expect(codes.slice(5)).toEqual(["UNAVAILABLE", "UNAVAILABLE"]);
  });
});

describe("the index", () => {
  test("is there for another process, and both see what each puts", async () => {
    const one = place();
    await put(one, "a.md", "alpha");
    const two = place({ dir: one.dir });
    expect(await sourcesOf(two)).toEqual(["a.md"]);
    await put(two, "b.md", "alpha");
    expect((await hitsOf(one, "alpha")).toSorted()).toEqual(["a.md", "b.md"]);
  });

  test("is readable for its user only", async () => {
    const one = place();
    await put(one, "a.md", "alpha");
    expect(modes(one.dir).index).toBe("700");
  });

  test("takes the puts of two processes at once", async () => {
    const one = place();
    const two = place({ dir: one.dir });
    const names = Array.from({ length: 100 }, (_, n) => `${String(n).padStart(3, "0")}.md`);
    await Promise.all(names.map((name, n) => put(n % 2 === 0 ? one : two, name, `alpha ${n}`)));
    expect(await sourcesOf(one)).toEqual(names);
    expect(await sourcesOf(two)).toEqual(names);
  });

  test("is empty, and works on, after its folder was deleted", async () => {
    const one = place();
    await put(one, "a.md", "alpha");
    rmSync(folder(one.dir), { recursive: true });
    expect(await sourcesOf(one)).toEqual([]);
    await put(one, "b.md", "alpha");
    expect(await hitsOf(one, "alpha")).toEqual(["b.md"]);
    expect(await hitsOf(place({ dir: one.dir }), "alpha")).toEqual(["b.md"]);
  });

  const damages: [what: string, damage: (path: string) => void][] = [
    ["overwritten with other bytes", (path) => writeFileSync(path, "no database at all, but a text")],
    ["cut off", (path) => truncateSync(path, 5_000)],
    ["emptied", (path) => truncateSync(path, 0)],
    [
      "damaged in the middle",
      (path) => {
        const bytes = readFileSync(path);
        bytes.fill(0xa5, 4_096, bytes.length - 100);
        writeFileSync(path, bytes);
      },
    ],
  ];
  for (const [what, damage] of damages) {
    test(`is rebuilt when its file was ${what}`, async () => {
      const one = place();
      for (let n = 0; n < 50; n++) await put(one, `${n}.md`, `alpha ${"some words ".repeat(50)} ${n}`);
      const path = file(one.dir);
      await one.index.close();
      damage(path);
      const two = place({ dir: one.dir });
      for (const name of await sourcesOf(two)) await put(two, name, "gone");
      await put(two, "new.md", "beta");
      expect(await hitsOf(two, "beta")).toEqual(["new.md"]);
      expect(await hitsOf(two, "alpha")).toEqual([]);
    });
  }

  test("is in memory where its folder can't be made", async () => {
    const one = place();
    writeFileSync(folder(one.dir), "a file in its place");
    await put(one, "a.md", "alpha");
    expect(await hitsOf(one, "alpha")).toEqual(["a.md"]);
  });

  test.skipIf(process.getuid?.() === 0)("is in memory where its folder is read-only", async () => {
    const one = place();
    mkdirSync(folder(one.dir), { recursive: true });
    chmodSync(folder(one.dir), 0o500);
    await put(one, "a.md", "alpha");
    expect(await hitsOf(one, "alpha")).toEqual(["a.md"]);
  });
});
