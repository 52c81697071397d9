import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type FsPort, realFs } from "../../../src/store/files/fs-port.ts";
import { BlobStore, checkBlob } from "../../../src/store/runs/blob-store.ts";
import { codeOf, errorOf, fsWith, openFiles, systemError, temporaryFolder } from "../support.ts";

function keeping(o: { fs?: FsPort; maxBytes?: number; dir?: string } = {}) {
  const dir = o.dir ?? temporaryFolder();
  return {
    dir,
    results: new BlobStore({ dir, uuid: "u", ...o }),
    files: () => readdirSync(`${dir}/results`),
  };
}

describe("a stored result", () => {
  test("is named by its content: the same twice, also at once and by a later writer, is one file", async () => {
    const { dir, results, files } = keeping();
    const [a, b] = await Promise.all([results.store("Bash.txt", "same"), results.store("Read.txt", "same")]);
    expect(a).toEqual(b);
    expect(a).toEqual({
      file: `results/${Bun.CryptoHasher.hash("sha256", "same", "hex")}.txt`,
      sha256: Bun.CryptoHasher.hash("sha256", "same", "hex"),
      bytes: 4,
      path: join(dir, a.file),
    });
    await keeping({ dir }).results.store("x.txt", Buffer.from("same"));
    await results.store("x.txt", "other");
    expect(files()).toHaveLength(2);
    expect(readFileSync(a.path, "utf8")).toBe("same");
    expect(openFiles(dir)).toBe(0);
  });

  test("is bytes where bytes were given, and its name has only a plain ending", async () => {
    const { results, files } = keeping();
    const bytes = new Uint8Array([0, 255, 10]);
    expect(new Uint8Array(readFileSync((await results.store("b.png", bytes)).path))).toEqual(bytes);
    for (const [i, name] of [
      "../../etc/passwd",
      ".hidden",
      "",
      "a.b/c",
      "a.ä",
      `a.${"x".repeat(300)}`,
    ].entries())
      await results.store(name, `text ${i}`);
    for (const file of files()) expect(file).toMatch(/^[0-9a-f]{64}(\.[A-Za-z0-9]{1,9})?$/);
  });

  test("has a bound over all writers of a run, and says which setting it is", async () => {
    const { dir, results } = keeping({ maxBytes: 10 });
    await results.store("a", "12345678");
    const error = await errorOf(() => results.store("b", "abc"));
    expect(error).toMatchObject({ code: "EXHAUSTED", message: expect.stringContaining("results_per_run") });
    await results.store("c", "ab");
    await results.store("a", "12345678");
    expect(await codeOf(() => keeping({ dir, maxBytes: 10 }).results.store("d", "x"))).toBe("EXHAUSTED");
  });

  test("leaves nothing when the disk refuses it, counts for nothing then, and can be tried again", async () => {
    let broken = true;
    const fs = fsWith({
      writeAsync: async (fd, data) => {
        if (broken) throw systemError("ENOSPC");
        return realFs.writeAsync(fd, data);
      },
    });
    const { results, files } = keeping({ fs, maxBytes: 5 });
    expect(await codeOf(() => results.store("a", "12345"))).toBe("EXHAUSTED");
    expect(files()).toEqual([]);
    broken = false;
    await results.store("a", "12345");
    expect(files()).toHaveLength(1);
  });
});

test("a missing, truncated or changed result is named, and is whole again when a later writer stores it", async () => {
  const { dir, results } = keeping();
  const { path, ...ref } = await results.store("a.txt", "content");
  const problem = async (whole: boolean) => (await checkBlob(realFs, dir, ref, { whole })).problem;
  expect(await checkBlob(realFs, dir, ref, { whole: true })).toEqual({ ...ref, path, problem: null });
  writeFileSync(path, "CONTENT");
  expect(await problem(false)).toBeNull();
  expect(await problem(true)).toContain("its content has changed");
  writeFileSync(path, "cont");
  expect(await problem(false)).toContain("expected 7 bytes, found 4");
  await keeping({ dir }).results.store("b.txt", "content");
  expect(await problem(true)).toBeNull();
  rmSync(path);
  expect(await problem(false)).toContain(`${path} is missing`);
});
