/** A comparison by what the watch has seen finds what the comparison of all files finds. */
import { expect, test } from "bun:test";
import {
  appendFileSync,
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Listing, WorkTree } from "../../../src/kernel/files/git-work-tree.ts";
import type { FolderWatch as Watch } from "../../../src/kernel/files/tree-scan.ts";
import { FolderWatch } from "../../../src/os/folder-watch.ts";
import { programsIn } from "../../support/programs.ts";
import { seeded } from "../../support/seeded.ts";

const FILES = ["a.txt", "b.txt", "one/c.txt", "one/d.txt", "one/two/e.txt", "three/f.txt"];

/** A repository of some files, with a work tree that is watched and one that is not. */
class Both implements AsyncDisposable {
  readonly dir = realpathSync(mkdtempSync(join(tmpdir(), "rnix-watch-")));
  readonly root = join(this.dir, "project");
  readonly #children = programsIn(this.dir);
  readonly #trees: WorkTree[] = [];
  /** How often the watch did not know. */
  lost = 0;

  static async begin(): Promise<Both> {
    const both = new Both();
    mkdirSync(both.root);
    for (const file of FILES) both.write(file, file);
    both.write(".gitignore", "*.log\nbuilt/\n");
    const git = ["git", "-c", "user.name=t", "-c", "user.email=t@t"];
    for (const args of [
      ["init", "-q"],
      ["add", "-A"],
      ["commit", "-q", "-m", "first"],
    ])
      Bun.spawnSync([...git, ...args], { cwd: both.root, env: { PATH: process.env.PATH, HOME: both.dir } });
    const watch = (): Watch | null => {
      both.lost++;
      return FolderWatch.open();
    };
    await both.#open(watch);
    await both.#open(() => null);
    await both.same();
    return both;
  }

