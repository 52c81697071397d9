/** Bounds what the outputs of ended units take on disk together. */

import { statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";

const BLOCK = 512;

/** `ended`: ids, the oldest first. The oldest outputs beyond `maxBytes` are replaced by a line that names the limit. */
export function boundOutputs(unitDir: string, ended: readonly string[], maxBytes: number): void {
  let bytes = 0;
  for (const id of ended.toReversed()) {
    const path = join(unitDir, `${id}.out`);
    const size = takenBy(path);
    if (bytes + size <= maxBytes) bytes += size;
    else replace(path, `[removed: the outputs of a run's ended units may take ${maxBytes} bytes together]\n`);
  }
}

/** On disk: the beginning of a long output is a hole. A file of one block is not worth replacing. */
function takenBy(path: string): number {
  try {
    const { blocks } = statSync(path);
    return blocks * BLOCK;
  } catch (thrown) {
    if (errnoOf(thrown) === "ENOENT") return 0;
    throw thrown;
  }
}

function replace(path: string, text: string): void {
  const { size } = statSync(path);
  if (size === text.length) return;
  truncateSync(path, 0);
  writeFileSync(path, text);
}
