import { type GlobRequest, globSearch } from "./glob-search.ts";
import { type GrepRequest, grepSearch } from "./grep-search.ts";
import type { Allows } from "./search-batches.ts";

/** What crosses to a search: data only. */
export type SearchRequest = GlobRequest | GrepRequest;

/** Runs one search to its answer. It works for long without giving the thread back: its place is a Worker. */
export function search(request: SearchRequest, allows: Allows): Promise<string> {
  return request.op === "glob" ? globSearch(request, allows) : grepSearch(request, allows);
}
