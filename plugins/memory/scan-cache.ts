/** Scans many texts without blocking the thread, and each text once. */

import { hashOf } from "./entry-file.ts";
import { scan } from "./scan/scan.ts";

/** More than a scope holds. */
const MAX_KNOWN = 20_000;
/** The scan of one entry takes less than a millisecond; this many in a row are a time slice. */
const SLICE_MS = 3;

const known = new Map<string, string | null>();
let sliceBegan = 0;

/** What was found, as a part of a sentence; null for an ordinary text. */
export async function scanned(text: string, signal: AbortSignal): Promise<string | null> {
  const hash = hashOf(text);
  const there = known.get(hash);
  if (there !== undefined) return there;
  await turn(signal);
  const finding = scan(text);
  const found = finding && `${finding.kind}: ${finding.what}`;
  const oldest = known.keys().next();
  if (known.size >= MAX_KNOWN && !oldest.done) known.delete(oldest.value);
  known.set(hash, found);
  return found;
}

async function turn(signal: AbortSignal): Promise<void> {
  const now = performance.now();
  if (now - sliceBegan < SLICE_MS) return;
  await new Promise<void>((resolve) => setImmediate(resolve));
  sliceBegan = performance.now();
  signal.throwIfAborted();
}
