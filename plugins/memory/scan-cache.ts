/** Scans many texts without blocking the thread, and each text once. */

import { hashOf } from "./entry-file.ts";
import type { Finding } from "./scan/scan.ts";

/** More than a scope holds. */
const MAX_KNOWN = 20_000;
/** The scan of one entry takes less than a millisecond; this many in a row are a time slice. */
const SLICE_MS = 3;

const known = new Map<string, Finding | null>();
let sliceBegan = 0;

/** null for an ordinary text. */
export async function scanned(text: string, signal: AbortSignal): Promise<Finding | null> {
  const hash = hashOf(text);
  const there = known.get(hash);
  if (there !== undefined) return there;
  await turn(signal);
  // Loaded for the first text: a run that remembers nothing needs none of its patterns.
  const { scan } = await import("./scan/scan.ts");
  const found = scan(text);
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
