import { expect, setSystemTime, test } from "bun:test";
import { statSync } from "node:fs";
import { FileCache } from "../../src/config/files/file.ts";
import { Sandbox } from "./sandbox.ts";

test("a parsed file is cached, unless it has just changed: its next change may have the same time", () => {
  using box = new Sandbox();
  const file = box.write("home/file", "text");
  const { ctimeMs } = statSync(file);
  let made = 0;
  const cache = new FileCache((text) => [text, ++made]);
  const looks = (): unknown[] => [1, 2, 3].map(() => cache.get(file));
  try {
    setSystemTime(ctimeMs + 10);
    expect(looks()).toEqual([1, 2, 3].map((n) => ["text", n]));
    setSystemTime(ctimeMs + 1_000);
    expect(looks()).toEqual([4, 4, 4].map((n) => ["text", n]));
  } finally {
    setSystemTime();
  }
});
