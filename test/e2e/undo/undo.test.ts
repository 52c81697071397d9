import { describe, expect, test } from "bun:test";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { until } from "../../support/until.ts";
import { binary } from "../support/binary.ts";
import { ChatClient } from "../support/chat-client.ts";
import { textOf } from "../support/leftovers.ts";
import { Machine } from "../support/machine.ts";
import { bash, calls, type Scene, says } from "../support/scenes.ts";
import { verdict } from "../support/verdict.ts";

const Report = z.object({
  refused: z.int(),
  files: z.array(z.object({ path: z.string(), done: z.string(), reason: z.string().nullable() })),
  warnings: z.array(z.string()),
  notes: z.array(z.string()),
});
const Diff = z.object({
  source: z.string(),
  files: z.array(
    z.object({
      path: z.string(),
      status: z.string(),
      added: z.number().nullable(),
      removed: z.number().nullable(),
      steps: z.array(z.number()),
      undone: z.boolean(),
      problem: z.string().nullable(),
    }),
  ),
  steps: z.array(z.object({ step: z.number(), files: z.number(), added: z.number(), removed: z.number() })),
  patch: z.string().nullable(),
  notes: z.array(z.string()),
});

/** Plays one run, `go`, to its end. */
async function play(machine: Machine, ...scene: Scene[]): Promise<string> {
  await machine.play({ go: [...scene, says("done")] });
  return (await verdict(machine, ["go"])).receipt.uuid;
}

async function undo(machine: Machine, ...args: string[]) {
  const { stdout, stderr, code } = await machine.run(["undo", ...args, "--json"]);
  const report = Report.parse(JSON.parse(stdout));
  const done = Object.fromEntries(report.files.map((file) => [file.path, file.done]));
  const reasons = Object.fromEntries(report.files.map((file) => [file.path, file.reason]));
  return { code, stderr, done, reasons, ...report };
}

async function diff(machine: Machine, ...args: string[]): Promise<z.infer<typeof Diff>> {
  const { stdout, stderr } = await machine.run(["diff", ...args, "--json"]);
  try {
    return Diff.parse(JSON.parse(stdout));
  } catch {
    throw new Error(`${stdout}${stderr}`);
  }
}

const write = (path: string, content: string): Scene => calls(["Write", { path, content }]);

/** What changes a file within a tenth of a second of a run's call counts as the call's change, too. */
function apartFromCalls(machine: Machine, path: string): Promise<void> {
  const changed = statSync(join(machine.project, path)).mtimeMs;
  return until(() => Date.now() > changed + 250, `some time after the change of ${path}`);
}

/** Waits until the record of a run names this file as changed. */
function recorded(machine: Machine, path: string): Promise<void> {
  const steps = join(machine.project, ".rnix/data/steps");
  const changes = () => readdirSync(steps).map((uuid) => textOf(join(steps, uuid, "changes.jsonl")) ?? "");
  return until(() => changes().some((text) => text.includes(`"${path}"`)), `the change of ${path}`);
}

/** Everything that git keeps of the repository, beside the files themselves. */
function repositoryOf(machine: Machine): string[] {
  return [
    machine.git("status", "--short", "--untracked-files=all"),
    machine.git("log", "--all", "--oneline"),
    machine.git("for-each-ref"),
    machine.git("diff", "--cached"),
    machine.git("count-objects"),
    machine.git("fsck", "--full", "--unreachable"),
    machine.git("stash", "list"),
  ];
}

