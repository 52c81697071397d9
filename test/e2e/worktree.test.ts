import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, statSync, symlinkSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { installed } from "../support/installed.ts";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import { firstUserMessage, toolResults } from "./support/requests.ts";
import { bash, calls, type Scene, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

const UUID = /with run ([0-9a-f-]{36})/;
const inWorktree = (intent: string) => calls(["Agent", { intent, worktree: true }]);
const takes: Scene = (request) => calls(["TakeDiff", { run: UUID.exec(toolResults(request)[0] ?? "")?.[1] }]);
const load = calls(["ToolSearch", { query: "select:TakeDiff" }]);

/** A repository with a commit, and a change that is not committed. */
function project(): Machine {
  const machine = new Machine({ git: true });
  machine.write("a.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n");
  machine.write("gone.txt", "gone\n");
  machine.write(".gitignore", "*.log\n");
  machine.commit("all");
  machine.write("dirty.txt", "not committed\n");
  machine.write("private.log", "ignored\n");
  return machine;
}

function left(machine: Machine): string[] {
  const dirs = ["worktrees", "worktree-origins"].map((name) => join(machine.dataDir, name));
  return dirs.flatMap((dir) => (existsSync(dir) ? readdirSync(dir) : []));
}

test("a child in a worktree changes nothing here until its parent takes it, and leaves no trace in git", async () => {
  await using machine = project();
  const before = machine.git("for-each-ref") + machine.git("worktree", "list");
  const model = await machine.play({
    parent: [inWorktree("child"), bash("cat a.txt; ls"), load, takes, says("done")],
    child: [
      bash("git status --short; git log --oneline; ls; cat dirty.txt"),
      calls(
        ["Edit", { path: "a.txt", old_string: "one", new_string: "ONE" }],
        ["Write", { path: "new/b.txt", content: "b\n" }],
      ),
      bash("rm gone.txt; git commit -qam mine; printf '\\0\\1' > binary"),
      says("changed"),
    ],
  });
  const { receipt } = await verdict(machine, ["parent"]);
  expect(receipt.exit_code).toBe(0);
  const parent = model.requests.findLast((request) => firstUserMessage(request) === "parent");
  const child = model.requests.findLast((request) => firstUserMessage(request) === "child");
  const [seen] = child ? toolResults(child) : [];
  expect(seen).toContain("A  dirty.txt");
  expect(seen).toContain("not committed");
  expect(seen).not.toContain("private.log");
  const [answer, here, , taken] = parent ? toolResults(parent) : [];
  expect(answer).toContain("-one\n+ONE");
  expect(here).toContain("one");
  expect(here).toContain("gone.txt");
  expect(here).not.toContain("binary");
  for (const path of ["a.txt", "binary", "gone.txt", "new/b.txt"]) expect(taken).toContain(`taken: ${path}`);
  expect(machine.read("a.txt")).toStartWith("ONE\n");
  expect(machine.has("gone.txt")).toBe(false);
  expect(receipt.files_changed).toEqual(["a.txt", "binary", "gone.txt", "new/b.txt"]);
  expect(machine.git("for-each-ref") + machine.git("worktree", "list")).toBe(before);
  expect(left(machine)).toEqual([]);
}, 60_000);

test("two children change one file: apart they are merged, at the same line the second is a conflict", async () => {
  await using machine = project();
  const edit = (old: string, to: string): Scene[] => [
    calls(["Edit", { path: "a.txt", old_string: old, new_string: to }]),
    says("ok"),
  ];
  await machine.play({
    parent: [
      calls(
        ...["first", "apart", "same"].map((intent): [string, Record<string, unknown>] => [
          "Agent",
          { intent, worktree: true },
        ]),
      ),
      says("done"),
    ],
    first: edit("one", "FIRST"),
    apart: edit("eight", "APART"),
    same: edit("one", "SAME"),
  });
  const { receipt } = await verdict(machine, ["parent"]);
  const [first, apart, same] = receipt.children.map(({ uuid }) => uuid);
  expect(machine.read("a.txt")).toStartWith("one");
  expect((await machine.ok(["take", first ?? "", "--dry-run"])).stdout).toBe("taken: a.txt\n");
  expect(machine.read("a.txt")).toStartWith("one");
  await machine.ok(["take", first ?? ""]);
  await machine.ok(["take", apart ?? "", "a.txt"]);
  expect((await machine.ok(["take", first ?? ""])).stdout).toBe("unchanged: a.txt\n");
  const conflict = await machine.run(["take", same ?? ""]);
  expect(conflict.code).toBe(1);
  expect(conflict.stdout).toContain("conflict: a.txt");
  expect(machine.read("a.txt")).toBe("FIRST\ntwo\nthree\nfour\nfive\nsix\nseven\nAPART\n");
}, 60_000);

test("a killed daemon loses nothing: the child goes on in its worktree, and no worktree is left", async () => {
  await using machine = project();
  await machine.play({
    parent: [inWorktree("child"), says("done")],
    child: [
      bash("echo before > kept.txt"),
      bash("touch waits; while [ -e waits ]; do sleep 0.1; done"),
      bash("echo after >> kept.txt"),
      says("ok"),
    ],
  });
  await machine.ok(["daemon", "start"]);
  const run = machine.start(["spawn", "parent", "--detach"]);
  await run.done;
  const trees = join(machine.dataDir, "worktrees");
  const tree = () => (existsSync(trees) ? readdirSync(trees)[0] : undefined);
  await until(() => existsSync(join(trees, tree() ?? "none", "waits")), "the child's command");
  machine.killDaemon();
  const uuid = tree() ?? "";
  await until(async () => (await machine.run(["ps", "-a", "--json"])).stdout.includes(uuid), "the record");
  Bun.spawnSync(["rm", join(trees, uuid, "waits")]);
  const [{ uuid: parent }] = (await machine.json(["ps", "-a", "--json"])).filter(
    ({ intent }: { intent: string }) => intent === "parent",
  );
  const resumed = await machine.run(["resume", parent]);
  expect(resumed.stderr + resumed.stdout).toContain("done");
  expect(left(machine)).toEqual([]);
  await machine.ok(["take", uuid]);
  expect(machine.read("kept.txt")).toBe("before\nafter\n");
}, 60_000);

test("a run in a worktree may write only there, by tools and by programs in a sandbox", async () => {
  await using machine = project();
  const there = installed("bwrap");
  const outside = join(machine.project, "outside.txt");
  const model = await machine.play({
    parent: [inWorktree("child"), takes, says("done")],
    child: [
      calls(["Write", { path: outside, content: "x" }]),
      ...(there ? [bash(`echo x > ${outside}; echo y > inside.txt`)] : []),
      says("ok"),
    ],
  });
  await verdict(machine, ["parent", ...(there ? ["--sandbox", "required"] : [])]);
  const child = model.requests.findLast((request) => firstUserMessage(request) === "child");
  expect(child && toolResults(child)[0]).toContain("outside");
  expect(machine.has("outside.txt")).toBe(false);
  expect(machine.has("inside.txt")).toBe(there);
}, 60_000);

test("without a git repository the call fails and says why", async () => {
  await using machine = new Machine();
  const model = await machine.play({ parent: [inWorktree("child"), says("done")] });
  await verdict(machine, ["parent"]);
  expect(toolResults(model.last)[0]).toContain("needs a git repository");
  expect(left(machine)).toEqual([]);
});

test("odd names, modes, links, a nested worktree, a child from the shell, and an undo", async () => {
  await using machine = new Machine({ git: true });
  machine.write("odd [x]*.txt", "1\n");
  machine.write("plain x.txt", "1\n");
  machine.write("run.sh", "#!/bin/sh\n");
  machine.write("sub/inner.txt", "in\n");
  symlinkSync("run.sh", join(machine.project, "link"));
  machine.commit("all");
  const model = await machine.play({
    parent: [
      calls(["Agent", { intent: "child", worktree: true }]),
      (request) =>
        calls([
          "TakeDiff",
          { run: UUID.exec(toolResults(request)[0] ?? "")?.[1], files: ["odd [x]*.txt", "run.sh", "link"] },
        ]),
      says("done"),
    ],
    child: [
      bash(
        "echo 2 > 'odd [x]*.txt'; echo 2 > 'plain x.txt'; chmod +x run.sh; ln -sf sub/inner.txt link; rnix spawn --allow '*' sibling >/dev/null 2>&1; pwd; echo $?",
      ),
      calls(["Agent", { intent: "nested", worktree: true }]),
      (request) => calls(["TakeDiff", { run: UUID.exec(toolResults(request)[1] ?? "")?.[1] }]),
      bash("cat deep.txt; rnix ps"),
      says("changed"),
    ],
    nested: [bash("cat 'plain x.txt'; echo deep > deep.txt"), says("nested done")],
    sibling: [bash("pwd; echo s > sibling.txt"), says("sib")],
  });
  const { receipt } = await verdict(machine, ["parent"]);
  const last = (intent: string) => {
    const found = model.requests.findLast((request) => firstUserMessage(request).startsWith(intent));
    return found ? toolResults(found) : [];
  };
  expect(last("parent")[1]).toContain("taken: odd [x]*.txt");
  expect(machine.read("odd [x]*.txt")).toBe("2\n");
  expect(machine.read("plain x.txt")).toBe("1\n");
  expect(statSync(join(machine.project, "run.sh")).mode & 0o111).not.toBe(0);
  const child = receipt.children[0]?.uuid ?? "";
  await machine.ok(["take", child]);
  expect(last("child")[2]).toBe("taken: deep.txt");
  expect(machine.read("sibling.txt")).toBe("s\n");
  expect(machine.read("deep.txt")).toBe("deep\n");
  await machine.ok(["undo", receipt.uuid]);
  expect(machine.read("odd [x]*.txt")).toBe("1\n");
  expect(left(machine)).toEqual([]);
}, 60_000);

test.each(["workflow", "graph"])(
  "agents of a %s work in worktrees, and leave their changes to take",
  async (how) => {
    await using machine = project();
    await machine.play({
      one: [bash("echo 1 > x.txt"), says("1")],
      two: [bash("echo 2 > x.txt"), says("2")],
    });
    const agents = ["one", "two"].map((name) => `() => agent("${name}", {worktree: true})`);
    machine.write(
      "run.js",
      `export const meta = {name: "w", description: "d"};\nreturn await parallel([${agents.join()}]);\n`,
    );
    machine.write(
      "graph.yaml",
      "nodes: {a: {prompt: one, worktree: true}, b: {prompt: two, worktree: true, needs: {a: completed}}}\n",
    );
    await machine.ok(
      how === "graph" ? ["compose", "up", "-f", "graph.yaml"] : ["workflow", "run", "./run.js"],
    );
    expect(machine.has("x.txt")).toBe(false);
    const runs: { intent: string; uuid: string }[] = await machine.json(["ps", "-a", "--json"]);
    await machine.ok(["take", runs.find(({ intent }) => intent === "two")?.uuid ?? ""]);
    expect(machine.read("x.txt")).toBe("2\n");
    expect(left(machine)).toEqual([]);
  },
  60_000,
);

test("what a killed daemon left without a record is removed by the next one", async () => {
  await using machine = project();
  const dir = join(machine.dataDir, "worktrees", "01a20949-0000-7000-8000-000000000000");
  mkdirSync(join(dir, "some"), { recursive: true });
  mkdirSync(join(machine.dataDir, "worktree-origins"));
  utimesSync(dir, 1, 1);
  await machine.ok(["daemon", "start"]);
  await until(() => left(machine).length === 0, "the end of the worktree");
});
