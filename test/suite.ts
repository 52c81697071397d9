/**
 * Runs `bun test` with the given arguments. A test file that fails runs once more, alone: when it passes then, the
 * run counts as passed and the file is printed as FLAKY, so that its cause is looked for.
 */
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";

/** With more failed files than this the fault is no coincidence: nothing runs again. */
const MOST_RERUNS = 5;
/** Test files that run side by side. Many wait for a program or a deadline. */
const SIDE_BY_SIDE = 4;
const ROOT = resolve(import.meta.dir, "..");

const args = process.argv.slice(2);
const first = await run([`--parallel=${SIDE_BY_SIDE}`, ...args]);
process.exit(first.exitCode === 0 ? 0 : await runAgain(first.failed));

async function runAgain(failed: readonly string[]): Promise<number> {
  if (failed.length === 0 || failed.length > MOST_RERUNS) return 1;
  const flaky: string[] = [];
  for (const file of failed) {
    process.stderr.write(`\nRuns once more, alone: ${file}\n`);
    const again = await run([resolve(ROOT, file)]);
    if (again.exitCode === 0) flaky.push(file);
  }
  for (const file of flaky) process.stderr.write(`FLAKY ${file}\n`);
  const broken = failed.filter((file) => !flaky.includes(file));
  for (const file of broken) process.stderr.write(`FAILED ${file}\n`);
  return broken.length === 0 ? 0 : 1;
}

/** Prints what `bun test` prints, and reads from it which files failed: the junit report omits those that do not load. */
async function run(args: readonly string[]): Promise<{ exitCode: number; failed: string[] }> {
  const child = Bun.spawn([process.execPath, "test", "--timeout", "120000", ...args], {
    cwd: ROOT,
    env: { ...process.env, NODE_ENV: "test" },
    stdio: ["ignore", "inherit", "pipe"],
  });
  const failed = new Set<string>();
  let file = "";

  for await (const line of createInterface({ input: Readable.fromWeb(child.stderr) })) {
    process.stderr.write(`${line}\n`);
    file = /^(\S+\.ts):$/.exec(line)?.[1] ?? file;
    // At the end all failures are listed again, below no file.
    if (/^\d+ tests? failed:$/.test(line)) file = "";
    if (file !== "" && /^\(fail\) |^# Unhandled error between tests/.test(line)) failed.add(file);
  }
  return { exitCode: await child.exited, failed: [...failed] };
}
