import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readGivenFile } from "../../src/cli/files/given-file.ts";

const dir = mkdtempSync(join(tmpdir(), "rnix-given-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const real = {
  timer(ms: number, ring: () => void) {
    const timer = setTimeout(ring, ms);
    return { cancel: () => clearTimeout(timer) };
  },
};
/** Every wait is over at once. */
const late = { timer: (_ms: number, ring: () => void) => real.timer(0, ring) };

let count = 0;
function fifo(): string {
  const path = join(dir, `fifo-${++count}`);
  Bun.spawnSync(["mkfifo", path]);
  return path;
}

test("a file is read", async () => {
  writeFileSync(join(dir, "text"), "text");
  expect((await readGivenFile(real, join(dir, "text"))).toString()).toBe("text");
});

test("a pipe is read to its end, also from a late writer and in pieces", async () => {
  const path = fifo();
  const writer = Bun.spawn(["sh", "-c", `exec > '${path}'; printf one; sleep 0.05; printf two`]);
  expect((await readGivenFile(real, path)).toString()).toBe("onetwo");
  await writer.exited;
});

test("reading a pipe without a writer or without an end fails at its deadline", async () => {
  await expect(readGivenFile(late, fifo())).rejects.toMatchObject({
    code: "INVALID",
    message: expect.stringContaining("expected its end within 10 s"),
  });
  const path = fifo();
  const both = await open(path, "r+");
  await both.write("begun");
  await expect(readGivenFile(late, path)).rejects.toThrow("expected its end within 10 s");
  await both.close();
});

test("reading an endless pipe fails at 1 MiB", async () => {
  const path = fifo();
  const writer = Bun.spawn(["sh", "-c", `exec cat /dev/zero > '${path}'`], { stderr: "ignore" });
  await expect(readGivenFile(real, path)).rejects.toThrow("expected at most 1 MiB");
  await writer.exited;
});

test("a device is refused", async () => {
  await expect(readGivenFile(real, "/dev/zero")).rejects.toThrow("found a device");
});