  async #open(watch: () => Watch | null): Promise<void> {
    const scratch = join(this.dir, `record-${this.#trees.length}`);
    mkdirSync(scratch);
    const tree = await WorkTree.open({
      ...{ dir: this.root, untrusted: [], env: { PATH: process.env.PATH ?? "", HOME: this.dir } },
      ...{ scratch, now: Date.now, watch },
      exec: (request) => this.#children.exec({ uuid: "test", spillDir: join(this.dir, "spill") }, request),
    });
    if (!tree) throw new Error("There is no work tree.");
    this.#trees.push(tree);
    await tree.list();
  }

  path(name: string): string {
    return join(this.root, name);
  }

  write(name: string, text: string): void {
    const path = this.path(name);
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, text);
  }

  /** Compares both, and returns what differs from the index. */
  async same(o: { whole?: boolean } = {}): Promise<string[]> {
    const [watched, all] = await Promise.all(this.#trees.map((tree) => tree.list(o)));
    expect(shown(watched)).toEqual(shown(all));
    return [...(all?.files.keys() ?? [])].sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#trees.map((tree) => tree.close()));
    await this.#children.close();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

function shown(listing: Listing | null | undefined): unknown {
  return listing && [[...listing.files].sort(), [...listing.entries.keys()].sort(), listing.complete];
}

const CHANGES: Record<string, (both: Both) => void> = {
  "an edit in place": (both) => appendFileSync(both.path("one/c.txt"), "more"),
  "a rename over a file": (both) => {
    both.write("one/new", "new");
    renameSync(both.path("one/new"), both.path("one/c.txt"));
  },
  "a change of the mode": (both) => chmodSync(both.path("a.txt"), 0o755),
  "a time set back": (both) => {
    both.write("a.txt", "A.txt");
    utimesSync(both.path("a.txt"), 1e9, 1e9);
  },
  "a removed file": (both) => rmSync(both.path("one/two/e.txt")),
  "a removed folder": (both) => rmSync(both.path("one"), { recursive: true }),
  "a folder that is removed and comes back": (both) => {
    rmSync(both.path("one"), { recursive: true });
    both.write("one/c.txt", "again");
  },
  "a renamed folder": (both) => renameSync(both.path("one"), both.path("four")),
  "a folder that is moved in": (both) => {
    mkdirSync(join(both.dir, "outside/deep"), { recursive: true });
    writeFileSync(join(both.dir, "outside/deep/x.txt"), "x");
    renameSync(join(both.dir, "outside"), both.path("in"));
  },
  "a file in place of a folder": (both) => {
    rmSync(both.path("three"), { recursive: true });
    both.write("three", "file");
  },
  "a link in place of a file": (both) => {
    rmSync(both.path("b.txt"));
    symlinkSync("a.txt", both.path("b.txt"));
  },
  "new folders, one in the other": (both) => both.write("x/y/z/deep.txt", "deep"),
  "an ignored file and folder": (both) => {
    both.write("x.log", "x");
    both.write("built/y.txt", "y");
  },
  "new rules": (both) => {
    both.write("one/other.tmp", "x");
    both.write("one/.gitignore", "*.tmp\n");
  },
  "a file that is not UTF-8": (both) =>
    writeFileSync(Buffer.concat([Buffer.from(both.path("one/")), Buffer.of(0xff, 0x61)]), "odd"),
  "500 new files": (both) => {
    for (let i = 0; i < 500; i++) writeFileSync(both.path(`one/${i}.txt`), "new");
  },
  "more events than the system keeps": (both) => {
    for (let i = 0; i < 9000; i++) writeFileSync(both.path(`one/two/${i % 3000}.txt`), `${i}`);
    both.write("b.txt", "last");
  },
};

for (const [what, change] of Object.entries(CHANGES)) {
  test(`${what}, then an edit`, async () => {
    await using both = await Both.begin();
    change(both);
    const changed = await both.same();
    both.write("a.txt", "edited");
    both.write("new.txt", "new");
    expect(await both.same()).toEqual([...new Set([...changed, "a.txt", "new.txt"])].sort());
  });
}

test("a file that has another name in the project is compared each time, by one outside at last", async () => {
  await using both = await Both.begin();
  linkSync(both.path("a.txt"), both.path("one/other-name"));
  await both.same();
  appendFileSync(both.path("one/other-name"), "by the other name");
  expect(await both.same()).toContain("a.txt");
  linkSync(both.path("b.txt"), join(both.dir, "outside"));
  appendFileSync(join(both.dir, "outside"), "by the other name");
  expect(await both.same({ whole: true })).toContain("b.txt");
});

test("what is written into a mapping is found by the comparison of all files", async () => {
  await using both = await Both.begin();
  const mapping = Bun.mmap(both.path("a.txt"), { shared: true });
  await both.same({ whole: true });
  mapping[0] = "X".charCodeAt(0);
  expect(await both.same({ whole: true })).toContain("a.txt");
});

test("steps that only edit, add and remove files are seen by one watch", async () => {
  await using both = await Both.begin();
  for (let i = 0; i < 20; i++) {
    both.write(`one/new${i % 3}.txt`, `${i}`);
    both.write("a.txt", `${i}`);
    if (i % 4 === 0) rmSync(both.path(`one/new${i % 3}.txt`));
    await both.same();
  }
  expect(both.lost).toBe(1);
});

test("sequences of random changes", async () => {
  for (let seed = 1; seed <= 12; seed++) {
    const next = seeded(seed);
    const pick = (below: number): number => Math.floor(next() * below);
    const one = <T>(list: readonly T[]): T => list[pick(list.length)] as T;
    await using both = await Both.begin();
    const folders = ["", "one/", "one/two/", "three/", "new/", "built/"];
    const name = (): string => `${one(folders)}${one(["a.txt", "c.txt", "e.txt", "n.txt", "x.log"])}`;
    const acts = [
      () => both.write(name(), `${pick(1000)}`),
      () => both.write(name(), `${pick(1000)}`),
      () => rmSync(both.path(name()), { recursive: true }),
      () => renameSync(both.path(name()), both.path(name())),
      () => renameSync(both.path(one(folders)), both.path(`moved${pick(3)}`)),
      () => rmSync(both.path(one(folders.slice(1))), { recursive: true }),
      () => chmodSync(both.path(name()), one([0o644, 0o755, 0o600])),
      () => linkSync(both.path(name()), both.path(name())),
      () => symlinkSync(name(), both.path(name())),
      () => both.write(`${one(folders)}.gitignore`, one(["n.txt\n", "*.log\n", "!x.log\n", ""])),
    ];
    for (let step = 0; step < 25; step++) {
      for (let i = pick(4); i >= 0; i--) attempt(one(acts));
      await both.same({ whole: pick(8) === 0 });
    }
    expect(readdirSync(both.dir)).toContain("project");
  }
}, 60_000);

/** What can't be done in this state is left out. */
function attempt(act: () => void): void {
  try {
    act();
  } catch (error) {
    if (!(error instanceof Error && "errno" in error)) throw error;
  }
}
