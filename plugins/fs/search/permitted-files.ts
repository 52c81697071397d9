/** Filters the found files by what the run may read. */

import { realpathSync } from "node:fs";
import { type FoundFile, pathIn } from "./walk.ts";

/** Decides which of these real paths the run may read and name. */
export type Allows = (paths: string[]) => Promise<boolean[]>;

/** Files in one request: a millisecond or two of the kernel's time. */
const BATCH = 256;

interface PermittedBatch {
  allowed: FoundFile[];
  /** Files that were left out: of all, so that their number says nothing about the names that are searched for. */
  refused: number;
}

interface PendingBatch {
  files: FoundFile[];
  /** The path of each file, and of a symlink also its target. */
  paths: string[][];
  answer: Promise<boolean[]>;
}

/** The permitted files that are wanted, in batches. The next batch is decided while one is used. */
export async function* permittedBatches(
  files: Iterable<FoundFile>,
  allows: Allows,
  isWanted: (file: FoundFile) => boolean,
): AsyncGenerator<PermittedBatch> {
  const iterator = files[Symbol.iterator]();
  let next = ask(iterator, allows);
  while (next) {
    const { files: batch, paths, answer } = next;
    const verdicts = await answer;
    next = ask(iterator, allows);
    let at = 0;
    const permitted = batch.filter((_, index) => {
      const from = at;
      at += paths[index]?.length ?? 0;
      return verdicts.slice(from, at).every((verdict) => verdict);
    });
    yield { allowed: permitted.filter(isWanted), refused: batch.length - permitted.length };
  }
}

/** The line about files that rules left out, without their names. */
export function refusedLine(refused: number): string[] {
  return refused === 0
    ? []
    : [`[${refused} ${refused === 1 ? "file was" : "files were"} left out by rules.]`];
}

function ask(iterator: Iterator<FoundFile>, allows: Allows): PendingBatch | undefined {
  const files: FoundFile[] = [];
  for (let item = iterator.next(); !item.done; item = iterator.next()) {
    if (files.push(item.value) === BATCH) break;
  }
  if (files.length === 0) return undefined;
  const paths = files.map(pathsOf);
  const answer = allows(paths.flat());
  // A search that is finished does not wait for this answer.
  answer.catch(() => undefined);
  return { files, paths, answer };
}

function pathsOf({ folder, name, isLink }: FoundFile): string[] {
  const path = pathIn(folder, name);
  if (!isLink) return [path];
  try {
    return [path, realpathSync(path)];
  } catch {
    // A broken or circular symlink has no target that a rule could match.
    return [path];
  }
}
