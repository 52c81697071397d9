/** A document of the store that other processes and editors change too. */

import { stat } from "node:fs/promises";
import { type Scope, type Store, SyscallError } from "rnix/plugin";

export interface Stored {
  text: string;
  version: string | null;
}

/** Attempts before a change gives up: each failed one was beaten by another writer. */
const MAX_ATTEMPTS = 60;
/**
 * An editor that read the document before a change and saves it after that writes over the change. So a change is looked
 * at again after this time; after a longer one where another program has just saved the file.
 */
const SETTLE_MS = 40;
const SETTLE_BESIDE_OTHERS_MS = 500;
const JUST_MS = 2_000;
/** An editor that moves the old file away before it writes the new one has done so after this time. */
const MISSING_MS = 1_000;

/** By path: the version that this process has written last, and when it last saw one of another program. */
const written = new Map<string, { version: string; othersAt: number }>();
const MAX_WRITTEN = 1_000;

export async function readStored(store: Store, scope: Scope, doc: string): Promise<Stored> {
  return (await store.read(scope, doc)) ?? { text: "", version: null };
}

/**
 * Changes a document until the change is in it. `change` gets the current text and returns the new one, or null when
 * nothing is left to do. `holds`: whether a text contains the change.
 */
export async function changeStored(
  store: Store,
  at: { scope: Scope; doc: string },
  change: (text: string) => string | null,
  { signal, holds }: { signal: AbortSignal; holds?: (text: string) => boolean },
): Promise<void> {
  const path = holds && (await store.path(at.scope, at.doc));
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    signal.throwIfAborted();
    const now = await present(store, at, path);
    const text = change(now.text);
    if (text === null) return;
    const others = path === undefined ? 0 : await othersAt(path, now.version);
    const version = await replaced(store, at, text, now.version);
    if (version === null) {
      await pause(Math.min(20, attempt));
      continue;
    }
    if (!holds || path === undefined) return;
    remember(path, { version, othersAt: others });
    await pause(Date.now() - others < JUST_MS ? SETTLE_BESIDE_OTHERS_MS : SETTLE_MS);
    const later = await readStored(store, at.scope, at.doc);
    if (later.version === version || holds(later.text)) return;
  }
  throw new SyscallError(
    "UNAVAILABLE",
    `${at.doc} is being changed by other programs all the time. Try again.`,
    { retryable: true },
  );
}

/** The document; where it was a moment ago and is missing, it is waited for. */
async function present(
  store: Store,
  { scope, doc }: { scope: Scope; doc: string },
  path: string | undefined,
): Promise<Stored> {
  const giveUp = performance.now() + MISSING_MS;
  for (;;) {
    const now = await readStored(store, scope, doc);
    const isMissing = now.version === null && path !== undefined && written.has(path);
    if (!isMissing || performance.now() >= giveUp) return now;
    await pause(5);
  }
}

/** When another program last saved the file, as far as this process has seen it; Unix ms. */
async function othersAt(path: string, version: string | null): Promise<number> {
  const known = written.get(path);
  if (version === null || known?.version === version) return known?.othersAt ?? 0;
  try {
    return (await stat(path)).mtimeMs;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return Date.now();
    throw error;
  }
}

function remember(path: string, last: { version: string; othersAt: number }): void {
  written.delete(path);
  const oldest = written.keys().next();
  if (written.size >= MAX_WRITTEN && !oldest.done) written.delete(oldest.value);
  written.set(path, last);
}

/** Returns null when another writer was faster. */
async function replaced(
  store: Store,
  { scope, doc }: { scope: Scope; doc: string },
  text: string,
  version: string | null,
): Promise<string | null> {
  try {
    return await store.replace(scope, doc, text, version);
  } catch (thrown) {
    // A service of a Worker gives errors of its own class.
    if (thrown instanceof SyscallError && thrown.code === "INVALID" && thrown.retryable === true) return null;
    throw thrown;
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Reads a JSON document of the plugin's own; `empty` for a missing or damaged one, which the next change replaces. */
export function parsedOr<T extends object>(text: string, empty: T): T {
  if (text === "") return empty;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...empty, ...value } : empty;
  } catch {
    return empty; // A person may have edited it.
  }
}
