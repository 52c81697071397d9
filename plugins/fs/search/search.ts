/** Runs a search in a Worker, and defines the messages between the Worker and its owner. */

import { lstatSync } from "node:fs";
import type { Code } from "rnix/plugin";
import { shownPath } from "../display.ts";
import { type GrepRequest, grepSearch } from "./grep-search.ts";
import { type Allows, permittedBatches, refusedLine } from "./permitted-files.ts";
import { type FoundFile, leftOut, pathIn, type WalkGaps, walk } from "./walk.ts";

/** The request of a search Worker: data only. */
export type SearchRequest = GlobRequest | GrepRequest;

/** Messages to a search Worker, which does one search at a time. */
export type ToWorker =
  | { t: "search"; request: SearchRequest }
  | { t: "verdict"; id: number; allowed: boolean[] };

/** Messages from a search Worker. `ask`: which of these files may be read and named? */
export type FromWorker =
  | { t: "ask"; id: number; paths: string[] }
  | { t: "done"; answer: string }
  | { t: "failed"; code: Code; message: string };

/** Runs one search to its end. It blocks its thread for long, so it belongs in a Worker. */
export function search(request: SearchRequest, allows: Allows): Promise<string> {
  return request.op === "glob" ? globSearch(request, allows) : grepSearch(request, allows);
}

const DEFAULT_LIMIT = 100;
/** Only this many names are compared by age. */
const MAX_MATCHES = 20_000;
const ANSWER_CHARS = 60_000;

interface GlobRequest {
  op: "glob";
  cwd: string;
  /** Real. */
  folder: string;
  /** Relative to the folder. */
  pattern: string;
  /** The pattern as the model wrote it. */
  original: string;
  limit?: number;
}

interface Match {
  path: string;
  modified: number;
}

/** Names of files that fit the pattern, the newest first. Runs in a Worker. */
async function globSearch(request: GlobRequest, allows: Allows): Promise<string> {
  const gaps: WalkGaps = { unreadable: 0, stopped: false };
  const matches: Match[] = [];
  let count = 0;
  let refused = 0;
  const matcher = new Bun.Glob(request.pattern);
  const isWanted = ({ relative }: FoundFile): boolean => matcher.match(relative);
  for await (const batch of permittedBatches(walk(request.folder, gaps), allows, isWanted)) {
    refused += batch.refused;
    for (const { folder, name } of batch.allowed) {
      count++;
      if (matches.length === MAX_MATCHES) continue;
      const path = pathIn(folder, name);
      const modified = lstatSync(path, { throwIfNoEntry: false })?.mtimeMs;
      // Deleted meanwhile.
      if (modified !== undefined) matches.push({ path, modified });
    }
  }
  matches.sort((a, b) => b.modified - a.modified || (a.path < b.path ? -1 : 1));
  const { cwd, folder, original } = request;
  const lines = shown(request, matches);
  const more = count - lines.length;
  if (count === 0) lines.push(`No file in ${shownPath(cwd, folder)} matches ${original}.`);
  else if (more > 0) lines.push(`[… and ${more} more. Narrow the pattern or raise limit.]`);
  if (count > MAX_MATCHES) lines.push(`[Only ${MAX_MATCHES} of them were compared by age.]`);
  return [...lines, ...refusedLine(refused), ...leftOut(gaps)].join("\n");
}

function shown({ cwd, limit = DEFAULT_LIMIT }: GlobRequest, matches: readonly Match[]): string[] {
  const lines: string[] = [];
  let chars = 0;
  for (const { path } of matches.slice(0, limit)) {
    const name = shownPath(cwd, path);
    chars += name.length + 1;
    if (chars > ANSWER_CHARS) break;
    lines.push(name);
  }
  return lines;
}
