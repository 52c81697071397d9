/** Sums up what a recall has found, by the process's own model. */

import type { OpenContext } from "rnix/plugin";
import type { Found } from "./recall.ts";

/** Without a model the results stand alone, and the reason is said. */
export async function summaryOf(
  _context: OpenContext,
  _query: string,
  _results: readonly Found[],
): Promise<{ summary?: string; no_summary?: string }> {
  return { no_summary: "No summary: this version can't ask a model for one." };
}
