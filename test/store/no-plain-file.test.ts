import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { realFs } from "../../src/store/files/fs-port.ts";
import { RecordKey } from "../../src/store/runs/record-key.ts";
import { RunStore } from "../../src/store/runs/run-store.ts";
import { procInfo } from "../support/samples.ts";
import { answer, callStart, stepRecord } from "./samples.ts";
import { program, temporaryFolder } from "./support.ts";

setDefaultTimeout(60_000);

const UUID = "01975a2e-0000-7000-8000-000000000001";
const OTHER = "01975a2e-0000-7000-8000-000000000002";
const RUN = `steps/${UUID}`;

/**
 * A run's agent may write where the records are. A pipe in the place of a file would block the thread that opens it,
 * until another process opens the other end; what has no end would be read for ever.
 */
const STRANGERS: Record<string, (path: string) => void> = {
  "a pipe": (path) => expect(Bun.spawnSync(["mkfifo", path]).success).toBe(true),
  "what has no end": (path) => symlinkSync("/dev/zero", path),
};

/** What is refused of it. All else works as if the file were missing. */
const FILES: Record<string, string[]> = {
  [`${RUN}/proc-info.json`]: ["info", "amend", "write"],
  [`${RUN}/process-meta.json`]: ["meta"],
  [`${RUN}/steps.jsonl`]: ["steps", "journal", "write"],
  [`${RUN}/step.journal`]: ["journal", "write"],
  [`${RUN}/events.jsonl`]: ["events"],
  [`${RUN}/inbox.jsonl`]: ["inbox", "write"],
  [`${RUN}/resume.lock`]: ["claimant", "claim", "amend"],
  [`${RUN}/proc-info.json.before`]: [],
  [`${RUN}/~proc-info.json.tmp`]: [],
  ".gitignore": ["begin"],
};

test.each(Object.entries(STRANGERS))("%s in place of any file blocks no caller", async (_, put) => {
  const folders = new Map<string, string>();
  for (const file of Object.keys(FILES)) {
    const dataDir = await recordedRun();
    const path = join(dataDir, file);
    mkdirSync(dirname(path), { recursive: true });
    rmSync(path, { force: true });
    put(path);
    folders.set(file, dataDir);
  }
  const refused = await refusedOf([...folders.values()]);
  expect(Object.fromEntries([...folders.keys()].map((file, at) => [file, refused[at]]))).toEqual(FILES);
});

async function recordedRun(): Promise<string> {
  const dataDir = join(temporaryFolder(), ".rnix", "data");
  const writer = new RunStore(dataDir, realFs, RecordKey.open(join(dataDir, "record.key"))).create(UUID);
  writer.info(procInfo({ uuid: UUID }));
  writer.step(stepRecord(1));
  writer.journal(answer(2));
  writer.journal(callStart(2));
  await writer.close();
  return dataDir;
}

/** By a program of its own, which can be killed where it hangs. A folder of which nothing is said held it up. */
async function refusedOf(dataDirs: readonly string[]): Promise<string[][]> {
  await using child = program("useRuns", UUID, OTHER, ...dataDirs);
  const output = new Response(child.stdout).text();
  const late = setTimeout(() => child.kill("SIGKILL"), 40_000);
  await child.exited;
  clearTimeout(late);
  return (await output)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const refused = z.record(z.string(), z.string()).parse(JSON.parse(line));
      for (const [what, code] of Object.entries(refused)) expect([what, code]).toEqual([what, "INVALID"]);
      return Object.keys(refused);
    });
}
