import { expect, test } from "bun:test";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { KernelLocks } from "../../../src/server/daemon/kernel-locks.ts";
import { until } from "../../support/until.ts";
import { TempDir } from "../support/fixture.ts";

const LOCK = join(import.meta.dir, "../../../src/store/files/file-lock.ts");

test("a kernel gets its lock although a liveness check holds it for a while", async () => {
  using dir = new TempDir();
  const folder = join(dir.path, "kernels");
  mkdirSync(folder);
  const [file, held] = [join(folder, "new"), join(dir.path, "held")];
  // A process that was suspended between its check and its release.
  const looks = `
    const { FileLock } = await import(${JSON.stringify(LOCK)});
    const lock = FileLock.tryAcquire(${JSON.stringify(file)});
    await Bun.write(${JSON.stringify(held)}, "");
    Bun.sleepSync(150);
    lock.release();
  `;
  const looker = Bun.spawn([process.execPath, "-e", looks], { stdout: "ignore", stderr: "inherit" });
  await until(() => existsSync(held), "the look");
  const locks = new KernelLocks(folder);
  const lock = locks.take("new");
  expect(locks.isAlive("new")).toBe(true);
  lock.release({ remove: true });
  expect(await looker.exited).toBe(0);
});
