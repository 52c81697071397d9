/** Stores documents and logs of one plugin. */

import nodeFs from "node:fs";
import { basename, dirname, join } from "node:path";
import { errnoOf } from "../lib/error-detail.ts";
import { type Scope, type Store, SyscallError } from "../plugin/index.ts";
import { AppendLog } from "./files/append-log.ts";
import { prepareDataDir, projectOf, requireNoLink } from "./files/data-dir.ts";
import { makeFolder, readDocument } from "./files/document.ts";
import { FileLock, type LockClock, systemLockClock } from "./files/file-lock.ts";
import { type FsPort, ioError, namesIn, realFs } from "./files/fs-port.ts";
import { readLog } from "./files/read-log.ts";

/** Maximum wait for the lock. A write takes less, so an owner that holds it longer hangs. */
const LOCK_WAIT_MS = 10_000;
const MAX_DOCUMENT_CHARS = 16 * 1024 * 1024;
const PAGE = 1_000;

interface PluginStoreOptions {
  /** The plugin's name; its files are in a folder of this name in each scope. */
  plugin: string;
  /** Folders of the scopes, absolute (`pluginFolders`). No `run`: the opening process has none, the scope is UNAVAILABLE. */
  run?: string;
  tree?: string;
  /** A call about a run only reads the data of its tree. */
  isTreeReadOnly?: boolean;
  project: string;
  user: string;
  onDamaged?(log: string, damaged: number, lines: readonly number[]): void;
  /** Called when a text that an editor saved during a crash was put into `<file>.recovered`. */
  onRecovered?(file: string): void;
}

/**
 * The `store` service of one plugin. Every change is made under a lock of the plugin's folder, so that
 * no process loses an update of another. A change survives a power loss when its method returns.
 */
export class PluginStore implements Store {
  readonly #options: PluginStoreOptions;
  readonly #fs: FsPort;
  readonly #clock: LockClock;

  constructor(options: PluginStoreOptions, ports: { fs?: FsPort; clock?: LockClock } = {}) {
    checkName(options.plugin, "plugin");
    this.#options = options;
    this.#fs = ports.fs ?? realFs;
    this.#clock = ports.clock ?? systemLockClock;
  }

