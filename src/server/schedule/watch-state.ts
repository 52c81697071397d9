/** What a file watch has seen last, on disk. */

import { dirname } from "node:path";
import { z } from "zod";
import { makeFolder, parseDocument, readDocument, replaceDocument } from "../../store/files/document.ts";
import type { WatchState } from "./file-watch.ts";

const State = z.lazy(() =>
  z.object({ v: z.literal(1), seq: z.number(), files: z.record(z.string(), z.string()) }),
);

export function watchStateIn(path: string): {
  load(): Promise<WatchState | null>;
  save(state: WatchState): Promise<void>;
} {
  return {
    async load() {
      const found = await readDocument(path);
      return found && parseDocument(State, found.text, path);
    },
    async save(state) {
      makeFolder(dirname(path));
      await replaceDocument(path, JSON.stringify({ v: 1, ...state }));
    },
  };
}