describe("in a git work tree", () => {
  test("Bash, Write and a person's own edits in one file each: all is seen, the person's is left alone", async () => {
    await using machine = new Machine({ git: true });
    const other = join(machine.elsewhere, "other");
    mkdirSync(other);
    machine.git("init", "-q", other);
    machine.git("-C", other, "commit", "-q", "--allow-empty", "-m", "x");
    machine.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other, "sub");
    for (const file of ["bash.txt", "write.txt", "mine.txt", "both.txt", "gone.txt"])
      machine.write(file, `${file}\nas it was\n`);
    machine.write(".gitignore", "*.log\n");
    machine.commit("all");
    machine.write("staged.txt", "staged\n");
    machine.git("add", "staged.txt");
    machine.write("untracked.txt", "untracked\n");
    machine.write("kept.log", "log\n");
    const index = machine.git("diff", "--cached");
    const before = repositoryOf(machine);
    const uuid = await play(
      machine,
      bash(
        "echo b >> bash.txt; echo b >> both.txt; echo b >> staged.txt; rm gone.txt; echo b > made.log; echo b > sub/b",
      ),
      async () => {
        // While the model thinks.
        await recorded(machine, "bash.txt");
        writeFileSync(join(machine.project, "mine.txt"), "mine\n");
        // Times of changes are compared with a tolerance of 25 ms.
        await Bun.sleep(100);
        return calls(
          ["Write", { path: "write.txt", content: "written\n" }],
          ["Edit", { path: "untracked.txt", old_string: "untracked", new_string: "edited" }],
          ["Write", { path: "kept.log", content: "written\n" }],
        );
      },
    );
    expect(machine.git("diff", "--cached")).toBe(index);

    const seen = await diff(machine, uuid);
    const shown = seen.files.map(({ path, status, added, removed, steps }) => [
      path,
      status,
      added,
      removed,
      steps,
    ]);
    expect(shown).toEqual([
      ["bash.txt", "modified", 1, 0, [1]],
      ["both.txt", "modified", 1, 0, [1]],
      ["gone.txt", "deleted", 0, 2, [1]],
      ["kept.log", "modified", 1, 1, [2]],
      ["staged.txt", "modified", 1, 0, [1]],
      ["untracked.txt", "modified", 1, 1, [2]],
      ["write.txt", "modified", 1, 2, [2]],
    ]);
    expect(seen.steps).toEqual([
      { step: 1, files: 4, added: 3, removed: 2 },
      { step: 2, files: 3, added: 3, removed: 4 },
    ]);
    expect(seen.source).toBe("git");

    machine.write("both.txt", "both.txt\nas it was\nb\nmine\n");
    const first = await undo(machine, uuid);
    expect(first).toMatchObject({ code: 1, refused: 1 });
    expect(first.done).toEqual({
      "bash.txt": "restored",
      "both.txt": "refused",
      "gone.txt": "recreated",
      "kept.log": "restored",
      "staged.txt": "restored",
      "untracked.txt": "restored",
      "write.txt": "restored",
    });
    expect(first.reasons["both.txt"]).toContain("changed since");
    expect(first.stderr).toContain("both.txt");
    expect(first.stderr).toContain("1 command of Bash");
    expect(machine.read("both.txt")).toContain("mine");
    expect(machine.read("mine.txt")).toBe("mine\n");
    expect(machine.read("kept.log")).toBe("log\n");
    // What a command did in ignored files and submodules is not undone.
    expect([machine.read("made.log"), machine.read("sub/b")]).toEqual(["b\n", "b\n"]);

    const forced = await undo(machine, uuid, "both.txt", "--force");
    expect(forced).toMatchObject({ code: 0, done: { "both.txt": "restored" } });
    rmSync(join(machine.project, "sub/b"));
    machine.write("mine.txt", "mine.txt\nas it was\n");
    expect(repositoryOf(machine)).toEqual(before);

    // A redo brings back what --force has overwritten, then what the undo before it took back.
    expect((await undo(machine, uuid, "--redo")).done).toEqual({ "both.txt": "restored" });
    expect(machine.read("both.txt")).toContain("mine");
    expect((await undo(machine, uuid, "--redo")).code).toBe(0);
    expect([machine.read("bash.txt"), machine.read("write.txt"), machine.has("gone.txt")]).toEqual([
      "bash.txt\nas it was\nb\n",
      "written\n",
      false,
    ]);
    expect((await undo(machine, uuid, "--redo")).files).toEqual([]);
  });

  test("a file that its user changes between two steps, after the run changed it, is left alone", async () => {
    await using machine = new Machine({ git: true });
    machine.write("a.txt", "a\n");
    machine.commit("all");
    const uuid = await play(machine, bash("echo run >> a.txt"), async () => {
      await recorded(machine, "a.txt");
      await apartFromCalls(machine, "a.txt");
      machine.write("a.txt", "a\nrun\nuser\n");
      await apartFromCalls(machine, "a.txt");
      return bash("echo made > made.txt");
    });
    expect((await diff(machine, uuid)).files.map(({ path, added }) => [path, added])).toEqual([
      ["a.txt", 1],
      ["made.txt", 1],
    ]);
    expect((await undo(machine, uuid)).done).toEqual({ "a.txt": "refused", "made.txt": "removed" });
    expect(machine.read("a.txt")).toBe("a\nrun\nuser\n");
  });

  test("--to-step, --step and --from-step; a patch that git apply takes", async () => {
    await using machine = new Machine({ git: true });
    machine.write("a.txt", "one\ntwo\nthree\n");
    machine.commit("all");
    const uuid = await play(
      machine,
      bash("sed -i s/one/1/ a.txt; mkdir -p new/deep; echo n > new/deep/n.txt; git mv README.md moved.md"),
      write("b.txt", "b\n"),
      bash("sed -i s/two/2/ a.txt; printf '\\000\\001' > new/bin; rm b.txt"),
    );
    const paths = async (...args: string[]) =>
      (await diff(machine, uuid, ...args)).files.map(({ path }) => path);
    expect(await paths()).toEqual(["README.md", "a.txt", "moved.md", "new/bin", "new/deep/n.txt"]);
    expect(await paths("--step", "1")).toEqual(["README.md", "a.txt", "moved.md", "new/deep/n.txt"]);
    expect(await paths("--step", "2")).toEqual(["b.txt"]);
    expect(await paths("--from-step", "2")).toEqual(["a.txt", "new/bin"]);
    expect(await paths("new")).toEqual(["new/bin", "new/deep/n.txt"]);

    const patch = (await machine.run(["diff", uuid])).stdout;
    expect(patch).toContain("rename from README.md");
    const applied = Bun.spawnSync(["git", "apply", "-R"], {
      cwd: machine.project,
      stdin: Buffer.from(patch),
    });
    expect(applied.stderr.toString()).toBe("");
    expect([machine.read("a.txt"), machine.has("new"), machine.has("README.md")]).toEqual([
      "one\ntwo\nthree\n",
      false,
      true,
    ]);
    Bun.spawnSync(["git", "apply"], { cwd: machine.project, stdin: Buffer.from(patch) });

    const beyond = await machine.run(["undo", uuid, "--to-step", "99"]);
    expect(beyond).toMatchObject({
      code: 64,
      stderr: expect.stringContaining("no step 99: it has 4 so far"),
    });
    expect((await undo(machine, uuid, "--to-step", "1", "--dry-run")).done).toEqual({
      "a.txt": "restored",
      "new/bin": "removed",
    });
    expect(machine.has("new/bin")).toBe(true);
    expect((await undo(machine, uuid, "--to-step", "1")).code).toBe(0);
    expect(machine.read("a.txt")).toBe("1\ntwo\nthree\n");
    expect(machine.has("new/deep/n.txt")).toBe(true);
    expect((await undo(machine, uuid)).code).toBe(0);
    // Folders that the run has made are gone with their last file.
    expect([machine.read("a.txt"), machine.has("new"), machine.has("README.md")]).toEqual([
      "one\ntwo\nthree\n",
      false,
      true,
    ]);
    const nothing = await machine.run(["diff", uuid]);
    expect([nothing.stdout, nothing.code]).toEqual(["", 0]);
  });

  test("links, modes, binary files, names, other encodings, and a folder in place of a file", async () => {
    await using machine = new Machine({ git: true });
    machine.write("text", "t\n");
    machine.write("tool.sh", "#!/bin/sh\n");
    machine.write("latin", "");
    writeFileSync(join(machine.project, "latin"), Buffer.from([0x61, 0xe9, 0x0a]));
    machine.write("näme mit\ttab", "x\n");
    symlinkSync("text", join(machine.project, "link"));
    machine.write("private", "p\n");
    machine.commit("all");
    chmodSync(join(machine.project, "private"), 0o600);
    const uuid = await play(
      machine,
      bash(
        [
          "ln -sf elsewhere link",
          "chmod +x tool.sh",
          "printf '\\351\\n' > latin",
          "rm text; mkdir text; echo in > text/in",
          "printf 'y\\n' > 'näme mit\ttab'",
          "echo q > private",
          "printf '\\000\\377' > bin",
        ].join("; "),
      ),
    );
    expect((await diff(machine, uuid)).files.map(({ path, status, added }) => [path, status, added])).toEqual(
      [
        ["bin", "added", null],
        ["latin", "modified", 1],
        ["link", "modified", 1],
        ["näme mit\ttab", "modified", 1],
        ["private", "modified", 1],
        ["text", "deleted", 0],
        ["text/in", "added", 1],
        ["tool.sh", "mode", 0],
      ],
    );
    const patch = (await machine.run(["diff", uuid])).stdout;
    const check = Bun.spawnSync(["git", "apply", "-R", "--check"], {
      cwd: machine.project,
      stdin: Buffer.from(patch),
    });
    expect(check.stderr.toString()).toBe("");
    const { code, reasons } = await undo(machine, uuid);
    expect([code, reasons]).toEqual([
      0,
      Object.fromEntries(Object.keys(reasons).map((path) => [path, null])),
    ]);
    expect(readlinkSync(join(machine.project, "link"))).toBe("text");
    expect(lstatSync(join(machine.project, "tool.sh")).mode & 0o111).toBe(0);
    expect(lstatSync(join(machine.project, "private")).mode & 0o777).toBe(0o600);
    expect([...readFileSync(join(machine.project, "latin"))]).toEqual([0x61, 0xe9, 0x0a]);
    expect([machine.read("text"), machine.has("bin")]).toEqual(["t\n", false]);
    expect(machine.git("status", "--short")).toBe("");
    expect((await undo(machine, uuid, "--redo")).refused).toBe(0);
    expect([machine.read("text/in"), readlinkSync(join(machine.project, "link"))]).toEqual([
      "in\n",
      "elsewhere",
    ]);
  });

  test("bytes come back as they were in the work tree, whatever git converts", async () => {
    await using machine = new Machine({ git: true });
    machine.git("config", "filter.pointer.clean", "sed s/^/pointer-/");
    machine.git("config", "filter.pointer.smudge", "sed s/^pointer-//");
    machine.write(".gitattributes", "*.crlf text eol=crlf\n*.large filter=pointer\n*.id ident\n");
    machine.write("a.crlf", "one\r\ntwo\r\n");
    machine.write("a.large", "large\n");
    machine.write("a.id", "$Id$\n");
    machine.commit("all");
    rmSync(join(machine.project, "a.id"));
    machine.git("checkout", "a.id");
    const files = ["a.crlf", "a.large", "a.id"];
    const before = files.map((file) => machine.read(file));
    expect(before[2]).toContain("$Id: ");
    const uuid = await play(machine, bash("for f in a.*; do echo more >> $f; done"));
    expect(
      (await diff(machine, uuid)).files.map(({ path, added, removed }) => [path, added, removed]),
    ).toEqual([
      ["a.crlf", 1, 0],
      ["a.id", 1, 0],
      ["a.large", 1, 0],
    ]);
    expect((await undo(machine, uuid)).code).toBe(0);
    expect(files.map((file) => machine.read(file))).toEqual(before);
  });

  test("a repository without a commit, in which the run removes everything", async () => {
    await using machine = new Machine();
    machine.git("init", "--quiet");
    const names = Array.from({ length: 100 }, (_, i) => `src/d${i % 10}/f${i}.txt`);
    for (const name of names) machine.write(name, `${name}\n`);
    symlinkSync("d1/f1.txt", join(machine.project, "src/link"));
    const uuid = await play(
      machine,
      bash("rm src/d1/f1.txt; echo x >> src/d2/f2.txt"),
      bash("rm -rf src; echo n > new"),
    );
    const seen = await diff(machine, uuid, "--step", "1");
    expect(seen.files.map(({ path, added, removed }) => [path, added, removed])).toEqual([
      ["src/d1/f1.txt", 0, 1],
      ["src/d2/f2.txt", 1, 0],
    ]);
    expect((await diff(machine, uuid)).files.length).toBe(102);
    expect((await undo(machine, uuid)).code).toBe(0);
    expect(names.map((name) => machine.read(name))).toEqual(names.map((name) => `${name}\n`));
    expect([readlinkSync(join(machine.project, "src/link")), machine.has("new")]).toEqual([
      "d1/f1.txt",
      false,
    ]);
    expect(machine.git("count-objects")).toStartWith("0 objects");
  });

  test("a file above undo_file_size is named and left alone", async () => {
    await using machine = new Machine({ git: true });
    machine.config({ undo_file_size: "2KiB" });
    machine.write("large", "x".repeat(3000));
    machine.write("small", "x");
    const uuid = await play(machine, bash("echo y >> large; echo y >> small"));
    const found = (await diff(machine, uuid)).files.map(({ path, problem }) => [
      path,
      problem?.includes("2KiB") ?? false,
    ]);
    expect(found).toEqual([
      ["large", true],
      ["small", false],
    ]);
    const { code, done, reasons } = await undo(machine, uuid);
    expect([code, done]).toEqual([1, { large: "refused", small: "restored" }]);
    expect(reasons.large).toContain("undo_file_size");
  });

  test("what the command prints into a file beside it is no change of the run", async () => {
    await using machine = await Machine.playing(
      { go: [bash("sleep 0.3; echo b > made.txt; sleep 0.3"), says("done")] },
      { git: true },
    );
    const line = '"$0" spawn go > answer.txt 2> progress.txt';
    const done = Bun.spawn(["sh", "-c", line, binary()], { cwd: machine.project, env: machine.env });
    expect(await done.exited).toBe(0);
    expect(machine.read("answer.txt")).toBe("done\n");
    const { stdout } = await machine.run(["show", "1", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({ files_changed: ["made.txt"], files_changed_complete: true });
    expect((await diff(machine, "1")).files.map(({ path }) => path)).toEqual(["made.txt"]);
  });

  test("children count, and a project below the root of the work tree", async () => {
    await using machine = new Machine({ git: true });
    machine.write("packages/one/.rnix/config.yaml", "");
    machine.write("packages/one/a.txt", "a\n");
    machine.write("packages/two/b.txt", "b\n");
    machine.commit("all");
    await machine.play({
      go: [calls(["Agent", { intent: "child" }]), says("done")],
      child: [bash("echo c >> a.txt; echo c > c.txt; echo c >> ../two/b.txt"), says("made")],
    });
    const cwd = join(machine.project, "packages/one");
    await machine.ok(["spawn", "go"], { cwd });
    const { stdout } = await machine.run(["diff", "1", "--json"], { cwd });
    expect(Diff.parse(JSON.parse(stdout)).files.map(({ path }) => path)).toEqual(["a.txt", "c.txt"]);
    await machine.ok(["undo", "1"], { cwd });
    expect(machine.git("status", "--short")).toBe(" M packages/two/b.txt\n");
    // The child's own list agrees: it was taken back already.
    const child = await machine.run(["undo", "2", "--json"], { cwd });
    expect(Report.parse(JSON.parse(child.stdout)).files.map(({ done }) => done)).toEqual([
      "unchanged",
      "unchanged",
    ]);
  });
});

test("what happens beside commands that only read is found after all", async () => {
  await using machine = new Machine({ git: true });
  machine.write("a.txt", "a\n");
  machine.write("cat", "#!/bin/sh\necho more >> b.txt\n");
  chmodSync(join(machine.project, "cat"), 0o755);
  machine.write("b.txt", "b\n");
  machine.commit("all");
  const reader = { PATH: `${machine.project}:${machine.env.PATH}` };
  await machine.play({ go: [bash("cat a.txt; wc -l a.txt"), says("done")] });
  const { code } = await machine.run(["spawn", "go", "--no-daemon"], { env: reader });
  expect([code, machine.read("b.txt")]).toEqual([0, "b\nmore\n"]);
  expect((await undo(machine)).done).toEqual({ "b.txt": "restored" });
});

describe("outside git", () => {
  test("what Write and Edit changed is taken back, and the rest is said", async () => {
    await using machine = new Machine();
    machine.write("a.txt", "a\n");
    machine.write("b.txt", "b\n");
    const uuid = await play(
      machine,
      calls(
        ["Edit", { path: "a.txt", old_string: "a", new_string: "A" }],
        ["Write", { path: "new/n.txt", content: "n\n" }],
      ),
      bash("echo more >> b.txt"),
      write("a.txt", "again\n"),
    );
    const seen = await diff(machine, uuid);
    expect([seen.source, seen.files.map(({ path, steps }) => [path, steps])]).toEqual([
      "writes",
      [
        ["a.txt", [1, 3]],
        ["new/n.txt", [1]],
      ],
    ]);
    expect(seen.notes.join()).toContain("in no git work tree");
    expect(seen.patch).toContain("+again");
    const { code, stderr, done } = await undo(machine, uuid);
    expect([code, done]).toEqual([0, { "a.txt": "restored", "new/n.txt": "removed" }]);
    expect(stderr).toContain("in no git work tree");
    expect([machine.read("a.txt"), machine.has("new"), machine.read("b.txt")]).toEqual([
      "a\n",
      false,
      "b\nmore\n",
    ]);
  });

  test("without git on the machine there are names, and undo, but no patch", async () => {
    await using machine = new Machine();
    const bin = join(machine.elsewhere, "bin");
    mkdirSync(bin);
    for (const program of ["sh", "bash", "env", "cat"]) {
      const found = Bun.which(program);
      if (found) symlinkSync(found, join(bin, program));
    }
    machine.env.PATH = bin;
    machine.write("a.txt", "a\n");
    const uuid = await play(machine, write("a.txt", "b\n"));
    const seen = await diff(machine, uuid);
    expect([seen.patch, seen.files[0]?.added]).toEqual([null, null]);
    expect(seen.notes.join()).toContain("git is not installed");
    expect((await undo(machine, uuid)).done).toEqual({ "a.txt": "restored" });
    expect(machine.read("a.txt")).toBe("a\n");
  });
});

describe("a run that goes on", () => {
  test("a live run is refused while it works, and undone while it is paused or waits; its model is notified", async () => {
    await using machine = new Machine({ git: true });
    const model = await machine.play({
      go: [bash("echo b > a.txt"), bash("touch busy; sleep 2"), says("one"), says("two"), says("three")],
    });
    await machine.ok(["spawn", "go", "--detach"]);
    await until(() => machine.has("busy"), "the call");
    const busy = await machine.run(["undo", "1"]);
    expect([busy.code, busy.stderr]).toEqual([64, expect.stringContaining("at work")]);
    expect((await machine.run(["diff", "1", "--json"])).stdout).toContain('"a.txt"');
    await machine.ok(["wait", "1"]);
    expect((await undo(machine, "1")).done).toEqual({ "a.txt": "removed", busy: "removed" });
    await machine.ok(["resume", "1", "and now"]);
    const asked = JSON.stringify(model.last.body);
    expect(asked).toContain("The user has taken back changes of this run: a.txt, busy.");
    await machine.ok(["resume", "1", "and then"]);
    expect(JSON.stringify(model.last.body).split("taken back changes").length).toBe(2);
  });

  test("a chat that waits: the undo is its model's news with the next message, and no turn by itself", async () => {
    await using machine = new Machine({ git: true });
    const model = await machine.model((request) =>
      request.assistantMessages === 0 ? bash("echo b > a.txt") : says("ok"),
    );
    await machine.ok(["daemon", "start"]);
    using client = new ChatClient(machine);
    const { uuid } = await client.follow("spawn", { intent: "go", chat: true });
    await client.waits(1);
    const { requests } = model;
    const before = requests.length;
    expect((await diff(machine, uuid)).files.map(({ path }) => path)).toEqual(["a.txt"]);
    expect((await undo(machine, uuid)).done).toEqual({ "a.txt": "removed" });
    expect(requests.length).toBe(before);
    await client.ask("send_message", { uuid, text: "and now" });
    await client.waits(2);
    expect(JSON.stringify(requests.at(-1)?.body)).toContain(
      "The user has taken back changes of this run: a.txt.",
    );
    const seen = await diff(machine, uuid);
    expect([seen.files.map(({ undone }) => undone), seen.notes]).toEqual([[true], []]);
    await client.ask("end_chat", { uuid });
    await client.has(({ type }) => type === "complete", "complete");
  });

  test("after a kill -9 the steps before are known, and the cut-off one is named", async () => {
    await using machine = await Machine.playing(
      {
        go: [bash("echo 1 > one.txt"), bash("echo 2 > two.txt; touch held; sleep 600"), says("done")],
      },
      { git: true },
    );
    const run = machine.start(["spawn", "go"]);
    await machine.held();
    machine.killDaemon();
    await run.done;
    const seen = await diff(machine, "1");
    expect(seen.files.map(({ path }) => path)).toEqual(["one.txt"]);
    expect(seen.notes.join()).toContain("ended by a crash");
    expect((await undo(machine, "1")).done).toEqual({ "one.txt": "removed" });
    expect(machine.has("two.txt")).toBe(true);
  });

  test("from inside a run, undo is refused and diff shows only its own", async () => {
    await using machine = new Machine({ git: true });
    const exe = binary();
    await machine.play({
      first: [write("a.txt", "a\n"), says("done")],
      inside: [bash(`${exe} undo 1; echo "exit $?"; ${exe} diff 1; echo "exit $?"`), says("done")],
    });
    await verdict(machine, ["first"]);
    await verdict(machine, ["inside"]);
    const { stdout } = await machine.run(["log", "2"]);
    expect(stdout).toContain("refused inside a run");
    expect(stdout.match(/exit [1-9]/g)?.length).toBe(2);
    expect(machine.read("a.txt")).toBe("a\n");
  });
});

test("kill -9 in the middle of an undo leaves whole files, and the next undo continues", async () => {
  await using machine = new Machine({ git: true });
  const names = Array.from({ length: 300 }, (_, i) => `files/f${i}.txt`);
  const old = "old line\n".repeat(2000);
  for (const name of names) machine.write(name, old);
  machine.commit("all");
  const uuid = await play(machine, bash("for f in files/*; do echo changed > $f; done"));
  const undoing = machine.start(["undo", uuid]);
  await until(() => names.some((name) => machine.read(name) === old), "a restored file");
  machine.killDaemon();
  expect((await undoing.done).code).not.toBe(0);
  const texts = names.map((name) => machine.read(name));
  expect(texts.every((text) => text === old || text === "changed\n")).toBe(true);
  const left = texts.filter((text) => text !== old).length;
  expect(left).toBeGreaterThan(0);
  const { code, files } = await undo(machine, uuid);
  expect([code, files.length]).toEqual([0, left]);
  expect(machine.git("status", "--short")).toBe("");
  // Both parts are redone, one after the other.
  expect((await undo(machine, uuid, "--redo")).files.length).toBe(left);
  expect((await undo(machine, uuid, "--redo")).files.length).toBe(names.length - left);
  expect(names.every((name) => machine.read(name) === "changed\n")).toBe(true);
});
