import { describe, expect, test } from "bun:test";
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { ChangeTracker } from "../../../src/kernel/files/change-tracker.ts";
import { FileStates } from "../../../src/kernel/files/file-states.ts";
import { WorkTree } from "../../../src/kernel/files/git-work-tree.ts";
import type { Children } from "../../../src/os/children.ts";
import { FolderWatch } from "../../../src/os/folder-watch.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import type { ChangeDraft } from "../../../src/store/changes/change-log.ts";
import { ObjectStore } from "../../../src/store/changes/object-store.ts";
import { programsIn } from "../../support/programs.ts";

/** A work tree and a tracker of it. What is changed while `mine` is set is the run's. */
class Tracked implements AsyncDisposable {
  readonly dir = realpathSync(mkdtempSync(join(tmpdir(), "rnix-tracker-")));
  readonly root = join(this.dir, "project");
  readonly lines: ChangeDraft[] = [];
  readonly warnings: string[] = [];
  readonly store = new ObjectStore({ dir: join(this.dir, "record"), maxBytes: 1 << 20 });
  mine = true;
  recordFails = false;
  #tracker: ChangeTracker | undefined;
  readonly #children = programsIn(this.dir);

  constructor({ git = true } = {}) {
    mkdirSync(join(this.dir, "record"), { recursive: true });
    mkdirSync(this.root);
    this.write("a.txt", "a\n");
    this.write("deep/b.txt", "b\n");
    this.write(".gitignore", "ignored.txt\n");
    if (git)
      for (const args of [
        ["init", "-q"],
        ["add", "-A"],
        ["commit", "-q", "-m", "x"],
      ])
        this.git(...args);
  }

  get tracker(): ChangeTracker {
    return this.#tracker ?? expect.unreachable();
  }

  write(path: string, text: string): string {
    const file = join(this.root, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    return file;
  }

  git(...args: string[]): void {
    const { success, stderr } = Bun.spawnSync(["git", "-c", "user.name=t", "-c", "user.email=t@t", ...args], {
      cwd: this.root,
      env: { PATH: process.env.PATH ?? "", HOME: this.dir },
    });
    if (!success) throw new Error(stderr.toString());
  }

  async begin(): Promise<this> {
    const scratch = join(this.dir, "record");
    const env = { PATH: process.env.PATH ?? "", HOME: this.dir };
    const exec = (request: Parameters<Children["exec"]>[1]) =>
      this.#children.exec({ uuid: "test", spillDir: join(this.dir, "spill") }, request);
    const tree = await WorkTree.open({
      dir: this.root,
      untrusted: [this.root],
      env,
      scratch,
      watch: () => FolderWatch.open(),
      now: Date.now,
      exec,
    });
    const put = (content: Uint8Array): Promise<string> => this.store.put(content);
    this.#tracker = await ChangeTracker.begin(
      {
        dir: this.root,
        tree,
        kept: { objects: this.store.objects, maxBytes: 1 << 20 },
        states: new FileStates({ put, most: 1 << 16, format: tree?.format ?? "sha1" }),
        record: (...lines) => {
          if (this.recordFails) throw new SyscallError("EXHAUSTED", "the disk is full");
          this.lines.push(...lines);
        },
        now: Date.now,
        isOwn: () => this.mine,
        isOutput: () => false,
        mayHide: () => true,
        comparable: async () => true,
        warn: (text) => this.warnings.push(text),
      },
      1,
      {},
    );
    return this;
  }