  async read(scope: Scope, doc: string): Promise<{ text: string; version: string } | null> {
    const path = this.#path(scope, doc);
    // Most runs have no documents of most plugins, and each asks for them.
    if (this.#fs.stat(dirname(path)) === null) return null;
    await this.#recover(scope, dirname(path));
    return readDocument(path, this.#fs);
  }

  async replace(scope: Scope, doc: string, text: string, ifVersion: string | null): Promise<string> {
    const path = this.#path(scope, doc);
    this.#requireWritable(scope);
    if (text.length > MAX_DOCUMENT_CHARS) {
      const message = `${doc} would have ${text.length} characters; the limit is ${MAX_DOCUMENT_CHARS}. Split it.`;
      throw new SyscallError("EXHAUSTED", message);
    }
    const { replaceUnchanged } = await import("./files/checked-replace.ts");
    return this.#locked(scope, path, async () => {
      const version = await replaceUnchanged(path, text, ifVersion, { fs: this.#fs, clock: this.#clock });
      if (version === null) throw changed(doc, this.#fs.stat(path) !== null, ifVersion);
      return version;
    });
  }

  async remove(scope: Scope, doc: string, ifVersion: string): Promise<void> {
    const path = this.#path(scope, doc);
    this.#requireWritable(scope);
    const dir = dirname(path);
    await this.#locked(scope, path, async () => {
      const found = await readDocument(path, this.#fs);
      if (found?.version !== ifVersion) throw changed(doc, found !== null, ifVersion);
      await nodeFs.promises.rm(path);
      const isFolder = dir !== this.#folder(scope) && (await this.#names(dir)).length === 0;
      if (isFolder) await nodeFs.promises.rmdir(dir);
    });
  }

  async append(scope: Scope, log: string, line: object): Promise<void> {
    const path = this.#path(scope, log);
    this.#requireWritable(scope);
    const file = new AppendLog(path, `${log} of plugin ${this.#options.plugin}`, { fs: this.#fs });
    const json = JSON.stringify(line);
    await this.#locked(scope, path, async () => file.append(json));
    await file.sync();
  }

  async path(scope: Scope, doc: string): Promise<string> {
    return this.#path(scope, doc);
  }

  /** `after` counts lines that could be read: it is the number of lines the caller has been given so far. */
  async lines(scope: Scope, log: string, after: number, max: number): Promise<object[]> {
    const path = this.#path(scope, log);
    const lines: object[] = [];
    let skip = Math.max(0, after);
    for (let from = 0; lines.length < max; ) {
      const page = await readLog(this.#fs, path, { after: from, limit: PAGE, decode: asObject });
      if (page.damaged > 0) this.#options.onDamaged?.(log, page.damaged, page.damagedLines);
      lines.push(...page.records.slice(skip, skip + max - lines.length));
      skip = Math.max(0, skip - page.records.length);
      if (page.next.after === from) break;
      from = page.next.after;
    }
    return lines;
  }

  #path(scope: Scope, name: string): string {
    checkName(name, "document or log");
    return join(this.#folder(scope, dirname(name)), basename(name));
  }

  /** The project's own data folder, if the scope's folder is it or lies in it. */
  #dataDir(scope: Scope): string | undefined {
    const dir = scope === "project" ? this.#options.project : undefined;
    return [dir, dir && dirname(dir)].find((one) => one !== undefined && projectOf(one) !== null);
  }

  #folder(scope: Scope, below = "."): string {
    const dir = this.#options[scope];
    if (dir !== undefined) {
      const parts = join(this.#options.plugin, below).split("/");
      // A repository may have brought a link.
      requireNoLink(dir, parts, this.#fs);
      return join(dir, ...parts);
    }
    throw new SyscallError("UNAVAILABLE", `There is no run here to keep data beside (scope "${scope}").`);
  }

  /** A name that no document can have: "~" is not among its letters. */
  #lockFile(scope: Scope): string {
    return join(this.#folder(scope), "~lock");
  }

  #names(dir: string): Promise<string[]> {
    return namesIn(this.#fs, dir, "list the plugin's documents");
  }

  #requireWritable(scope: Scope): void {
    if (scope !== "tree" || this.#options.isTreeReadOnly !== true) return;
    throw new SyscallError("PERMISSION", "A call of the user about a run only reads the data of its tree.");
  }

  async #locked<T>(scope: Scope, path: string, change: () => Promise<T>): Promise<T> {
    const data = this.#dataDir(scope);
    // Also writes the .gitignore of the data folder, which may not exist yet.
    if (data !== undefined) prepareDataDir(data, this.#fs);
    makeFolder(dirname(path), this.#fs);
    const lock = await FileLock.acquire(this.#lockFile(scope), LOCK_WAIT_MS, this.#clock);
    try {
      await this.#sweep(dirname(path));
      return await change();
    } finally {
      lock.release();
    }
  }

  /** What a killed writer left is repaired before the next read. While a live one holds the lock there is nothing to do. */
  async #recover(scope: Scope, dir: string): Promise<void> {
    if (!(await this.#names(dir)).some((name) => name.endsWith(".swap.tmp"))) return;
    const lock = FileLock.tryAcquire(this.#lockFile(scope));
    try {
      if (lock) await this.#sweep(dir);
    } finally {
      lock?.release();
    }
  }

  /** We hold the lock: a temporary file that is there now was left by a writer that was killed. */
  async #sweep(dir: string): Promise<void> {
    const left = await this.#names(dir);
    const { recoverSwaps } = await import("./files/checked-replace.ts");
    const ports = { fs: this.#fs, clock: this.#clock };
    for (const path of await recoverSwaps(dir, left, ports)) this.#options.onRecovered?.(path);
    for (const name of await this.#names(dir)) {
      if (!name.startsWith("~") || !name.endsWith(".tmp")) continue;
      const path = join(dir, name);
      try {
        await nodeFs.promises.rm(path, { force: true });
      } catch (error) {
        if (errnoOf(error) !== "ENOENT") throw ioError(error, "remove a leftover of a killed writer", path);
      }
    }
  }
}

const NAME = /^[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/;
/** With the versions that its temporary file names, a name still fits a file system. */
const MAX_NAME_CHARS = 200;

function checkName(name: string, what: string): void {
  const parts = name.split("/");
  if (NAME.test(name) && name.length <= MAX_NAME_CHARS && !parts.some((part) => /^\.+$/.test(part))) return;
  const message = `Expected the name of a ${what}: letters, digits, ".", "_", "-" and "/", no part of dots alone, at most ${MAX_NAME_CHARS} characters; got ${JSON.stringify(name.slice(0, 300))}.`;
  throw new SyscallError("INVALID", message);
}

function changed(doc: string, exists: boolean, expected: string | null): SyscallError {
  const found = exists ? "it has another version" : "it does not exist";
  const wanted = expected === null ? "that it does not exist" : `version ${expected.slice(0, 12)}…`;
  const message = `${doc} has changed: expected ${wanted}, but ${found}. Read it again, make the change again.`;
  return new SyscallError("INVALID", message, { retryable: true });
}

export function recoveredText(file: string): string {
  return `${file}: a program saved it twice while a crash interrupted us; the earlier text is in ${file}.recovered`;
}

function asObject(value: unknown): object {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw new TypeError("not an object"); // Counted as damaged.
}

/** The folder below a root run's `plugins`, for the data of its whole tree. No plugin has this name. */
export const TREE = ".tree";

interface DataFolders {
  /** The run's folder; undefined for a mount, which belongs to no run. */
  run?: string;
  /** The folder of the root run of its tree; undefined where there is none. */
  tree?: string;
  project: { id: string; dataDir: string };
  /** The user's data folder. */
  user: string;
}

/**
 * The folder of each scope in which a plugin has a folder of its name. People look for the documents of stock plugins
 * (embedded in the binary), so these are not below `plugins/`. In a data folder that several projects share, each
 * project has a place of its own.
 */
export function pluginFolders(
  isStock: boolean,
  { run, tree, project, user }: DataFolders,
): { run?: string; tree?: string; project: string; user: string } {
  const below = {
    ...(run !== undefined && { run: join(run, "plugins") }),
    ...(tree !== undefined && { tree: join(tree, "plugins", TREE) }),
  };
  if (!isStock) return { ...below, project: join(project.dataDir, "plugins"), user: join(user, "plugins") };
  const isOwn = projectOf(project.dataDir) !== null;
  return { ...below, project: isOwn ? project.dataDir : join(project.dataDir, "projects", project.id), user };
}
