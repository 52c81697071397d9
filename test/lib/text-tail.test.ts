import { expect, test } from "bun:test";
import { countLines, TextTail } from "../../src/lib/text-tail.ts";

test.each([1, 3, 100, 5000])("keeps the end of a text in pieces of %i characters", (size) => {
  const text = Array.from({ length: 20_000 }, (_, i) => `line ${i}\n`).join("");
  const tail = new TextTail(1000);
  for (let at = 0; at < text.length; at += size) tail.add(text.slice(at, at + size));
  expect(tail.isEmpty).toBe(false);
  expect(tail.text).toBe(text.slice(-1000));
  expect(tail.take()).toBe(text.slice(-1000));
  expect(tail.isEmpty).toBe(true);
  expect(tail.take()).toBe("");
});

test("cuts no character in half", () => {
  const tail = new TextTail(3);
  tail.add("😀😀😀");
  expect(tail.text).toBe("😀");
});

test("counts the whole lines of a text", () => {
  expect(["", "a", "a\n", "\n\nb\nc"].map(countLines)).toEqual([0, 0, 1, 3]);
});
