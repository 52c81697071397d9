import { expect, onTestFinished, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RunLists } from "../../../src/store/runs/run-lists.ts";
import type { SearchIndex } from "../../../src/store/search/search-index.ts";
import { WorkerRunLists } from "../../../src/store/search/worker-run-lists.ts";

const EMPTY = { rows: [], total: 0, open: [], damaged: [] };

/** Whether this thread or the Worker lists the runs. */
async function lister(runs: number, isRunning: boolean): Promise<string[]> {
  const dataDir = mkdtempSync(join(tmpdir(), "rnix-lists-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true }));
  for (let n = 0; n < runs; n++) mkdirSync(join(dataDir, "steps", `${n}`), { recursive: true });
  const asked: string[] = [];
  const own: RunLists = {
    list: () => Promise.resolve({ rows: [], damaged: [] }),
    infos: () => Promise.resolve([]),
    page: async () => {
      asked.push("own");
      return EMPTY;
    },
  };
  const ask = async (): Promise<typeof EMPTY> => {
    asked.push("worker");
    return EMPTY;
  };
  const index = { isRunning, ask: ask as unknown as SearchIndex["ask"] };
  const parts = { index, dataDir, own: async () => own, info: async () => null };
  await new WorkerRunLists(parts).page({});
  return asked;
}

/** btrfs and overlayfs do not count the folders of a folder: there the Worker lists all runs. */
const areCounted = statSync(tmpdir()).nlink !== 1;

test.skipIf(!areCounted)(
  "few runs are listed in this thread, and no Worker is started for them",
  async () => {
    expect(await lister(0, false)).toEqual(["own"]);
    expect(await lister(20, false)).toEqual(["own"]);
  },
);

test("many runs are listed by the Worker, and few by one that runs", async () => {
  expect(await lister(500, false)).toEqual(["worker"]);
  expect(await lister(20, true)).toEqual(["worker"]);
});
