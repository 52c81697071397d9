import { expect, test } from "bun:test";
import { checklistLines, liveLines } from "../../../src/cli/terminal/blocks/live.ts";
import { lookOf } from "../../../src/cli/terminal/look.ts";
import { widthOf } from "../../../src/cli/terminal/width.ts";
import { RunState } from "../../../src/cli/transcript/run-state.ts";
import type { ChecklistItem } from "../../../src/plugin/index.ts";

const LOOK = lookOf({ env: { RNIX_ASCII: "1", NO_COLOR: "1" }, stdout: { isTTY: true } as never });
const item = (text: string, state: ChecklistItem["state"] = "open", note?: string): ChecklistItem => ({
  text,
  state,
  ...(note && { note }),
});
const many = [
  ...Array.from({ length: 5 }, (_, i) => item(`done ${i}`, "done")),
  ...Array.from({ length: 9 }, (_, i) => item(`open ${i}`)),
  item("now", "active", "coder"),
];

test("each item is a line with its state and note", () => {
  const items = [item("a", "done"), item("b", "active", "coder"), item("c"), item("d", "dropped")];
  const { mark } = LOOK;
  expect(checklistLines(items, { columns: 40, rows: 10 }, LOOK)).toEqual([
    `  ${mark.done} a`,
    `  ${mark.message} b  coder`,
    `  ${mark.waiting} c`,
    `  ${mark.failed} d`,
  ]);
});

test("nothing is shown of a list without an open item", () => {
  expect(checklistLines([item("a", "done"), item("b", "dropped")], { columns: 40, rows: 10 }, LOOK)).toEqual(
    [],
  );
});

test("a long list fits any size, and the item in progress is never left out", () => {
  for (let rows = 1; rows <= 15; rows++) {
    for (const columns of [20, 80]) {
      const lines = checklistLines(many, { columns, rows }, LOOK);
      expect(lines.length).toBeLessThanOrEqual(rows);
      expect(lines.length).toBeGreaterThan(0);
      for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(columns);
      expect(lines.join("\n")).toContain("now");
    }
  }
  const lines = checklistLines(many, { columns: 80, rows: 5 }, LOOK);
  expect([lines[0], lines.at(-1)]).toEqual([`  ${LOOK.mark.done} 5 done`, `  ${LOOK.mark.ellipsis} 7 more`]);
});

test("the newest list of each plugin stands above the status, until the run ends", () => {
  const state = new RunState(0);
  const show = (plugin: string, ...items: ChecklistItem[]): void =>
    void state.apply(
      { type: "progress", payload: { event: "checklist", pid: 1, uuid: "u", plugin, items } },
      0,
    );
  const lines = (): string =>
    liveLines(
      state,
      { columns: 60, rows: 20, now: 0, full: false, hints: [], isBelowText: false, answer: () => [] },
      LOOK,
    ).join("\n");
  show("tasks", item("first"));
  show("tasks", item("second"));
  show("other", item("third"));
  expect(lines()).toContain("second");
  expect(lines()).toContain("third");
  expect(lines()).not.toContain("first");
  show("other");
  expect(lines()).not.toContain("third");
});
