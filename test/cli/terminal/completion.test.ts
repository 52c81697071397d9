import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Completer, mentionedPaths } from "../../../src/cli/terminal/completion.ts";
import { fuzzyFind } from "../../../src/cli/terminal/fuzzy.ts";
import { History } from "../../../src/cli/terminal/history.ts";
import { ignoreRules, isIgnored, ProjectFiles } from "../../../src/cli/terminal/project-files.ts";
import { realClock } from "../../../src/lib/clock.ts";

const root = mkdtempSync(join(tmpdir(), "completion-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const never = new AbortController().signal;

function project(name: string, files: Record<string, string>): string {
  const dir = join(root, name);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
  }
  return dir;
}

async function listed(dir: string): Promise<string[]> {
  const files = new ProjectFiles(dir, realClock);
  await files.refresh();
  return [...files.entries];
}

function completer(cwd: string, files: readonly string[] = []): Completer {
  return new Completer({
    commands: () => [
      { name: "agent", about: "choose the agent" },
      { name: "resume", about: "resume another conversation" },
      { name: "git:commit", about: "commit", hint: "[message]" },
      {
        name: "model",
        about: "choose the model",
        values: async () => [
          { value: "fast-1", about: "openai" },
          { value: "smart-2", about: "anthropic" },
        ],
      },
    ],
    files: { entries: files, complete: Promise.resolve() },
    cwd,
  });
}

test("a message that is no command asks for no commands", async () => {
  let asked = 0;
  const commands = () => {
    asked++;
    return [];
  };
  const completer = new Completer({ commands, files: null, cwd: root });
  for (const text of ["f", "fix the test", "see /tmp"]) {
    expect(completer.now(text, true)).toBeNull();
    expect(await completer.soon(text, true, never)).toBeNull();
  }
  expect(asked).toBe(0);
});

describe("patterns of .gitignore", () => {
  const PATTERNS = [
    ...["*.log", "/build", "out/", "docs/*.tmp", "a/**/z", "**/cache", "temp/**", "!keep.log", "# no.txt"],
    ...[
      "\\#hash",
      "\\!bang",
      "f[0-9].c",
      "g[!a].c",
      "tail  ",
      "tail\\ ",
      "we?rd",
      "{a,b}.x",
      "dir.d/sub",
      "[",
      "a+b",
    ],
  ];
  const PATHS = [
    ...[
      "x.log",
      "keep.log",
      "s/x.log",
      "build",
      "s/build",
      "out",
      "s/out",
      "docs/a.tmp",
      "docs/s/a.tmp",
      "a/z",
    ],
    ...["a/b/c/z", "s/cache", "cache", "temp/x", "no.txt", "#hash", "!bang", "f1.c", "fx.c", "ga.c", "gb.c"],
    ...["tail", "tail ", "weird", "we/rd", "{a,b}.x", "a.x", "dir.d/sub", "dirxd/sub", "[", "a+b", "aab"],
  ];

  test("mean what they mean to git", () => {
    const dir = project("patterns", { ".gitignore": PATTERNS.join("\n") });
    const git = (args: string[], stdin = "") =>
      Bun.spawnSync(["git", ...args], { cwd: dir, stdin: Buffer.from(stdin) }).stdout.toString();
    git(["init", "-q"]);
    // Folders are asked about with a slash at the end.
    const asked = PATHS.flatMap((path) => [path, `${path}/`]);
    const ignored = new Set(
      git(["check-ignore", "--no-index", "-z", "--stdin"], asked.join("\0")).split("\0"),
    );
    const rules = ignoreRules(PATTERNS.join("\n"), "/p");
    const isLeftOut = (path: string) => {
      const parts = path.replace(/\/$/, "").split("/");
      // A file below an ignored folder is ignored, too: git reports it, and the list never enters the folder.
      return parts.some((_, at) => {
        const isLast = at === parts.length - 1;
        return isIgnored(`/p/${parts.slice(0, at + 1).join("/")}`, !isLast || path.endsWith("/"), rules);
      });
    };
    expect(asked.filter(isLeftOut)).toEqual(asked.filter((path) => ignored.has(path)));
  });
});

describe("the files of a project", () => {
  test("are those that git does not ignore, and never .git or node_modules", async () => {
    const dir = project("ignoring", {
      ".gitignore": "*.log\nbuild/\n",
      ".git/HEAD": "",
      ".git/hooks/applypatch-msg.sample": "",
      "node_modules/a/index.js": "",
      "build/x.js": "",
      "debug.log": "",
      "src/app.ts": "",
      "src/.gitignore": "secret.ts\n!kept.log\n",
      "src/secret.ts": "",
      "src/kept.log": "",
      ".env.example": "",
    });
    const expected = [".env.example", ".gitignore", "src/", "src/.gitignore", "src/app.ts", "src/kept.log"];
    expect((await listed(dir)).toSorted()).toEqual(expected);
  });

  test("of a part of a repository obey the rules above it", async () => {
    const dir = project("mono", { ".gitignore": "/packages/web/dist\n*.tmp\n", ".git/HEAD": "" });
    project("mono/packages/web", { "dist/a.js": "", "x.tmp": "", "index.html": "" });
    expect(await listed(join(dir, "packages/web"))).toEqual(["index.html"]);
  });

  test("end at links and at folders that can't be read", async () => {
    const dir = project("links", { "a/b.txt": "" });
    symlinkSync("..", join(dir, "a/up"));
    expect(await listed(dir)).toEqual(["a/", "a/b.txt", "a/up"]);
    expect(await listed(join(dir, "missing"))).toEqual([]);
  });
});

describe("the search by a few letters", () => {
  const names = [
    "src/cli/terminal/input-line.ts",
    "docs/cli.md",
    "test/client.ts",
    "src/cli/",
    "cli.ts",
    "xclix/readme.md",
  ];
  const find = (query: string, list: readonly string[] = names) => fuzzyFind(query, list, 10, never);

  test("prefers the last part of a path, its beginning, and what is shorter", async () => {
    expect((await find("cli"))?.slice(0, 3)).toEqual(["src/cli/", "cli.ts", "docs/cli.md"]);
    expect(await find("inli")).toEqual(["src/cli/terminal/input-line.ts"]);
    expect((await find("src/inp"))?.[0]).toBe("src/cli/terminal/input-line.ts");
    expect(await find("zzz")).toEqual([]);
  });

  test("goes through 50,000 files and gives way to other work meanwhile", async () => {
    const many = Array.from({ length: 50_000 }, (_, i) => `packages/p${i % 100}/src/module-${i}/index.ts`);
    let turns = 0;
    const ticking = setInterval(() => turns++, 0);
    const begun = performance.now();
    const found = await find("p7mod49907", many);
    const took = performance.now() - begun;
    clearInterval(ticking);
    expect(found?.[0]).toBe("packages/p7/src/module-49907/index.ts");
    expect(took).toBeLessThan(500);
    expect(turns).toBeGreaterThan(0);
  });

  test("ends when its question is outdated", async () => {
    const many = Array.from({ length: 50_000 }, (_, i) => `f${i}`);
    const asked = new AbortController();
    const search = fuzzyFind("f", many, 10, asked.signal);
    asked.abort();
    expect(await search).toBeNull();
  });
});

describe("what the input line offers", () => {
  test("commands at the beginning of the message only, prefixes first", () => {
    const at = completer("/");
    expect(at.now("/", true)?.items.map(({ text }) => text)).toEqual([
      "/agent ",
      "/resume ",
      "/git:commit ",
      "/model ",
    ]);
    expect(at.now("/re", true)?.items[0]?.text).toBe("/resume ");
    expect(at.now("/comm", true)?.items[0]).toMatchObject({
      text: "/git:commit ",
      label: "/git:commit [message]",
    });
    expect(at.now("see /re", true)).toBeNull();
    expect(at.now("/re", false)).toBeNull();
    expect(at.now("/re x", true)).toBeNull();
  });

  test("the values of an argument", async () => {
    const found = await completer("/").soon("/model sm", true, never);
    expect(found).toMatchObject({
      kind: "argument",
      from: 7,
      items: [{ text: "smart-2", about: "anthropic" }],
    });
    expect(await completer("/").soon("/agent x", true, never)).toBeNull();
  });

  test("files behind an @, quoted where their names have spaces", async () => {
    const at = completer("/", ["src/", "src/app.ts", "my notes.md", "my folder/"]);
    expect((await at.soon("look at @app", true, never))?.items[0]?.text).toBe("@src/app.ts ");
    expect(await at.soon("look at @app", true, never)).toMatchObject({ kind: "file", from: 8 });
    expect((await at.soon("@notes", true, never))?.items[0]?.text).toBe('@"my notes.md" ');
    expect((await at.soon('@"my no', true, never))?.items[0]?.text).toBe('@"my notes.md" ');
    expect((await at.soon("@folder", true, never))?.items[0]).toMatchObject({
      text: '@"my folder/',
      goesOn: true,
    });
    expect(await at.soon("me@example.org", true, never)).toBeNull();
  });

  test("the entries of folders outside the project", async () => {
    const dir = project("elsewhere", { "proj/x": "", "pictures/cat.png": "", ".hidden": "" });
    // A link that leads to itself can't be followed, and hides nothing else.
    symlinkSync(join(dir, ".loop"), join(dir, ".loop"));
    symlinkSync(".loop", join(dir, "zloop"));
    const at = completer(join(dir, "proj"));
    const offered = async (typed: string) =>
      (await at.soon(typed, true, never))?.items.map(({ text }) => text);
    expect(await offered("@../")).toEqual(["@../pictures/", "@../proj/", "@../zloop "]);
    expect(await offered("@../pictures/c")).toEqual(["@../pictures/cat.png "]);
    expect(await offered(`@${dir}/pi`)).toEqual([`@${dir}/pictures/`]);
    expect(await offered("@/no/such/folder/")).toBeUndefined();
  });
});

test("mentions end before punctuation, and are no parts of addresses", () => {
  expect(mentionedPaths('see @src/a.ts, (@b.md) and @"my notes.md". mail me@x.org @src/a.ts @')).toEqual([
    "src/a.ts",
    "b.md",
    "my notes.md",
  ]);
});

describe("the history", () => {
  const path = join(root, "data", "history", "p.jsonl");

  test("keeps texts of several lines, for this user only", () => {
    const history = new History(path);
    expect(history.load()).toEqual([]);
    expect(history.add("first\nline")).toBe(true);
    expect(history.add("  ")).toBe(true);
    new History(path).add("second");
    expect(history.load()).toEqual(["first\nline", "second"]);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
  });

  test("is bounded, and damaged lines are left out", () => {
    const history = new History(path);
    writeFileSync(path, 'not json\n{"a":1}\n"good"\n"torn');
    expect(history.load()).toEqual(["good"]);
    for (let i = 0; i < 60; i++) history.add(`${i} ${"x".repeat(15_000)}`);
    expect(statSync(path).size).toBeLessThan(600_000);
    expect(history.load().at(-1)).toStartWith("59 ");
    history.add("y".repeat(30_000));
    expect(history.load().at(-1)).toStartWith("59 ");
  });

  test("follows no link, and a conversation continues without it", () => {
    const target = join(root, "target");
    writeFileSync(target, "untouched");
    const linked = join(root, "linked.jsonl");
    symlinkSync(target, linked);
    expect(new History(linked).add("text")).toBe(false);
    expect(statSync(target).size).toBe("untouched".length);
  });
});
