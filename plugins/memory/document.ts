/** A document of the store that other processes and editors change too. */

import { stat } from "node:fs/promises";
import { type Scope, type Store, SyscallError } from "rnix/plugin";
import { isObject } from "../_lib/is-object.ts";

/** A document by its scope of the store and its name. */
export interface DocumentName {
  storage: Scope;
  doc: string;
}

interface Stored {
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

/** The document; an empty text for a missing one. */
export async function readStored(store: Store, { storage, doc }: DocumentName): Promise<Stored> {
  return (await store.read(storage, doc)) ?? { text: "", version: null };
}

/**
 * Changes a document until the change is in it. `change` gets the current text and returns the new one, or null when
 * nothing is left to do. `holds`: whether a text contains the change.
 */
export async function changeStored(
  store: Store,
  at: DocumentName,
  change: (text: string) => string | null,
  { signal, holds }: { signal: AbortSignal; holds?: (text: string) => boolean },
): Promise<void> {
  const path = holds && (await store.path(at.storage, at.doc));
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
    const later = await readStored(store, at);
    if (later.version === version || holds(later.text)) return;
  }
  throw new SyscallError(
    "UNAVAILABLE",
    `${at.doc} is being changed by other programs all the time. Try again.`,
    { retryable: true },
  );
}

/** The document; where it was a moment ago and is missing, it is waited for. */
async function present(store: Store, at: DocumentName, path: string | undefined): Promise<Stored> {
  const giveUp = performance.now() + MISSING_MS;
  for (;;) {
    const now = await readStored(store, at);
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
  { storage, doc }: DocumentName,
  text: string,
  version: string | null,
): Promise<string | null> {
  try {
    return await store.replace(storage, doc, text, version);
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
export async function readJson<T extends object>(store: Store, at: DocumentName, empty: T): Promise<T> {
  return parsedOr((await readStored(store, at)).text, empty);
}

/** Changes a JSON document of the plugin's own. `change` returns null when nothing is left to do. */
export async function changeJson<T extends object>(
  store: Store,
  at: DocumentName,
  empty: T,
  change: (document: T) => T | null,
  signal: AbortSignal,
): Promise<void> {
  const edit = (text: string): string | null => {
    const changed = change(parsedOr(text, empty));
    return changed && `${JSON.stringify(changed, null, 1)}\n`;
  };
  await changeStored(store, at, edit, { signal });
}

function parsedOr<T extends object>(text: string, empty: T): T {
  if (text === "") return empty;
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value)) return empty;
    const hasLists = Object.entries(empty).every(([key, list]) => {
      return !Array.isArray(list) || value[key] === undefined || Array.isArray(value[key]);
    });
    return hasLists ? { ...empty, ...value } : empty;
  } catch {
    return empty; // A person may have edited it.
  }
}
