import { expect, test } from "bun:test";
import { PasteSplitter } from "../../../src/cli/terminal/keyboard.ts";

test("a long paste is announced while it comes in pieces, a short one is not", () => {
  const seen: (string | number)[] = [];
  const splitter = new PasteSplitter({
    keys: (text) => seen.push(text),
    paste: (text) => seen.push(text.length),
    pasting: (length) => seen.push(`${length} so far`),
  });
  splitter.take("a\x1b[200~short");
  splitter.take(" text\x1b[201~b");
  splitter.take(`\x1b[200~${"x".repeat(40_005)}`);
  splitter.take("y".repeat(10));
  splitter.take("\x1b[201~");
  expect(seen).toEqual(["a", 10, "b", "40000 so far", "40010 so far", 40_015]);
});
