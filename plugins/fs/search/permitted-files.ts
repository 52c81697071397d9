import { realpathSync } from "node:fs";
import { type Found, pathIn } from "./walk.ts";

/** Of real paths: which of them this run may read and name. */
export type Allows = (paths: string[]) => Promise<boolean[]>;

/** Files that are asked about at once: a millisecond or two of the kernel's time. */
const BATCH = 256;

interface Decided {
  allowed: Found[];
  /** How many were left out. */
  refused: number;
}

interface Asked {
  files: Found[];
  /** Of each file its path, and of a link where it leads. */
  paths: string[][];
  answer: Promise<boolean[]>;
}

/** The files in batches, without those that the run may not have. The next batch is asked about while one is used. */
export async function* decidedBatches(files: Iterable<Found>, allows: Allows): AsyncGenerator<Decided> {
  const iterator = files[Symbol.iterator]();
  let next = ask(iterator, allows);
  while (next) {
    const { files: batch, paths, answer } = next;
    const verdicts = await answer;
    next = ask(iterator, allows);
    let at = 0;
    const allowed = batch.filter((_, index) => {
      const from = at;
      at += paths[index]?.length ?? 0;
      return verdicts.slice(from, at).every((verdict) => verdict);
    });
    yield { allowed, refused: batch.length - allowed.length };
  }
}

/** What the rules left out, for the end of an answer. It names nothing. */
export function refusedNote(refused: number): string[] {
  return refused === 0
    ? []
    : [`[${refused} ${refused === 1 ? "file was" : "files were"} left out by rules.]`];
}

function ask(iterator: Iterator<Found>, allows: Allows): Asked | undefined {
  const files: Found[] = [];
  for (let item = iterator.next(); !item.done; item = iterator.next()) {
    if (files.push(item.value) === BATCH) break;
  }
  if (files.length === 0) return undefined;
  const paths = files.map(pathsOf);
  const answer = allows(paths.flat());
  // A search that has enough does not wait for it any more.
  answer.catch(() => undefined);
  return { files, paths, answer };
}

function pathsOf({ folder, name, isLink }: Found): string[] {
  const path = pathIn(folder, name);
  if (!isLink) return [path];
  try {
    return [path, realpathSync(path)];
  } catch {
    // It leads nowhere, or in a circle: there is nothing that a rule could be about.
    return [path];
  }
}
