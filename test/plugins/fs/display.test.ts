import { expect, test } from "bun:test";
import { cutText, shownPath, sizeText } from "../../../plugins/fs/display.ts";

test.each([
  ["/app", "/app", "."],
  ["/app", "/app/src/a.ts", "src/a.ts"],
  ["/app", "/app/..name", "..name"],
  ["/app/src", "/app", "/app"],
  ["/app/src", "/app/test/a.ts", "/app/test/a.ts"],
])("in %s the path %s is shown as %s", (cwd, path, shown) => {
  expect(shownPath(cwd, path)).toBe(shown);
});

test.each([
  ["abc", 3, "abc"],
  ["abcd", 3, "abc"],
  ["ab😀", 3, "ab"],
  ["ab😀c", 4, "ab😀"],
])("%p is cut to %i units as %p", (text, max, cut) => {
  expect(cutText(text, max)).toBe(cut);
});

test.each([
  [0, "0 bytes"],
  [1023, "1023 bytes"],
  [1024, "1.0 KiB"],
  [1536, "1.5 KiB"],
  [1024 ** 2, "1.0 MiB"],
  [1024 ** 3, "1.0 GiB"],
  [1024 ** 4, "1.0 TiB"],
  [1024 ** 5, "1024.0 TiB"],
])("%i bytes are written %p", (bytes, text) => {
  expect(sizeText(bytes)).toBe(text);
});
