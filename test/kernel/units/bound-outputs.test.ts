import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { boundOutputs } from "../../../src/kernel/units/bound-outputs.ts";
import { Folder } from "../../support/folder.ts";

test("the oldest outputs beyond the limit say that they were removed; the newest stay", () => {
  using folder = new Folder();
  const ids = ["b1", "b2", "b3", "b4"];
  for (const id of ids) writeFileSync(join(folder.dir, `${id}.out`), id.repeat(8192));
  const read = (id: string): string => readFileSync(join(folder.dir, `${id}.out`), "utf8");
  for (let times = 0; times < 2; times++) boundOutputs(folder.dir, ["gone", ...ids], 40_000);
  expect(read("b1")).toStartWith("[removed: ");
  expect(read("b2")).toStartWith("[removed: ");
  expect(read("b3")).toBe("b3".repeat(8192));
  expect(read("b4")).toBe("b4".repeat(8192));
  boundOutputs(folder.dir, ["b4"], 0);
  expect(read("b4")).toStartWith("[removed: ");
});
