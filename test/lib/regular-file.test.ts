import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openRegular, readRegular, readRegularSync } from "../../src/lib/regular-file.ts";

let dir = "";
let server: Server | undefined;
const at = (name: string): string => join(dir, name);

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "rnix-regular-"));
  mkdirSync(at("folder"));
  Bun.spawnSync(["mkfifo", at("fifo")]);
  symlinkSync("fifo", at("to-fifo"));
  symlinkSync("/dev/zero", at("zero"));
  symlinkSync("/dev/tty", at("tty"));
  writeFileSync(at("text"), "ten bytes.");
  linkSync(at("text"), at("hard"));
  symlinkSync("text", at("soft"));
  writeFileSync(at("empty"), "");
  writeFileSync(at("large"), Buffer.alloc(200_000, "x"));
  server = createServer();
  await new Promise<void>((resolve) => server?.listen(at("socket"), resolve));
});
afterAll(() => {
  server?.close();
  rmSync(dir, { recursive: true });
});

const readers = {
  readRegularSync: async (path: string, most: number) => readRegularSync(path, most),
  readRegular,
};

for (const [name, read] of Object.entries(readers)) {
  describe(name, () => {
    test.each(["text", "hard", "soft"])("reads %s whole", async (file) => {
      expect((await read(at(file), 10)).toString()).toBe("ten bytes.");
    });

    test("reads an empty file, a large one, and one of unknown size", async () => {
      expect((await read(at("empty"), 0)).length).toBe(0);
      expect((await read(at("large"), 200_000)).length).toBe(200_000);
      expect((await read("/proc/self/status", 100_000)).toString()).toContain("Name:");
    });

    test.each([
      ["folder", "a folder"],
      ["fifo", "a FIFO"],
      ["to-fifo", "a FIFO"],
      ["socket", "a socket"],
      ["zero", "a device"],
      ["tty", "a device"],
    ])("refuses %s at once", async (file, what) => {
      const began = performance.now();
      await expect(read(at(file), 1000)).rejects.toMatchObject({
        code: "INVALID",
        message: `${at(file)}: expected a file, found ${what}.`,
      });
      expect(performance.now() - began).toBeLessThan(1000);
    });

    test("refuses more than it may have, also where the size is not known", async () => {
      await expect(read(at("text"), 9)).rejects.toMatchObject({ code: "INVALID" });
      await expect(read("/proc/self/status", 16)).rejects.toMatchObject({ code: "INVALID" });
    });

    test("throws for a missing file; the caller handles it", async () => {
      await expect(read(at("nothing"), 9)).rejects.toMatchObject({ code: "ENOENT" });
    });
  });
}

test("a file swapped for a FIFO between the two looks is refused", async () => {
  // Some rounds meet the swap in between; none may hang or read from the pipe.
  const swaps = Bun.spawn(
    [
      "sh",
      "-c",
      `while :; do ln -f '${at("text")}' '${at("swap")}'; rm -f '${at("swap")}'; mkfifo '${at("swap")}'; rm '${at("swap")}'; done`,
    ],
    { stderr: "ignore" },
  );
  try {
    for (let i = 0; i < 500; i++) {
      const read = await Promise.resolve()
        .then(() => readRegularSync(at("swap"), 10).toString())
        .catch((thrown: { code: string }) => thrown.code);
      expect(["ten bytes.", "INVALID", "ENOENT"]).toContain(read);
    }
  } finally {
    swaps.kill();
    await swaps.exited;
  }
});

test("an open file stays open for the caller to close", async () => {
  const { handle, stat } = await openRegular(at("text"));
  expect(stat.size).toBe(10);
  await handle.close();
});
