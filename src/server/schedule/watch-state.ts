/** What a file watch has seen last, on disk. */

import { join } from "node:path";
import { z } from "zod";
import { CRON } from "../../cron/cron-folder.ts";
import { requireNoLink } from "../../store/files/data-dir.ts";
import { makeFolder, parseDocument, readDocument, replaceDocument } from "../../store/files/document.ts";
import type { WatchState } from "./file-watch.ts";

const State = z.lazy(() =>
  z.object({ v: z.literal(1), seq: z.number(), files: z.record(z.string(), z.string()) }),
);

export function watchStateIn(
  dataDir: string,
  jobId: string,
): {
  load(): Promise<WatchState | null>;
  save(state: WatchState): Promise<void>;
} {
  const parts = [CRON, "watch"];
  const folder = join(dataDir, ...parts);
  const path = join(folder, `${jobId}.json`);
  return {
    async load() {
      requireNoLink(dataDir, parts);
      const found = await readDocument(path);
      return found && parseDocument(State, found.text, path);
    },
    async save(state) {
      requireNoLink(dataDir, parts);
      makeFolder(folder);
      await replaceDocument(path, JSON.stringify({ v: 1, ...state }));
    },
  };
}