  /** Ends it, and returns its lines in short. */
  async end(): Promise<unknown[]> {
    await this.tracker.end({});
    return this.lines.map((line) => {
      if (line.t === "change")
        return [line.step, line.path, line.before?.kind ?? null, line.after?.kind ?? null];
      return line.t === "others" ? [line.step, "others", ...line.paths] : line.t;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#children.close();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

describe("in a git work tree", () => {
  test("each step has its own changes, with the contents before and after", async () => {
    await using run = await new Tracked().begin();
    run.write("a.txt", "changed\n");
    await run.tracker.next(2, {});
    run.write("new.txt", "new\n");
    rmSync(join(run.root, "a.txt"));
    expect(await run.end()).toEqual([
      "base",
      [1, "a.txt", "file", "file"],
      [2, "a.txt", "file", null],
      [2, "new.txt", null, "file"],
      "end",
    ]);
    const [, change] = run.lines;
    if (change?.t !== "change") return expect.unreachable();
    const [before, after] = await Promise.all(
      [change.before, change.after].map((state) => run.store.get(state?.oid ?? "")),
    );
    expect([before?.toString(), after?.toString()]).toEqual(["a\n", "changed\n"]);
    expect([run.tracker.changed().sort(), run.tracker.complete]).toEqual([["a.txt", "new.txt"], true]);
  });

  test("a touched file, one that comes back, and what was so before are no changes", async () => {
    await using run = new Tracked();
    run.write("dirty.txt", "before\n");
    await run.begin();
    utimesSync(join(run.root, "a.txt"), 1, 1);
    run.write("deep/b.txt", "other\n");
    run.write("deep/b.txt", "b\n");
    run.git("add", "dirty.txt");
    expect(await run.end()).toEqual(["base", "end"]);
    expect([run.tracker.changed(), run.tracker.complete]).toEqual([[], true]);
  });

  test("what others change is named once, and is no change of the run, in this step and the next", async () => {
    await using run = await new Tracked().begin();
    run.mine = false;
    run.write("a.txt", "another's\n");
    await run.tracker.next(2, {});
    run.mine = true;
    appendFileSync(join(run.root, "a.txt"), "the run's\n");
    expect(await run.end()).toEqual(["base", [1, "others", "a.txt"], [2, "a.txt", "file", "file"], "end"]);
    const change = run.lines.find((line) => line.t === "change");
    if (change?.t !== "change") return expect.unreachable();
    // An undo must not take away what the other program wrote before.
    expect((await run.store.get(change.before?.oid ?? ""))?.toString()).toBe("another's\n");
    expect(run.tracker.complete).toBe(false);
  });

  test("what a step changed is known before others change the same file, and their changes leave no doubt", async () => {
    await using run = await new Tracked().begin();
    run.write("a.txt", "the run's\n");
    await run.tracker.settle({}, () => true);
    run.mine = false;
    run.write("a.txt", "another's\n");
    await run.tracker.next(2, {});
    expect(await run.end()).toEqual(["base", [1, "a.txt", "file", "file"], "end"]);
    expect([run.tracker.changed(), run.tracker.complete]).toEqual([["a.txt"], true]);
  });

  test("a reported write of an ignored file counts, one that is taken back in the same step does not", async () => {
    await using run = await new Tracked().begin();
    for (const [path, text] of [
      ["ignored.txt", "i\n"],
      ["a.txt", "written\n"],
    ] as const) {
      await run.tracker.writing(join(run.root, path));
      run.tracker.written(run.write(path, text));
    }
    run.write("a.txt", "a\n");
    expect(await run.end()).toEqual(["base", [1, "ignored.txt", null, "file"], "end"]);
  });

  test("repositories in the work tree are left alone, and many new files are taken by git", async () => {
    await using run = new Tracked();
    for (let i = 0; i < 100; i++) run.write(`many/f${i}.txt`, `${i}\n`);
    run.write("large.txt", "x".repeat(70_000));
    await run.begin();
    run.git("init", "-q", "nested");
    run.git("-C", "nested", "commit", "-q", "--allow-empty", "-m", "x");
    run.write("many/f7.txt", "seven\n");
    run.write("large.txt", "y".repeat(70_000));
    expect(await run.end()).toEqual([
      "base",
      [1, "large.txt", "file", "file"],
      [1, "many/f7.txt", "file", "file"],
      [1, "nested/", null, "other"],
      "end",
    ]);
    const changes = run.lines.flatMap((line) => (line.t === "change" ? [line] : []));
    expect(changes.map(({ before }) => before?.oid ?? null)).toEqual([null, expect.any(String), null]);
    expect((await run.store.get(changes[1]?.before?.oid ?? ""))?.toString()).toBe("7\n");
    expect(run.tracker.complete).toBe(true);
  });

  test("a record that can't be written, and a git that is gone, stop nothing and are reported", async () => {
    await using run = await new Tracked().begin();
    run.write("a.txt", "changed\n");
    run.recordFails = true;
    await run.tracker.next(2, {});
    await run.tracker.refresh();
    run.recordFails = false;
    rmSync(join(run.dir, "record"), { recursive: true });
    writeFileSync(join(run.dir, "record"), "");
    run.write("ignored.txt", "git has to decide\n");
    expect(await run.end()).toEqual(["base", "end"]);
    expect([run.tracker.complete, run.warnings[0]]).toEqual([false, "the disk is full"]);
  });
});

test("outside git only reported writes are known, with their contents before", async () => {
  await using run = await new Tracked({ git: false }).begin();
  const file = join(run.root, "a.txt");
  await run.tracker.writing(file);
  run.tracker.written(run.write("a.txt", "one\n"));
  await run.tracker.writing(file);
  run.tracker.written(run.write("a.txt", "two\n"));
  run.write("deep/b.txt", "by a command\n");
  await run.tracker.next(2, {});
  run.tracker.written(run.write("unannounced.txt", "x\n"));
  expect(await run.end()).toEqual([
    "base",
    [1, "a.txt", "file", "file"],
    [2, "unannounced.txt", "file", "file"],
    "end",
  ]);
  const [, first, second] = run.lines;
  if (first?.t !== "change" || second?.t !== "change") return expect.unreachable();
  expect((await run.store.get(first.before?.oid ?? ""))?.toString()).toBe("a\n");
  expect(second.before?.lost).toContain("did not announce");
  expect(run.tracker.complete).toBe(false);
});
