import { describe, expect, onTestFinished, test } from "bun:test";
import { IndexFile } from "../../../src/store/files/index-file.ts";
import { DocumentIndex, snippetOf } from "../../../src/store/search/index-service.ts";
import { queryWords } from "../../../src/store/search/query.ts";

/** In memory. */
function newIndex(): DocumentIndex {
  const file = new IndexFile({ folder: null, dataDir: "/nowhere", version: "1" });
  onTestFinished(() => file.close());
  return new DocumentIndex(file);
}

/** An index with one document for each text; its id is its position. */
function indexOf(...texts: string[]): DocumentIndex {
  const index = newIndex();
  index.put(
    "notes",
    "file",
    "1",
    texts.map((text, id) => ({ id: String(id), text })),
  );
  return index;
}

/** The ids of the documents that are found, best first. */
function found(index: DocumentIndex, text: string, filter = {}): string[] {
  return index.find(queryWords(text), filter, 10).map(({ id }) => id);
}

describe("a search finds", () => {
  const cases: [what: string, text: string, query: string][] = [
    ["a word", "The flaky login test waits for the clock", "login"],
    ["all words, in any order", "The flaky login test waits for the clock", "clock test flaky"],
    ["another case", "Deploy with Ansible", "ANSIBLE"],
    ["the beginning of the last word", "Reconnect after a timeout", "after timeo"],
    ["accents that are not typed", "Das Café öffnet um neun", "cafe offnet"],
    ["accents that are typed", "El nino come", "niño"],
    ["composed and decomposed letters", "re\u0301sume\u0301 of it", "r\u00e9sum\u00e9"],
    ["ß, ø and ł as they are often typed", "Straße Øresund Łódź", "strasse oresund lodz"],
    ["Russian, with and without ё", "Самолёт летит", "самолет"],
    ["Greek without accents", "Καλημέρα κόσμε", "καλημερα"],
    ["Arabic without vowel signs", "مَرْحَبًا بالعالم", "مرحبا"],
    ["Hindi", "नमस्ते दुनिया", "दुनिया"],
    ["Chinese in a sentence", "数据库连接失败以后重新启动服务", "重新启动"],
    ["one Chinese character at an end", "服务已经启动", "动"],
    ["Japanese in two scripts", "サーバーを再起動する", "再起動"],
    ["Korean with an ending", "데이터베이스를 백업했다", "데이터베이스"],
    ["Thai", "ฐานข้อมูลล้มเหลว", "ข้อมูล"],
    ["mixed scripts without a blank", "使用Redis缓存", "redis 缓存"],
    ["a part of camelCase", "call parseHttpResponse twice", "http response"],
    ["a part of snake_case", "see max_tool_calls", "tool calls"],
    ["an identifier in another style", "call readUserFile()", "read_user_file"],
    ["an acronym in an identifier", "class HTTPServerError", "server"],
    ["a path", "edit src/store/runs/run-store.ts:12", "src/store/runs/run-store.ts"],
    ["a number and a version", "error 1045 since v2.13.0", "1045 v2.13"],
    ["an address", "mail to ops@example.org today", "ops@example.org"],
    ["one letter too many", "the receipt is stored", "recceipt"],
    ["one letter too few", "the receipt is stored", "recept"],
    ["another letter", "the receipt is stored", "recaipt"],
    ["two letters exchanged", "we receive mails", "recieve"],
    ["a typo in the first letter", "kubernetes cluster", "cubernetes"],
    ["a typo in the last letter", "kubernetes cluster", "kubernetez cluster"],
    ["a typo beside a right word", "kubernetes cluster", "kubernetas cluster"],
    [
      "some words of a question",
      "Postgres needs port 5433 here",
      "which port does our database postgres use",
    ],
    ["emoji beside words", "🎉 released 👩‍💻", "released"],
  ];
  for (const [what, text, query] of cases) {
    test(what, () => {
      const index = indexOf("nothing of the kind at all", text);
      expect(found(index, query)).toEqual(["1"]);
    });
  }

  test("nothing for a query without words, and for words that are nowhere", () => {
    const index = indexOf("a text");
    for (const query of ["", "   ", "*", '"', "🎉", "quite different"])
      expect(found(index, query)).toEqual([]);
  });

  test("no word of 4 letters with a typo, because it would be too many others", () => {
    expect(found(indexOf("a cold day"), "bold")).toEqual([]);
  });

  test("what looks like the syntax of the database", () => {
    const text = 'NEAR(a b) AND text: "quoted" OR x* NOT ^y + -z {col} : (open';
    const index = indexOf(text, "another text");
    for (const query of [
      text,
      '"quoted',
      "NEAR(",
      "text:quoted",
      "x*",
      "NOT",
      "(open",
      "'; DROP TABLE source",
    ])
      expect(() => found(index, query)).not.toThrow();
    expect(found(index, "text:quoted")[0]).toBe("0");
  });
});

