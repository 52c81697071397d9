/** Runs a search in a Worker, and defines the messages between the Worker and its owner. */

import type { Code } from "rnix/plugin";
import { type GlobRequest, globSearch } from "./glob-search.ts";
import { type GrepRequest, grepSearch } from "./grep-search.ts";
import type { Allows } from "./permitted-files.ts";

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
