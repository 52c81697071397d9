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
import { join } from "node:path";
import { ChangeTracker } from "../../src/kernel/files/change-tracker.ts";
import { FileStates } from "../../src/kernel/files/file-states.ts";
import { WorkTree } from "../../src/kernel/files/git-work-tree.ts";
import { Children } from "../../src/os/children.ts";
import { FolderWatch } from "../../src/os/folder-watch.ts";
import { ObjectStore } from "../../src/store/changes/object-store.ts";
import type { Figure } from "../figure.ts";
import { median } from "../measure.ts";

const FOLDERS = 200;
const FILES = 50;
const TEXT = "export const value = 1;\n".repeat(40);
const ENV = { PATH: process.env.PATH ?? "/usr/bin:/bin", HOME: "/nowhere" };

/** What the snapshots of a run cost in a git work tree of 10,000 files, beside `git status`. */
export async function snapshots(rounds: number): Promise<Figure[]> {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), "rnix-bench-snapshots-")));
  const children = new Children({
    ...{ ledgerDir: join(dir, "children"), kernelId: "bench", graceMs: 1_000 },
    ...{ memoryBytes: 65_536, diskBytes: 1 << 24 },
  });
  try {
    const project = await makeWorkTree(join(dir, "project"));
    const taken = { first: [], nothing: [], one: [], status: [], pause: [], besideGit: [] } as Record<
      string,
      number[]
    >;
    for (let round = -1; round < rounds; round++) {
      const record = join(dir, `record-${round}`);
      mkdirSync(record);
      const pauses = new Pauses();
      const [first, tracker] = await timed(() => begin(project, record, children));
      const [nothing] = await timed(() => tracker.next(1, {}));
      appendFileSync(join(project, "src/d1/f1.ts"), "// changed\n");
      const [one] = await timed(() => tracker.next(2, {}));
      await tracker.end({});
      const pause = pauses.end();
      const besides = new Pauses();
      const [status] = await timed(() => git(project, "status", "--short"));
      const besideGit = besides.end();
      if (round < 0) continue;
      for (const [name, ms] of Object.entries({ first, nothing, one, status, pause, besideGit }))
        taken[name]?.push(ms);
    }
    const of = (name: string): number => median(taken[name] ?? []);
    const floor = { name: "git status", value: of("status") };
    return [
      { what: "first snapshot of a run, 10,000 files", value: of("first"), unit: "ms", floor },
      { what: "snapshot of a step that changed nothing", value: of("nothing"), unit: "ms", goal: 20 },
      { what: "snapshot of a step that changed one file", value: of("one"), unit: "ms", goal: 20 },
      { what: "the same, beside git", value: of("nothing"), unit: "ms", floor },
      {
        what: "longest pause of the thread in a run of two such steps",
        value: of("pause"),
        unit: "ms",
        floor: { name: "during git status", value: of("besideGit") },
      },
    ];
  } finally {
    await children.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

async function begin(project: string, record: string, children: Children): Promise<ChangeTracker> {
  const store = new ObjectStore({ dir: record, maxBytes: 1 << 28 });
  const tree = await WorkTree.open({
    ...{
      dir: project,
      untrusted: [project],
      env: ENV,
      scratch: record,
      watch: () => FolderWatch.open(),
      now: Date.now,
    },
    exec: (request) => children.exec({ uuid: "bench", spillDir: join(record, "spill") }, request),
  });
  const states = new FileStates({ put: (content) => store.put(content), most: 1 << 24, format: "sha1" });
  return ChangeTracker.begin(
    {
      kept: { objects: store.objects, maxBytes: 1 << 28 },
      ...{ dir: project, tree, states, record: () => undefined, now: Date.now },
      ...{
        isOwn: () => true,
        isOutput: () => false,
        mayHide: () => false,
        comparable: async () => true,
        warn: () => undefined,
      },
    },
    0,
    {},
  );
}

/** Older than its index, as in a repository that is worked in. */
async function makeWorkTree(dir: string): Promise<string> {
  const old = Date.now() / 1000 - 60;
  for (let d = 0; d < FOLDERS; d++) {
    mkdirSync(join(dir, `src/d${d}`), { recursive: true });
    for (let f = 0; f < FILES; f++) {
      const file = join(dir, `src/d${d}/f${f}.ts`);
      writeFileSync(file, `${TEXT}${d}.${f}\n`);
      utimesSync(file, old, old);
    }
  }
  await git(dir, "init", "--quiet");
  await git(dir, "add", "--all");
  await git(
    dir,
    "-c",
    "user.name=bench",
    "-c",
    "user.email=bench@localhost",
    "commit",
    "--quiet",
    "-m",
    "all",
  );
  return dir;
}

async function git(cwd: string, ...args: string[]): Promise<void> {
  const code = await Bun.spawn(["git", ...args], { cwd, env: ENV, stdout: "ignore" }).exited;
  if (code !== 0) throw new Error(`git ${args.join(" ")} ended with ${code}`);
}

async function timed<T>(work: () => Promise<T>): Promise<[ms: number, result: T]> {
  const start = performance.now();
  const result = await work();
  return [performance.now() - start, result];
}

/** How late a timer of one ms fires at most. */
class Pauses {
  #longest = 0;
  #last = performance.now();
  readonly #timer = setInterval(() => {
    const now = performance.now();
    this.#longest = Math.max(this.#longest, now - this.#last - 1);
    this.#last = now;
  }, 1);

  end(): number {
    clearInterval(this.#timer);
    return this.#longest;
  }
}
