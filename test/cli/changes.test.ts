import { describe, expect, test } from "bun:test";
import { runCommandLine } from "../../src/cli/cli.ts";
import { patchText, problemsText, refusedText, statText, undoText } from "../../src/cli/output/changes.ts";
import { styleOf } from "../../src/cli/output/style.ts";
import { runAndFiles } from "../../src/cli/processes/target.ts";
import type { FileChange, RunDiff, UndoReport } from "../../src/protocol/methods.ts";
import { FakeIo } from "./support.ts";

const io = new FakeIo();
const plain = styleOf({ env: {} }, io.stdout);
const coloured = styleOf({ env: {} }, { ...io.stdout, isTTY: true });

const PATCH = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same\n";

const file = (more: Partial<FileChange>): FileChange => ({
  ...{ path: "a.ts", status: "modified", added: 2, removed: 1, steps: [1], undone: false, problem: null },
  ...more,
});
const diff = (files: FileChange[], more: Partial<RunDiff> = {}): RunDiff => ({
  ...{ pid: 1, uuid: "u", source: "git", project: "/p", files, steps: [], patch: null, notes: [] },
  ...more,
});

describe("rnix diff", () => {
  test("prints the patch as it is, and with colours on a terminal", () => {
    expect(patchText(PATCH, plain)).toBe(PATCH);
    const shown = patchText(PATCH, coloured);
    expect(shown).toContain("\x1b[31m-old\x1b[39m\n\x1b[32m+new\x1b[39m\n same");
    expect(shown).toContain("\x1b[1m--- a/x\x1b[22m");
  });

  test("--stat has a line for each file, for each of several steps, and the sum of what was not taken back", () => {
    const steps = [
      { step: 1, files: 1, added: 2, removed: 1 },
      { step: 3, files: 1, added: 0, removed: 0 },
    ];
    const files = [
      file({}),
      file({ path: "b.bin", added: null, removed: null, steps: [3] }),
      file({ path: "c", undone: true }),
    ];
    expect(statText(diff(files, { steps }), io.stdout, plain)).toBe(
      [
        "FILE   CHANGE      LINES  STEPS",
        "a.ts   modified    +2 -1  1",
        "b.bin  modified    -      3",
        "c      taken back  +2 -1  1",
        "",
        "STEP  FILES  LINES",
        "   1      1  +2 -1",
        "   3      1  +0 -0",
        "2 files changed, +2 -1",
        "",
      ].join("\n"),
    );
    expect(statText(diff([]), io.stdout, plain)).toBe("nothing changed\n");
    expect(problemsText(diff([file({ problem: "too large" })], { notes: ["n"] }))).toBe(
      "note: a.ts: too large\nnote: n\n",
    );
  });
});

describe("rnix undo", () => {
  const report = (more: Partial<UndoReport>): UndoReport => ({
    ...{ pid: 1, uuid: "u", source: "git", project: "/p", redo: false, dry_run: false, to_step: 0 },
    ...{ files: [], refused: 0, warnings: [], notes: [], ...more },
  });
  const files: UndoReport["files"] = [
    { path: "a", done: "restored", reason: null, forcible: false, added: 1, removed: 2 },
    {
      path: "b",
      done: "refused",
      reason: "it was changed since",
      forcible: true,
      added: null,
      removed: null,
    },
    { path: "x y", done: "refused", reason: "it is a FIFO", forcible: false, added: null, removed: null },
    { path: "c", done: "unchanged", reason: null, forcible: false, added: 0, removed: 0 },
  ];

  test("prints what it did or would do, and what it left alone and why", () => {
    expect(undoText(report({ files }), plain)).toBe("restored  a +1 -2\nunchanged  c\n");
    expect(undoText(report({ files, dry_run: true }), plain)).toStartWith("would be restored  a");
    expect(refusedText(report({ files }), "/p/sub", plain)).toBe(
      "left alone  b: it was changed since\nleft alone  x y: it is a FIFO\nTo overwrite what was changed since: rnix undo 1 ../b --force\n",
    );
    const again = report({ files: files.map((one) => ({ ...one, path: `${one.path} $` })), to_step: 2 });
    expect(refusedText(again, "/p", plain)).toEndWith(" rnix undo 1 'b $' --to-step 2 --force\n");
    expect(undoText(report({}), plain)).toBe("nothing to take back\n");
    expect(undoText(report({ redo: true }), plain)).toBe("nothing to make again\n");
  });

  test.each([
    [["undo", "1", "--force"], "--force needs FILE"],
    [["undo", "1", "--redo", "--to-step", "2"], "--redo and --to-step exclude each other"],
    [["diff", "1", "--step", "2", "--from-step", "1"], "--step and --from-step exclude each other"],
  ])("%p is refused before anything is connected", async (argv, message) => {
    const own = new FakeIo();
    expect(await runCommandLine([...argv], own)).toBe(64);
    expect(own.stderr.text).toContain(message);
    expect(own.sessions).toEqual([]);
  });
});

test("the run may be left out before files", () => {
  expect(runAndFiles(["3", "src/a.ts"])).toEqual({ run: "3", files: ["src/a.ts"] });
  expect(runAndFiles(["01975a2e"])).toEqual({ run: "01975a2e", files: [] });
  expect(runAndFiles(["src/a.ts", "b.ts"])).toEqual({ run: undefined, files: ["src/a.ts", "b.ts"] });
  expect(runAndFiles([])).toEqual({ run: undefined, files: [] });
});
