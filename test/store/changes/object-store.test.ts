import { describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { blobName, ObjectStore } from "../../../src/store/changes/object-store.ts";

class Folder implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), "rnix-objects-"));

  store(maxBytes = 1 << 20): ObjectStore {
    return new ObjectStore({ dir: this.path, maxBytes });
  }

  git(...args: string[]): string {
    const env = { PATH: process.env.PATH ?? "", GIT_OBJECT_DIRECTORY: join(this.path, "snapshots/objects") };
    const { stdout, stderr, success } = Bun.spawnSync(["git", ...args], { cwd: this.path, env });
    if (!success) throw new Error(stderr.toString());
    return stdout.toString();
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

const text = (words: string): Uint8Array => Buffer.from(words);

describe("contents of changed files", () => {
  test("have the names that git gives them, and git reads them and their folders", async () => {
    using folder = new Folder();
    const store = folder.store();
    const binary = new Uint8Array([0, 1, 255, 10]);
    const [hello, bytes, empty] = await Promise.all(
      [text("hello\n"), binary, text("")].map((one) => store.put(one)),
    );
    const below = await store.putTree([{ mode: "100755", name: "x", oid: hello ?? "" }]);
    const tree = await store.putTree([
      { mode: "120000", name: "a.b", oid: empty ?? "" },
      { mode: "40000", name: "a", oid: below },
      { mode: "100644", name: "a-b", oid: bytes ?? "" },
    ]);
    expect(hello).toBe("ce013625030ba8dba906f756967f9e9ca394464a");
    folder.git("init", "-q");
    expect(folder.git("fsck", "--full")).not.toContain("error");
    expect(folder.git("ls-tree", "-r", tree)).toBe(
      `100644 blob ${bytes}\ta-b\n120000 blob ${empty}\ta.b\n100755 blob ${hello}\ta/x\n`,
    );
    expect(await store.get(bytes ?? "")).toEqual(Buffer.from(binary));
    expect(await blobName("sha256", text("hello\n"))).toBe(
      "2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4",
    );
  });

  test("are stored once, and read as null when they are missing, damaged, another kind or no name", async () => {
    using folder = new Folder();
    const store = folder.store();
    const [one, other] = await Promise.all([store.put(text("same")), store.put(text("same"))]);
    expect(other).toBe(one);
    const objects = join(folder.path, "snapshots/objects");
    expect(readdirSync(objects).length).toBe(1);
    const tree = await store.putTree([]);
    for (const oid of ["0".repeat(40), "../../../etc/passwd", "", tree])
      expect(await store.get(oid)).toBeNull();
    writeFileSync(join(objects, one.slice(0, 2), one.slice(2)), "damaged");
    expect(await folder.store().get(one)).toBeNull();
    const swapped = await store.put(text("another"));
    rmSync(join(objects, one.slice(0, 2), one.slice(2)));
    Bun.spawnSync([
      "cp",
      join(objects, swapped.slice(0, 2), swapped.slice(2)),
      join(objects, one.slice(0, 2), one.slice(2)),
    ]);
    expect(await folder.store().get(one)).toBeNull();
  });

  test("have a limit, which a later store of the run counts too", async () => {
    using folder = new Folder();
    const noise = crypto.getRandomValues(new Uint8Array(3000));
    await folder.store(4000).put(noise);
    const later = folder.store(4000);
    await later.put(noise);
    expect(later.put(crypto.getRandomValues(new Uint8Array(3000)))).rejects.toMatchObject({
      code: "EXHAUSTED",
      message: expect.stringContaining("undo_per_run"),
    });
  });

  test("are not written through a link", async () => {
    using folder = new Folder();
    mkdirSync(join(folder.path, "elsewhere"));
    symlinkSync("elsewhere", join(folder.path, "snapshots"));
    expect(folder.store().put(text("x"))).rejects.toMatchObject({ code: "INVALID" });
  });
});
