import { describe, expect, test } from "bun:test";
import { chmodSync, statSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";
import { bash, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";

/** Plays one run of these commands, one step each; returns its UUID. */
async function played(machine: Machine, ...commands: string[]): Promise<string> {
  await machine.play({ go: [...commands.map((command) => bash(command)), says("done")] });
  return (await verdict(machine, ["go"])).receipt.uuid;
}

test("an undo that takes nothing back leaves --redo alone, and names the command that overwrites", async () => {
  await using machine = new Machine({ git: true });
  machine.write("a.txt", "a\n");
  machine.write("b.txt", "b\n");
  machine.commit("all");
  const uuid = await played(machine, "echo run >> a.txt; echo run >> b.txt");
  machine.write("b.txt", "user\n");
  const first = await machine.run(["undo", uuid]);
  expect([first.code, first.stdout]).toEqual([1, "restored  a.txt +0 -1\n"]);
  expect(first.stderr).toContain("rnix undo 1 b.txt --force\n");
  expect((await machine.run(["undo", uuid])).code).toBe(1);
  machine.write("b.txt", "b\n");
  expect((await machine.run(["undo", uuid])).stdout).toContain("unchanged  b.txt");
  expect((await machine.run(["undo", uuid, "--redo"])).stdout).toContain("restored  a.txt");
  expect([machine.read("a.txt"), machine.read("b.txt")]).toEqual(["a\nrun\n", "b\n"]);
});

describe("undo never takes what the user had", () => {
  /** `named`: the file that is left alone; `has`: what is still in it. */
  const LEFT_ALONE: [what: string, commands: string[], named: string, has: string | null][] = [
    ["the ignore file is emptied", [": > .gitignore; echo x >> .env"], ".env", null],
    [
      "it is removed, and the file replaced",
      ["rm .gitignore", "echo x > n; cat .env >> n; mv n .env"],
      ".env",
      "SECRET",
    ],
    ["a pattern is negated", ["echo '!.env' >> .gitignore; touch .env; echo x >> .env"], ".env", null],
    ["the file is moved", ["mv .env env.txt"], "env.txt", null],
    ["moved, then changed", ["mv .env env.txt", "echo x >> env.txt"], "env.txt", null],
    ["moved over a file of the repository", ["mv .env a.txt"], "a.txt", null],
    ["another repository's file is moved over it", ["mv .gitignore gi", "mv nested/f .env"], ".env", null],
    ["its ignored folder is moved", ["mv data kept"], "kept/db", null],
    ["moved, and changed later", ["mv data kept; echo x > kept/new", "touch kept/more"], "kept/db", null],
    ["moved deeper", ["mkdir deep; mv data deep/kept"], "deep/kept/db", null],
    ["a file in a formerly ignored folder", ["echo > .gitignore; echo x >> data/db"], "data/db", null],
    ["a branch without the ignore file", ["git checkout -q bare && echo x >> .env"], ".env", null],
    ["a branch that has it as a file", ["git checkout -q -f tracks"], ".env", null],
    ["its mode", [": > .gitignore; chmod 600 .env"], ".env", null],
    [
      "a repository in the tree that is one no longer",
      ["rm -rf nested/.git; echo x >> nested/f"],
      "nested/",
      null,
    ],
  ];
  test.each(LEFT_ALONE)("%s", async (_what, commands, named, has) => {
    await using machine = new Machine({ git: true });
    machine.write("a.txt", "a\n");
    machine.commit("all");
    machine.git("checkout", "-q", "-b", "tracks");
    machine.write(".env", "of the branch\n");
    machine.commit("tracks");
    machine.git("checkout", "-q", "-b", "bare", "HEAD~");
    machine.git("checkout", "-q", "-b", "work");
    machine.write(".gitignore", "/.env\ndata/\n");
    machine.commit("ignores");
    const had = { ".env": "SECRET=1\n", "data/db": "rows\n", "nested/f": "mine\n" };
    for (const [path, text] of Object.entries(had)) machine.write(path, text);
    machine.git("init", "-q", "nested");
    const uuid = await played(machine, ...commands);
    const content = named === "nested/" ? "" : machine.read(named);
    const { code, stderr } = await machine.run(["undo", uuid]);
    if (has === null) expect([code, stderr]).toEqual([1, expect.stringContaining(`left alone  ${named}: `)]);
    if (content !== "") expect(machine.read(named)).toContain(has ?? content);
    if (has !== null) return;
    await machine.run(["undo", uuid, named, "--force"]);
    if (content !== "") expect(machine.read(named)).toContain(content);
  });

  test.each([
    ["all of them", (lines: string[]) => lines.slice(0, 0)],
    ["the first", (lines: string[]) => lines.slice(2)],
  ])("nothing is taken back where lines are gone that say what the files were: %s", async (_which, left) => {
    await using machine = new Machine({ git: true });
    machine.write("a.txt", "mine\n");
    machine.commit("all");
    const uuid = await played(machine, "rm a.txt", "git reset -q --hard; echo x > b.txt");
    // As `git add -f . && git reset --hard` in the run does with its record.
    const log = `.rnix/data/steps/${uuid}/changes.jsonl`;
    machine.write(log, left(machine.read(log).split("\n")).join("\n"));
    const gone = "lines of changes.jsonl of its record are gone";
    const undo = await machine.run(["undo", uuid]);
    expect([undo.code, machine.read("a.txt"), machine.read("b.txt")]).toEqual([64, "mine\n", "x\n"]);
    expect([undo.stderr, (await machine.run(["diff", uuid])).stderr]).toEqual([
      expect.stringContaining(gone),
      expect.stringContaining(gone),
    ]);
  });

  test("the new name of a file stays where the record has lost its content", async () => {
    await using machine = new Machine({ git: true });
    machine.write("a.txt", "a\n");
    machine.write("b.txt", "b\n");
    machine.commit("all");
    machine.write("mine.txt", "mine\n");
    const uuid = await played(machine, "mv mine.txt c.txt; mv a.txt b.txt");
    // As `git clean -X` in the run does with its record.
    machine.remove(`.rnix/data/steps/${uuid}/snapshots/objects`);
    const { code, stderr } = await machine.run(["undo", uuid]);
    expect([code, machine.read("c.txt"), machine.read("b.txt")]).toEqual([1, "mine\n", "a\n"]);
    expect(stderr).toContain("left alone  c.txt: it is the only copy of a file that the run moved");
  });

  test("a known file that the run has moved comes back, and its new name goes", async () => {
    await using machine = new Machine({ git: true });
    machine.write("a.txt", "a\n");
    machine.write(".gitignore", "*.log\n");
    machine.commit("all");
    machine.write("mine.txt", "mine\n");
    const uuid = await played(
      machine,
      "mv a.txt b.txt; mv mine.txt c.txt",
      "mv c.txt d.txt; mkdir e; echo > e/f",
    );
    expect(await machine.run(["undo", uuid])).toMatchObject({ code: 0 });
    expect(["a.txt", "mine.txt", "b.txt", "d.txt", "e"].map((path) => machine.has(path))).toEqual([
      ...[true, true, false, false, false],
    ]);
  });

  test("a folder that the run has moved comes back, and nothing of its new name is left or unnamed", async () => {
    await using machine = new Machine({ git: true });
    machine.write("src/a.txt", "a\n");
    machine.write("src/deep/b.txt", "b\n");
    machine.commit("all");
    machine.write("src/mine.txt", "mine\n");
    machine.write("kept.txt", "the same\n");
    const uuid = await played(machine, "mv src lib", "mv lib/deep deep; echo x >> lib/a.txt");
    // Times older than the run do not make a file of the user one of it.
    machine.write("other.txt", "the same\n");
    const { stdout } = await machine.run(["diff", uuid, "--stat"]);
    for (const path of ["lib/a.txt", "lib/mine.txt", "deep/b.txt", "src/a.txt"])
      expect(stdout).toContain(path);
    expect(await machine.run(["undo", uuid])).toMatchObject({ code: 0 });
    const paths = ["src/a.txt", "src/deep/b.txt", "src/mine.txt", "kept.txt", "other.txt"];
    expect(paths.map((path) => machine.read(path))).toEqual([
      "a\n",
      "b\n",
      "mine\n",
      "the same\n",
      "the same\n",
    ]);
    expect(
      ["lib/a.txt", "lib/mine.txt", "lib/deep/b.txt", "deep/b.txt"].filter((path) => machine.has(path)),
    ).toEqual([]);
  });

  test.each([
    ["git stash", ["mv src data2; git stash -q"]],
    ["git reset", ["mv src data2; git reset -q --hard"]],
    ["git stash, and one moved on", ["mv src data2; git stash -q; mv data2/a.txt q.txt"]],
    ["new files", ["mv src data2; mkdir src; echo a > src/a.txt; echo b > src/b.txt"]],
    ["git stash in the next step", ["mv src data2", "git stash -q"]],
  ])(
    "of a folder that was moved, and made again by %s, nothing is left or unnamed",
    async (_by, commands) => {
      await using machine = new Machine({ git: true });
      for (const name of ["a", "b", "deep/c"]) machine.write(`src/${name}.txt`, `${name}\n`);
      machine.commit("all");
      const had = { "src/mine.txt": "mine\n", "src/b.txt": "b of the user\n" };
      for (const [path, text] of Object.entries(had)) machine.write(path, text);
      const uuid = await played(machine, ...commands);
      expect(await machine.run(["undo", uuid])).toMatchObject({ code: 0 });
      const names = ["a", "b", "deep/c", "mine"].map((name) => `data2/${name}.txt`);
      expect([...names, "q.txt"].filter((path) => machine.has(path))).toEqual([]);
      expect(Object.keys(had).map((path) => machine.read(path))).toEqual(Object.values(had));
      expect(["a", "deep/c"].map((name) => machine.read(`src/${name}.txt`))).toEqual(["a\n", "deep/c\n"]);
    },
  );

  test.each([
    ["a folder that was moved", "mv src kept", "kept/big.txt"],
    ["a new name", "mv src/big.txt big2.txt", "big2.txt"],
    ["the name of another file", "mv src/big.txt a.txt", "a.txt"],
  ])(
    "the only copy of a file too large to keep stays, also with --force: in %s",
    async (_in, command, path) => {
      await using machine = new Machine({ git: true });
      machine.config({ undo_file_size: "1KiB" });
      machine.write("a.txt", "a\n");
      machine.commit("all");
      machine.write("src/big.txt", "x".repeat(3000));
      const uuid = await played(machine, command);
      const { code, stderr } = await machine.run(["undo", uuid]);
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining(`left alone  ${path}: it is older than the run`),
      ]);
      expect(stderr).not.toContain("--force");
      await machine.run(["undo", uuid, path, "--force"]);
      expect(machine.read(path)).toBe("x".repeat(3000));
    },
  );

  test.each([
    ["at once", ["echo 'm*' >> .gitignore; echo run >> mine.txt"]],
    ["in two steps", ["echo 'm*' >> .gitignore", "echo run >> mine.txt"]],
    ["and removes it", ["echo 'm*' >> .gitignore; rm mine.txt"]],
    ["and replaces it", ["echo 'm*' >> .gitignore; echo run > n; mv n mine.txt"]],
  ])(
    "a file that was not ignored comes back when the run ignores and changes it: %s",
    async (_how, commands) => {
      await using machine = new Machine({ git: true });
      machine.write("a.txt", "a\n");
      machine.commit("all");
      machine.write("mine.txt", "mine\n");
      const uuid = await played(machine, ...commands);
      expect(await machine.run(["undo", uuid])).toMatchObject({ code: 0 });
      expect(machine.read("mine.txt")).toBe("mine\n");
      expect(machine.has(".gitignore")).toBe(false);
    },
  );

  /** What the run does, then what an undo takes back besides; every file is back, or its content stays. */
  const MOVED_FOLDERS: [what: string, ...commands: string[]][] = [
    ["an ignored folder takes its place", "mv src s2; mv data src"],
    ["an ignored folder takes its place in two steps", "mv src s2", "mv data src"],
    ["an untracked folder takes its place", "mv src s2; mv old src"],
    ["two folders exchanged", "mv src s2; mv old src; mv s2 old"],
    ["a folder of outside takes its place", "mv src s2; mv ../elsewhere/out src"],
    ["its files removed, and its time set back", "mv src/x.txt x2; rm src/y.txt; touch -d 2001-01-01 src"],
    ["its files moved, and its folder in another's place", "mv src/x.txt x2; mv old src/x.txt"],
    [
      "a chain that ends at one of outside",
      "mv src/x.txt t; mv src/y.txt src/x.txt; mv ../elsewhere/out/x.txt src/y.txt; mv t z",
    ],
    ["a circle and an ignored file", "mv src/x.txt t; mv .env src/x.txt; mv src/y.txt .env; mv t src/y.txt"],
    ["an ignored file where the folder was", "mv src/x.txt x2; rm -r src; mv .env src"],
    ["a link where the folder was", "mv src s2; ln -s data src"],
  ];
  test.each(MOVED_FOLDERS)(
    "no content is lost of a folder that was moved: %s",
    async (_what, ...commands) => {
      await using machine = new Machine({ git: true });
      machine.write(".gitignore", "data/\n.env\n");
      for (const path of ["src/x.txt", "src/y.txt"]) machine.write(path, `${path}\n`);
      machine.commit("all");
      const others = ["data/x.txt", "old/x.txt", "old/z.txt", ".env", join(machine.elsewhere, "out/x.txt")];
      for (const path of others) machine.write(path, `${path}\n`);
      const had = ["src/x.txt\n", "src/y.txt\n", ...others.map((path) => `${path}\n`)];
      const held = (): string[] =>
        had.filter((text) =>
          machine.search(text).some((path) => !path.includes(".rnix/") && !path.includes(".git/")),
        );
      const uuid = await played(machine, ...commands);
      const after = held();
      const { code } = await machine.run(["undo", uuid]);
      expect(held()).toEqual(expect.arrayContaining(after));
      if (code === 0)
        for (const path of ["src/x.txt", "src/y.txt"]) expect(machine.read(path)).toBe(`${path}\n`);
    },
  );

  test("the new name of a file stays where only that one is named", async () => {
    await using machine = new Machine({ git: true });
    machine.write("a.txt", "a\n");
    machine.commit("all");
    machine.write("mine.txt", "mine\n");
    const uuid = await played(machine, "mv mine.txt z.txt; mv a.txt y.txt");
    const { code, stderr } = await machine.run(["undo", uuid, "z.txt"]);
    expect([code, machine.read("z.txt")]).toEqual([1, "mine\n"]);
    expect(stderr).toContain("left alone  z.txt: it is the only copy of a file that the run moved");
    expect((await machine.run(["undo", uuid, "z.txt", "mine.txt"])).code).toBe(0);
    expect([machine.has("z.txt"), machine.read("mine.txt"), machine.read("y.txt")]).toEqual([
      false,
      "mine\n",
      "a\n",
    ]);
  });

  const mounts = Bun.spawnSync(["unshare", "-m", "mount", "-t", "ramfs", "none", "/mnt"]).success;
  test.if(mounts).each([
    ["mv .env env.txt", "env.txt", "secret\n"],
    ["mv .env a.txt", "a.txt", "secret\n"],
    ["mv data kept", "kept/db", "rows\n"],
  ])("where the file system does not know when a file was made: %s", async (command, path, content) => {
    await using machine = new Machine();
    const { project } = machine;
    Bun.spawnSync(["mount", "-t", "ramfs", "none", project]);
    try {
      machine.git("init", "-q");
      machine.write("a.txt", "a\n");
      machine.write(".gitignore", ".env\ndata/\n");
      machine.commit("all");
      machine.write(".env", "secret\n");
      machine.write("data/db", "rows\n");
      const uuid = await played(machine, `${command}; echo run > new.txt`);
      const { code, stderr } = await machine.run(["undo", uuid]);
      expect([code, machine.read(path), machine.has("new.txt")]).toEqual([1, content, false]);
      expect(stderr).toContain(`left alone  ${path}: it is older than the run`);
      await machine.run(["daemon", "stop"]);
    } finally {
      Bun.spawnSync(["umount", "-l", project]);
    }
  });

  test("permissions come back, and a pure chmod is a change", async () => {
    await using machine = new Machine({ git: true });
    for (const path of ["private.txt", "script.sh", "only.txt"]) machine.write(path, "a\n");
    machine.commit("all");
    const modes = { "private.txt": 0o600, "script.sh": 0o750, "only.txt": 0o640 };
    for (const [path, mode] of Object.entries(modes)) chmodSync(join(machine.project, path), mode);
    const uuid = await played(
      machine,
      "rm private.txt; echo x > private.txt; rm script.sh; chmod 644 only.txt",
    );
    expect((await machine.run(["diff", uuid, "--stat"])).stdout).toContain("only.txt     mode");
    expect(await machine.run(["undo", uuid])).toMatchObject({ code: 0 });
    const now = Object.keys(modes).map((path) => [path, statSync(join(machine.project, path)).mode & 0o777]);
    expect(Object.fromEntries(now)).toEqual(modes);
  });

  test("names that are not UTF-8 are as many files", async () => {
    await using machine = new Machine({ git: true });
    const names = ["'\\377'", "'\\376'", "'\\375x'"].map((name) => `$(printf ${name})`);
    machine.write("a.txt", "a\n");
    await machine.ok(["ps"]);
    Bun.spawnSync(
      ["sh", "-c", `for f in ${names.map((name) => `"${name}"`).join(" ")}; do echo old > "$f"; done`],
      {
        cwd: machine.project,
      },
    );
    machine.commit("all");
    const uuid = await played(machine, `echo 1 > "${names[0]}"; rm "${names[1]}"; echo 3 > "n${names[2]}"`);
    const report = await machine.run(["undo", uuid, "--json"]);
    const { files } = JSON.parse(report.stdout) as { files: { done: string }[] };
    expect(files.map(({ done }) => done).sort()).toEqual(["recreated", "removed", "restored"]);
    expect(machine.git("status", "--short")).toBe("");
  });
});
