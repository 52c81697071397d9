import { afterAll, expect, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { attachedFiles } from "../../../src/cli/chat/attached-files.ts";

const dir = mkdtempSync(join(tmpdir(), "rnix-attached-"));
mkdirSync(join(dir, "src"));
for (const [name, content] of [
  ["a.ts", "text"],
  ["src/b.ts", "text"],
  ["data.bin", "a\0b"],
  ["long.txt", "x".repeat(200_000)],
  ["closed.ts", "text"],
] as const)
  writeFileSync(join(dir, name), content);
chmodSync(join(dir, "closed.ts"), 0);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test("files that are mentioned are sent, and what can't be is named only", async () => {
  const { files, notes } = await attachedFiles("see @a.ts, @src/b.ts (@data.bin) and @long.txt", dir);
  expect(files).toEqual([join(dir, "a.ts"), join(dir, "src/b.ts")]);
  expect(notes).toEqual([
    "data.bin is named only: it is neither text nor a picture",
    "long.txt is named only: it has 195.3 KiB, and the agent can read it",
  ]);
});

test.each(["@none.ts", "@src", "@a.ts/inside", `@${"x".repeat(5000)}`, "@a\0b", "me@example.org"])(
  "%s is a word",
  async (word) => {
    expect(await attachedFiles(`${word} is a word`, dir)).toEqual({ files: [], notes: [] });
  },
);

test.skipIf(process.getuid?.() === 0)("a file that can't be read is named only", async () => {
  const { notes } = await attachedFiles("@closed.ts", dir);
  expect(notes).toEqual(["closed.ts is named only: it can't be read (EACCES)"]);
});

test("a text of another author attaches only files of its folder", async () => {
  const { files } = await attachedFiles("@a.ts @src/b.ts", dir, join(dir, "src"));
  expect(files).toEqual([join(dir, "src/b.ts")]);
});
