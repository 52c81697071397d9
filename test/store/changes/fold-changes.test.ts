import { describe, expect, test } from "bun:test";
import { ChangeLine, type FileState } from "../../../src/store/changes/change-log.ts";
import { foldChanges, netChanges } from "../../../src/store/changes/fold-changes.ts";

const at = { v: 1, ts: "2026-11-22T00:00:00.000Z" } as const;
const file = (oid: string): FileState => ({ kind: "file", oid, size: 1 });
const base = (step = 1, source: "git" | "writes" = "git") => ({ ...at, t: "base" as const, step, source });
const end = (step: number) => ({ ...at, t: "end" as const, step, complete: true });
const change = (step: number, path: string, before: string | null, after: string | null) => ({
  ...{ ...at, t: "change" as const, step, path },
  before: before === null ? null : file(before),
  after: after === null ? null : file(after),
});
const undo = (id: string, to_step: number, redo: boolean, ...paths: string[]) => ({
  ...{ ...at, t: "undo" as const, id, redo, to_step },
  files: paths.map((path) => ({ path, from: null, to: null })),
});

function history(...lines: object[]) {
  return foldChanges(lines.map((line) => ChangeLine.parse(line)));
}

const shown = (of: ReturnType<typeof history>, o?: Parameters<typeof netChanges>[1]) =>
  netChanges(of, o).map(({ path, before, after, steps }) => [
    path,
    before?.oid ?? null,
    after?.oid ?? null,
    steps,
  ]);

describe("the net change of a file", () => {
  const all = history(
    base(),
    change(1, "a", "1", "2"),
    change(2, "a", "2", "3"),
    change(2, "new", null, "n"),
    change(3, "new", "n", null),
    change(3, "back", "x", "y"),
    change(4, "back", "y", "x"),
    end(4),
  );

  test("is from before its first change to after its last; what comes back is none", () => {
    expect(shown(all)).toEqual([["a", "1", "3", [1, 2]]]);
  });

  test("of chosen steps is that of these alone", () => {
    expect(shown(all, { after: 1 })).toEqual([["a", "2", "3", [2]]]);
    expect(shown(all, { after: 2, until: 3 })).toEqual([
      ["back", "x", "y", [3]],
      ["new", "n", null, [3]],
    ]);
  });

  test("is mixed where another program changed the file in between", () => {
    const mixed = history(base(), change(1, "a", "1", "2"), change(2, "a", "other", "3"), end(2));
    expect(netChanges(mixed).map((one) => one.mixed)).toEqual([true]);
    expect(netChanges(all).map((one) => one.mixed)).toEqual([false]);
  });

  test("content that was not kept equals nothing", () => {
    const lost: FileState = { kind: "file", oid: null, size: 9, lost: "too large" };
    const changed = history(base(), { ...change(1, "a", null, null), before: lost, after: lost });
    expect(netChanges(changed).length).toBe(1);
  });
});

describe("an undo", () => {
  const lines = [
    base(),
    change(1, "a", "1", "2"),
    change(2, "a", "2", "3"),
    change(2, "b", null, "b"),
    end(2),
  ];

  test("takes the later changes of its files away, and a redo brings them back", () => {
    const undone = history(...lines, undo("u", 1, false, "a"));
    expect(shown(undone)).toEqual([
      ["a", "1", "2", [1]],
      ["b", null, "b", [2]],
    ]);
    expect(shown(undone, { undone: true })).toEqual([["a", "2", "3", [2]]]);
    const redone = history(...lines, undo("u", 1, false, "a"), undo("u", 1, true, "a"));
    expect(shown(redone)[0]).toEqual(["a", "1", "3", [1, 2]]);
  });

  test("counts until the model was notified, and is interrupted without its end", () => {
    const undoing = { ...undo("u", 0, false, "a"), t: "undoing" };
    expect(history(...lines, undoing).interrupted?.id).toBe("u");
    const ended = history(...lines, undoing, undo("u", 0, false, "a"));
    expect([ended.interrupted, ended.unnotified.length]).toEqual([undefined, 1]);
    const notified = history(...lines, undo("u", 0, false, "a"), { ...at, t: "notified" });
    expect([notified.unnotified.length, notified.undos.length]).toEqual([0, 1]);
  });
});

describe("what is not known", () => {
  test("a process that began and never ended leaves a gap, unless it lives", () => {
    const lines = [base(), change(1, "a", "1", "2"), base(3), end(3)].map((line) => ChangeLine.parse(line));
    expect(foldChanges(lines).gaps).toEqual([1]);
    const open = [base(), change(2, "a", "1", "2")].map((line) => ChangeLine.parse(line));
    expect([foldChanges(open).gaps, foldChanges(open, true).gaps]).toEqual([[2], []]);
  });

  test("one part without git makes the whole incomplete; others' files are named once, unless they are the run's", () => {
    const others = { ...at, t: "others", step: 1, paths: ["z", "a"] };
    const mixed = history(
      base(),
      others,
      others,
      change(1, "a", "1", "2"),
      end(1),
      base(2, "writes"),
      end(2),
    );
    expect([mixed.source, mixed.others]).toEqual(["writes", ["z"]]);
    expect(history().source).toBe("none");
  });
});
