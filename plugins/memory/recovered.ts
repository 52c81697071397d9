/** Brings back entries that an editor saved in the moment of a crash, and that the store kept beside the file. */

import { rm } from "node:fs/promises";
import type { Store } from "rnix/plugin";
import { changeStored } from "./document.ts";
import { parseEntries, withEntry } from "./entry-file.ts";
import type { MemoryScope } from "./scopes.ts";

/** The store keeps at most this many. */
const MAX_KEPT = 10;

export async function mergeRecovered(store: Store, scope: MemoryScope, signal: AbortSignal): Promise<void> {
  for (let n = 0; n < MAX_KEPT; n++) {
    const kept = `${scope.doc}.recovered${n === 0 ? "" : `-${n}`}`;
    const there = await store.read(scope.storage, kept);
    if (!there) return;
    const texts = parseEntries(there.text).entries.map(({ text }) => text);
    const missing = (now: string): string[] => {
      const known = new Set(parseEntries(now).entries.map(({ text }) => text));
      return texts.filter((text) => !known.has(text));
    };
    const change = (now: string): string | null => {
      const more = missing(now);
      return more.length === 0 ? null : more.reduce((file, text) => withEntry(parseEntries(file), text), now);
    };
    await changeStored(store, scope, change, { signal, holds: (now) => missing(now).length === 0 });
    await rm(await store.path(scope.storage, kept), { force: true });
  }
}
