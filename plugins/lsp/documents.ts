/** What a server knows of files: the documents that it has open, and what changed on disk since the last look. */

import { readFile, stat } from "node:fs/promises";
import { extname, join } from "node:path";
import { pathToFileURL } from "node:url";
import type { MessageConnection } from "vscode-jsonrpc/node";
import type { ServerKind } from "./servers.ts";

/** A server holds the text of each; the one that was shown longest ago is closed. */
const MAX_OPEN = 50;

/** They are kept as they are on disk. */
export class OpenDocuments {
  readonly #rpc: MessageConnection;
  readonly #kind: ServerKind;
  /** In the order of their last use. */
  readonly #open = new Map<string, { version: number; text: string }>();

  constructor(rpc: MessageConnection, kind: ServerKind) {
    this.#rpc = rpc;
    this.#kind = kind;
  }

  versionOf(file: string): number {
    return this.#open.get(file)?.version ?? 0;
  }

  /** Opens the file, and gives the server what changed in it and in the others. Returns its text. */
  async show(file: string): Promise<string> {
    for (const other of [...this.#open.keys()])
      if (other !== file) await this.#update(other).catch(() => this.#close(other));
    const text = await this.#update(file);
    for (const oldest of [...this.#open.keys()]) {
      if (this.#open.size <= MAX_OPEN) break;
      await this.#close(oldest);
    }
    return text;
  }

  async #update(file: string): Promise<string> {
    const text = await readFile(file, "utf8");
    const known = this.#open.get(file);
    const uri = pathToFileURL(file).href;
    if (known === undefined) {
      const languageId = this.#kind.languages[extname(file)] ?? "plaintext";
      await this.#rpc.sendNotification("textDocument/didOpen", {
        textDocument: { uri, languageId, version: 1, text },
      });
    } else if (known.text !== text) {
      await this.#rpc.sendNotification("textDocument/didChange", {
        textDocument: { uri, version: known.version + 1 },
        contentChanges: [{ text }],
      });
    }
    const version = known === undefined ? 1 : known.version + (known.text === text ? 0 : 1);
    this.#open.delete(file);
    this.#open.set(file, { version, text });
    return text;
  }

  async #close(file: string): Promise<void> {
    this.#open.delete(file);
    const textDocument = { uri: pathToFileURL(file).href };
    await this.#rpc.sendNotification("textDocument/didClose", { textDocument });
  }
}

/** Of `workspace/didChangeWatchedFiles`. */
interface FileEvent {
  uri: string;
  type: 1 | 2 | 3;
}
export const CREATED = 1;
const CHANGED = 2;
const DELETED = 3;

/** A larger workspace is watched in its first files only. */
const MAX_FILES = 5_000;
const SKIPPED = /(?:^|\/)(?:node_modules|target|vendor|dist|build|\.[^/]+)\//;

/** The source files of a workspace: servers rely on their client to watch. */
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
    const options = { cwd: this.#root, onlyFiles: true, followSymlinks: false };
    for await (const name of this.#pattern.scan(options)) {
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
    const changed = [...now].filter(([path, time]) => before.get(path) !== time).map(([path]) => path);
    const gone = [...before.keys()].filter((path) => !now.has(path));
    return [...changed, ...gone].map((path) => {
      const type = !now.has(path) ? DELETED : before.has(path) ? CHANGED : CREATED;
      return { uri: pathToFileURL(path).href, type };
    });
  }
}
