/** Which source files of a workspace changed on disk since the last look: servers rely on their client to watch. */

import { stat } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** Of `workspace/didChangeWatchedFiles`. */
export interface FileEvent {
  uri: string;
  type: 1 | 2 | 3;
}
export const CREATED = 1;
const CHANGED = 2;
const DELETED = 3;

/** A larger workspace is watched in its first files only. */
const MAX_FILES = 5_000;
const SKIPPED = /(?:^|\/)(?:node_modules|target|vendor|dist|build|\.[^/]+)\//;

export class WatchedFiles {
  readonly #root: string;
  readonly #pattern: Bun.Glob;
  /** The time of the last change, by path; null before the first look. */
  #known: Map<string, number> | null = null;

  constructor(root: string, extensions: readonly string[]) {
    this.#root = root;
    this.#pattern = new Bun.Glob(`**/*{${extensions.join(",")}}`);
  }

  /** The first look has no changes: the server reads the workspace itself. */
  async changes(signal: AbortSignal): Promise<FileEvent[]> {
    const now = new Map<string, number>();
    for await (const name of this.#pattern.scan({
      cwd: this.#root,
      onlyFiles: true,
      followSymlinks: false,
    })) {
      signal.throwIfAborted();
      if (SKIPPED.test(name)) continue;
      const path = join(this.#root, name);
      const stats = await stat(path).catch(() => null);
      if (stats !== null) now.set(path, stats.mtimeMs);
      if (now.size >= MAX_FILES) break;
    }
    const before = this.#known;
    this.#known = now;
    if (before === null) return [];
    const events: FileEvent[] = [];
    for (const [path, time] of now) {
      const known = before.get(path);
      if (known !== time)
        events.push({ uri: pathToFileURL(path).href, type: known === undefined ? CREATED : CHANGED });
    }
    for (const path of before.keys())
      if (!now.has(path)) events.push({ uri: pathToFileURL(path).href, type: DELETED });
    return events;
  }
}
