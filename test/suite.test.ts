import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const SUITE = join(import.meta.dir, "suite.ts");

/** Runs the suite over one test file with this body; `marker` is a file that the body may use between two runs. */
async function runOver(body: (marker: string) => string): Promise<{ exitCode: number; output: string }> {
  const dir = mkdtempSync(join(tmpdir(), "rnix-suite-"));
  try {
    const file = join(dir, "one.test.ts");
    writeFileSync(file, body(join(dir, "marker")));
    const child = Bun.spawn([process.execPath, SUITE, file], { stdio: ["ignore", "ignore", "pipe"] });
    const output = await new Response(child.stderr).text();
    return { exitCode: await child.exited, output };
  } finally {
    rmSync(dir, { recursive: true });
  }
}

test("a file that fails once and passes alone is printed as FLAKY, and the run passes", async () => {
  const { exitCode, output } = await runOver(
    (marker) => `import { existsSync, writeFileSync } from "node:fs";
      import { expect, test } from "bun:test";
      test("second time", () => {
        const again = existsSync("${marker}");
        writeFileSync("${marker}", "");
        expect(again).toBe(true);
      });`,
  );
  expect(output).toMatch(/^FLAKY \S*one\.test\.ts$/m);
  expect(exitCode).toBe(0);
});

test("a file that fails twice fails the run, and so does one that does not load", async () => {
  for (const body of [
    'import { expect, test } from "bun:test"; test("never", () => expect(1).toBe(2));',
    'throw new Error("does not load");',
  ]) {
    const { exitCode, output } = await runOver(() => body);
    expect(output).toMatch(/^FAILED \S*one\.test\.ts$/m);
    expect(exitCode).toBe(1);
  }
});