describe("the order of the hits", () => {
  test("all words before typos before some words", () => {
    const index = indexOf("deploy only", "deploy servise", "the deploy service");
    expect(found(index, "deploy service")).toEqual(["2", "1", "0"]);
  });

  test("a rare word counts more than a frequent one, and a short text more than a long one", () => {
    const often = Array.from({ length: 20 }, () => "common words of every text");
    const long = `zebra ${"filler words about this and that ".repeat(20)}`;
    const index = indexOf(...often, long, "zebra stripes");
    expect(found(index, "zebra").slice(0, 2)).toEqual(["21", "20"]);
    expect(found(index, "common zebra").slice(0, 2)).toEqual(["21", "20"]);
  });

  test("and is the same for the whole word before a longer one", () => {
    expect(found(indexOf("testing it", "a test"), "test")).toEqual(["1", "0"]);
  });
});

describe("a filter", () => {
  test("takes collection, agent and time", () => {
    const index = newIndex();
    index.put("a", "s", "1", [
      { id: "early", text: "word", time_ms: 10, fields: { agent: "coder" } },
      { id: "late", text: "word", time_ms: 20, fields: { agent: "writer" } },
    ]);
    index.put("b", "s", "1", [{ id: "other", text: "word" }]);
    expect(found(index, "word", { collections: ["a"] }).toSorted()).toEqual(["early", "late"]);
    expect(found(index, "word", { collections: ["b"] })).toEqual(["other"]);
    expect(found(index, "word", { collections: [] })).toEqual([]);
    expect(found(index, "word", { agent: "coder" })).toEqual(["early"]);
    expect(found(index, "word", { since_ms: 15 })).toEqual(["late"]);
    expect(found(index, "word", { until_ms: 20 })).toEqual(["early"]);
  });
});

describe("put", () => {
  test("replaces all documents of a source, and [] removes it", () => {
    const index = indexOf("first", "second");
    index.put("notes", "other", "7", [{ id: "x", text: "first of the other" }]);
    index.put("notes", "file", "2", [{ id: "new", text: "third" }]);
    expect(found(index, "second")).toEqual([]);
    expect(found(index, "third")).toEqual(["new"]);
    expect(index.sources("notes")).toEqual([
      { source: "file", version: "2" },
      { source: "other", version: "7" },
    ]);
    index.put("notes", "file", "3", []);
    expect(index.sources("notes")).toEqual([{ source: "other", version: "7" }]);
    expect(found(index, "third")).toEqual([]);
    expect(found(index, "first")).toEqual(["x"]);
  });
});

describe("a snippet", () => {
  test("shows the words, on one line, with the places where the text goes on", () => {
    const text = `${"before ".repeat(60)}\n\nthe  kubernetes\ncluster is slow ${"after ".repeat(60)}`;
    const snippet = snippetOf(text, queryWords("cluster kubernetes"));
    expect(snippet).toMatch(/^…(before )+the kubernetes cluster is slow (after )+after…$/);
    expect(snippet.length).toBeLessThan(260);
  });

  test("is the whole of a short text", () => {
    expect(snippetOf("  a short\ttext ", queryWords("text"))).toBe("a short text");
  });

  test("takes the place with the most words, not the first one", () => {
    const text = `alpha ${"x ".repeat(300)} alpha beta gamma ${"y ".repeat(300)}`;
    expect(snippetOf(text, queryWords("alpha beta gamma"))).toContain("alpha beta gamma");
  });

  test("splits no character and needs no match", () => {
    const snippet = snippetOf("👩‍💻".repeat(300), queryWords("nowhere"));
    expect(snippet.isWellFormed()).toBe(true);
  });
});
