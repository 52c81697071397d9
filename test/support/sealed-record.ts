import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { keyOfThisProcess } from "../../src/store/runs/record-key.ts";
import { INFO, sealedInfo } from "../../src/store/runs/run-files.ts";
import type { ProcInfo } from "../../src/store/runs/schema.ts";

/** Writes a process record as another kernel of the same user does. */
export function writeRecord(dataDir: string, info: ProcInfo): void {
  const seal = keyOfThisProcess().sealOf(`run ${info.uuid}`);
  writeFileSync(join(dataDir, "steps", info.uuid, INFO), sealedInfo(info, dataDir, seal));
}

/**
 * What is on disk of the runs at this moment, for a kernel that starts later: what `kill -9` leaves. It has another
 * folder here only because the killed one resumes in its own: the records say that they were written in this one.
 */
export function crashInto(later: { dataDir: string }, from: { dataDir: string }): void {
  cpSync(from.dataDir, later.dataDir, { recursive: true });
  const steps = join(later.dataDir, "steps");
  for (const uuid of existsSync(steps) ? readdirSync(steps) : []) {
    const path = join(steps, uuid, INFO);
    if (existsSync(path)) writeRecord(later.dataDir, JSON.parse(readFileSync(path, "utf8")));
  }
}
