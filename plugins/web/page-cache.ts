/** The pages of the last 15 minutes, so that a model that reads a page twice asks its server once. */

import type { PageText } from "./page-text.ts";

const MAX_AGE_MS = 15 * 60_000;
const MAX_PAGES = 100;
/** Of all texts together, in characters. */
const MAX_TEXT = 8 * 1024 ** 2;

export interface CachedPage extends PageText {
  /** The address that answered. */
  url: string;
  truncated: boolean;
}

interface Kept {
  page: CachedPage;
  at: number;
}

export class PageCache {
  readonly #now: () => number;
  /** In the order of their arrival. */
  readonly #pages = new Map<string, Kept>();
  #text = 0;

  /** `now`: milliseconds of a clock that never falls back. */
  constructor(now: () => number) {
    this.#now = now;
  }

  get(key: string): CachedPage | undefined {
    const kept = this.#pages.get(key);
    if (kept === undefined || this.#now() - kept.at < MAX_AGE_MS) return kept?.page;
    this.#remove(key);
    return undefined;
  }

  put(key: string, page: CachedPage): void {
    this.#remove(key);
    this.#pages.set(key, { page, at: this.#now() });
    this.#text += page.text.length;
    for (const oldest of this.#pages.keys()) {
      if (this.#pages.size <= MAX_PAGES && this.#text <= MAX_TEXT) break;
      this.#remove(oldest);
    }
  }

  #remove(key: string): void {
    const kept = this.#pages.get(key);
    if (kept === undefined) return;
    this.#text -= kept.page.text.length;
    this.#pages.delete(key);
  }
}
