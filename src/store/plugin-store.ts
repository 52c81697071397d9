/** Stores documents and logs of one plugin. */

import nodeFs from "node:fs";
import { dirname, join } from "node:path";
import { type Scope, type Store, SyscallError } from "../plugin/index.ts";
import { AppendLog, readLog } from "./files/append-log.ts";
import { makeFolder, readDocument, replaceDocument } from "./files/document.ts";
import { FileLock, type LockClock, systemLockClock } from "./files/file-lock.ts";
import { errno, type FsPort, ioError, realFs } from "./files/fs-port.ts";

/** Maximum wait for the lock. A write takes less, so an owner that holds it longer hangs. */
const LOCK_WAIT_MS = 10_000;
const MAX_DOCUMENT_CHARS = 16 * 1024 * 1024;
const PAGE = 1_000;

interface PluginStoreOptions {
  /** The plugin's name; its files are in a folder of this name in each scope. */
  plugin: string;
  /** Folders of the scopes, absolute. No `run`: the opening process has none, the scope is UNAVAILABLE. */
  run?: string;
  project: string;
  user: string;
  /** Called with the lines that could not be read. */
  onDamaged?(log: string, damaged: number, lines: readonly number[]): void;
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
    return readDocument(this.#path(scope, doc), this.#fs);
  }

  async replace(scope: Scope, doc: string, text: string, ifVersion: string | null): Promise<string> {
    const path = this.#path(scope, doc);
    if (text.length > MAX_DOCUMENT_CHARS) {
      throw new SyscallError(
        "EXHAUSTED",
        `${doc} would have ${text.length} characters; the limit is ${MAX_DOCUMENT_CHARS}. Split it.`,
      );
    }
    return this.#locked(scope, path, async () => {
      const there = await readDocument(path, this.#fs);
      if ((there?.version ?? null) !== ifVersion) throw changed(doc, there !== null, ifVersion);
      return replaceDocument(path, text, this.#fs);
    });
  }

  async append(scope: Scope, log: string, line: object): Promise<void> {
    const path = this.#path(scope, log);
    const file = new AppendLog(path, `${log} of plugin ${this.#options.plugin}`, { fs: this.#fs });
    const json = JSON.stringify(line);
    await this.#locked(scope, path, async () => file.append(json));
    await file.sync();
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
      if (page.next === from) break;
      from = page.next;
    }
    return lines;
  }

  #path(scope: Scope, name: string): string {
    checkName(name, "document or log");
    return join(this.#folder(scope), name);
  }

  #folder(scope: Scope): string {
    const dir = this.#options[scope];
    if (dir !== undefined) return join(dir, this.#options.plugin);
    throw new SyscallError("UNAVAILABLE", `There is no run here to keep data beside (scope "${scope}").`);
  }

  async #locked<T>(scope: Scope, path: string, change: () => Promise<T>): Promise<T> {
    makeFolder(dirname(path), this.#fs);
    // A name no document can have: "~" is not among its letters.
    const lock = await FileLock.acquire(join(this.#folder(scope), "~lock"), LOCK_WAIT_MS, this.#clock);
    try {
      await this.#sweep(dirname(path));
      return await change();
    } finally {
      lock.release();
    }
  }

  /** We hold the lock: a temporary file that is there now was left by a writer that was killed. */
  async #sweep(dir: string): Promise<void> {
    for (const name of await this.#fs.list(dir)) {
      if (!name.startsWith("~") || !name.endsWith(".tmp")) continue;
      const path = join(dir, name);
      try {
        await nodeFs.promises.rm(path, { force: true });
      } catch (error) {
        if (errno(error) !== "ENOENT") throw ioError(error, "remove a leftover of a killed writer", path);
      }
    }
  }
}

const NAME = /^[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/;
const MAX_NAME_CHARS = 240;

function checkName(name: string, what: string): void {
  const parts = name.split("/");
  if (NAME.test(name) && name.length <= MAX_NAME_CHARS && !parts.some((part) => /^\.+$/.test(part))) return;
  throw new SyscallError(
    "INVALID",
    `Expected the name of a ${what}: letters, digits, ".", "_", "-" and "/", no part of dots alone, at most ${MAX_NAME_CHARS} characters; got ${JSON.stringify(name.slice(0, 300))}.`,
  );
}

function changed(doc: string, exists: boolean, expected: string | null): SyscallError {
  const found = exists ? "it has another version" : "it does not exist";
  const wanted = expected === null ? "that it does not exist" : `version ${expected.slice(0, 12)}…`;
  return new SyscallError(
    "INVALID",
    `${doc} has changed: expected ${wanted}, but ${found}. Read it again, make the change again.`,
    { retryable: true },
  );
}

function asObject(value: unknown): object {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw new TypeError("not an object"); // Counted as damaged.
}
