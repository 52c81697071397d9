import { expect, test } from "bun:test";
import { countLines, TextTail } from "../../src/lib/text-tail.ts";

test.each([1, 3, 100, 5000])(
  "keeps the end of a text in pieces of %i characters, and counts the lines before it",
  (size) => {
    const text = Array.from({ length: 20_000 }, (_, i) => `line ${i}\n`).join("");
    const tail = new TextTail(1000);
    for (let at = 0; at < text.length; at += size) tail.add(text.slice(at, at + size));
    expect(tail.isEmpty).toBe(false);
    expect(tail.text).toBe(text.slice(-1000));
    const { text: taken, skipped } = tail.take();
    expect(taken).toBe(text.slice(-1000));
    expect(skipped + countLines(taken)).toBe(20_000);
    expect(tail.isEmpty).toBe(true);
    expect(tail.take()).toEqual({ text: "", skipped: 0 });
  },
);

test("cuts no character in half", () => {
  const tail = new TextTail(3);
  tail.add("😀😀😀");
  expect(tail.text).toBe("😀");
});

test("counts lines that the caller left out", () => {
  const tail = new TextTail(100);
  tail.add("a\n");
  tail.add("b\n", 10);
  expect(tail.take()).toEqual({ text: "a\nb\n", skipped: 10 });
});
