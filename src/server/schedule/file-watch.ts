/** Watches the files of a job with `on_change`. */

import { type FSWatcher, watch } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { isAbsolute, join, relative } from "node:path";
import { z } from "zod";
import { CRON } from "../../cron/cron-folder.ts";
import { JOB_DEFAULTS } from "../../cron/job-defaults.ts";
import type { EventSource, JobEvents } from "../../cron/ports.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import { MAX_AGE_MS, parseDuration } from "../../lib/duration.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { requireNoLink } from "../../store/files/data-dir.ts";
import { makeFolder, parseDocument, readDocument, replaceDocument } from "../../store/files/document.ts";

/** Between two looks at the files: the system's events are a hint only, and other machines may change the files. */
const POLL_MS = 30_000;
/** Without the system's events, and for changes during a run, which count after it. */
const FAST_POLL_MS = 3_000;
/** The wait after the first event of several. */
const EVENT_MS = 200;
const MAX_FILES = 20_000;
/** Folders that are looked into only if a glob names them. */
const PRUNED = [".git", "node_modules", ".rnix"];

/** The state of the files, and how many events it has made. */
export interface WatchState {
  seq: number;
  files: Record<string, string>;
}

interface FileWatchPorts {
  clock: Clock;
  /** What was seen last, also by an earlier daemon; null: nothing yet. */
  load(): Promise<WatchState | null>;
  save(state: WatchState): Promise<void>;
  warn(text: string): void;
}

/** Reports a change when the files have been unchanged for `debounce`. Changes of the job's own run are none. */
export class FileWatch implements EventSource {
  readonly #dir: string;
  readonly #globs: readonly { glob: Bun.Glob; text: string }[];
  readonly #debounceMs: number;
  readonly #events: JobEvents;
  readonly #ports: FileWatchPorts;
  #state: WatchState | null = null;
  readonly #watchers: FSWatcher[] = [];
  #lookAt = 0;
  #timer: Timer | undefined;
  #looking = false;
  /** Work of the job that is under way. */
  #working = 0;
  /** Never rejects. */
  #saving: Promise<void> = Promise.resolve();
  #closed = false;
  /** What the files were at the last look, and since when. */
  #pending: { print: string; since: number } | undefined;
  #warned = "";

  constructor(
    dir: string,
    trigger: { on_change: string[]; debounce?: string },
    events: JobEvents,
    ports: FileWatchPorts,
  ) {
    this.#dir = dir;
    this.#globs = trigger.on_change.map((text) => ({ glob: new Bun.Glob(text.replace(/^\.\//, "")), text }));
    this.#debounceMs =
      trigger.debounce === undefined ? JOB_DEFAULTS.debounceMs : parseDuration(trigger.debounce, MAX_AGE_MS);
    this.#events = events;
    this.#ports = ports;
    this.#watch();
    this.#soon(0);
  }

  /** Waits for what is being written. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    this.#unwatch();
    await this.#saving;
  }

  ranOver(files: readonly string[] | null): Promise<void> {
    const state = this.#state;
    if (!state) return Promise.resolve();
    const adopted = this.#print()
      .then((now) => {
        const own =
          files?.map((file) => (isAbsolute(file) ? relative(this.#dir, file) : file)) ??
          Object.keys({ ...now, ...state.files });
        return this.#take(own, now, state);
      })
      .then(() => this.#soon(0))
      .catch((thrown: unknown) => this.#warn(thrown));
    const before = this.#saving;
    this.#saving = adopted.then(() => before);
    return adopted;
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#working++;
    try {
      const before = await this.#printOrNull();
      try {
        return await work();
      } finally {
        if (before) await this.#adopt(before);
      }
    } finally {
      this.#working--;
      this.#soon(0);
    }
  }

  /** The folders that globs begin with; of the whole project only what lies directly in it: it may be large. */
  #watch(): void {
    const roots = this.#globs.map(({ text }) => rootOf(text));
    const isWhole = this.#globs.some(({ text }) => rootOf(text) === "" && text.includes("**"));
    try {
      for (const root of isWhole ? [] : new Set(roots)) {
        const options = { recursive: root !== "" };
        const watcher = watch(join(this.#dir, root), options, () => this.#soon(EVENT_MS));
        watcher.on("error", () => this.#unwatch());
        this.#watchers.push(watcher);
      }
    } catch {
      this.#unwatch(); // The folder is missing, or the system has no watches left: the poll remains.
    }
  }

  #unwatch(): void {
    for (const watcher of this.#watchers.splice(0)) watcher.close();
  }

  /** The earliest of several looks counts, so that a busy folder does not delay it. */
  #soon(ms: number): void {
    const at = this.#ports.clock.monotonic() + ms;
    if (this.#closed || (this.#timer && this.#lookAt <= at)) return;
    this.#timer?.cancel();
    this.#lookAt = at;
    this.#timer = this.#ports.clock.timer(ms, () => void this.#look());
  }

  async #look(): Promise<void> {
    this.#timer = undefined;
    if (this.#looking || this.#closed) return;
    this.#looking = true;
    let wait = this.#watchers.length > 0 ? POLL_MS : FAST_POLL_MS;
    try {
      wait = (await this.#compare()) ?? wait;
      this.#warned = "";
    } catch (thrown) {
      this.#warn(thrown);
    } finally {
      this.#looking = false;
      this.#soon(wait);
    }
  }

  /** Returns when to look again, if that is soon. */
  async #compare(): Promise<number | undefined> {
    const { clock, load } = this.#ports;
    const first = this.#state === null;
    this.#state ??= await load();
    const files = await this.#print();
    if (this.#closed) return undefined;
    if (!this.#state) {
      this.#state = { seq: 0, files };
      await this.#save(this.#state);
      return undefined;
    }
    const print = printOf(files);
    if (print === printOf(this.#state.files)) {
      this.#pending = undefined;
      return undefined;
    }
    // A daemon that was away can't tell when they were changed.
    if (this.#events.isLive() || this.#working > 0) return FAST_POLL_MS;
    if (this.#pending?.print !== print)
      this.#pending = { print, since: first ? clock.now() - this.#debounceMs : clock.now() };
    const left = this.#debounceMs - (clock.now() - this.#pending.since);
    if (left > 0 && left <= this.#debounceMs) return left;
    const seq = this.#state.seq + 1;
    // A crash between the two: the same number is not accepted again.
    await this.#events.accept({ cause: `change ${seq} ${print}` });
    this.#state = { seq, files };
    this.#pending = undefined;
    await this.#save(this.#state);
    return undefined;
  }

  /** Takes the files that have changed since `before` as seen. */
  async #adopt(before: Record<string, string>): Promise<void> {
    const after = await this.#printOrNull();
    const state = this.#state;
    if (!after || !state) return;
    const changed = Object.keys({ ...before, ...after }).filter((file) => before[file] !== after[file]);
    if (changed.length === 0) return;
    await this.#take(changed, after, state).catch((thrown: unknown) => this.#warn(thrown));
  }

  async #take(files: readonly string[], now: Record<string, string>, state: WatchState): Promise<void> {
    for (const file of files) {
      const print = now[file];
      if (print === undefined) delete state.files[file];
      else state.files[file] = print;
    }
    await this.#save(state);
  }

  async #save(state: WatchState): Promise<void> {
    const before = this.#saving;
    const saved = this.#ports.save(state);
    this.#saving = saved.then(
      () => before,
      () => before,
    );
    await saved;
  }

  /** null: the look says why not. */
  async #printOrNull(): Promise<Record<string, string> | null> {
    return this.#print().catch((thrown: unknown) => {
      this.#warn(thrown);
      return null;
    });
  }

  /** Every file that a glob covers, with what changes when it does. */
  async #print(): Promise<Record<string, string>> {
    const found: Record<string, string> = {};
    let count = 0;
    const visit = async (folder: string): Promise<void> => {
      for (const entry of await readdir(join(this.#dir, folder), { withFileTypes: true }).catch(() => [])) {
        const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
        if (entry.isDirectory()) {
          const pruned =
            PRUNED.includes(entry.name) && !this.#globs.some(({ text }) => text.includes(entry.name));
          if (!pruned && this.#mayHold(path)) await visit(path);
        } else if (this.#globs.some(({ glob }) => glob.match(path))) {
          if (++count > MAX_FILES)
            throw new SyscallError("EXHAUSTED", `on_change: more than ${MAX_FILES} files match. Name fewer.`);
          const facts = await stat(join(this.#dir, path)).catch(() => null);
          if (facts) found[path] = `${facts.mtimeMs} ${facts.size} ${facts.ino}`;
        }
      }
    };
    await visit("");
    return found;
  }

  /** Whether a glob may match below this folder. */
  #mayHold(folder: string): boolean {
    return this.#globs.some(({ text }) => {
      const root = rootOf(text);
      const parts = root === "" ? "" : `${root}/`;
      return `${folder}/`.startsWith(parts) || parts.startsWith(`${folder}/`);
    });
  }

  /** Once for the same cause. */
  #warn(thrown: unknown): void {
    const text = messageOf(thrown);
    if (text !== this.#warned) this.#ports.warn(text);
    this.#warned = text;
  }
}

/** The folder before the first wildcard, "" for the project's. */
function rootOf(glob: string): string {
  const fixed = glob.replace(/^\.\//, "").split(/[*?[{]/, 1)[0] ?? "";
  return fixed.slice(0, Math.max(0, fixed.lastIndexOf("/")));
}

function printOf(files: Record<string, string>): string {
  const lines = Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1));
  return Bun.hash(JSON.stringify(lines)).toString(36);
}

const State = z.lazy(() =>
  z.object({ v: z.literal(1), seq: z.number(), files: z.record(z.string(), z.string()) }),
);

export function watchStateIn(
  dataDir: string,
  jobId: string,
): {
  load(): Promise<WatchState | null>;
  save(state: WatchState): Promise<void>;
} {
  const parts = [CRON, "watch"];
  const folder = join(dataDir, ...parts);
  const path = join(folder, `${jobId}.json`);
  return {
    async load() {
      requireNoLink(dataDir, parts);
      const found = await readDocument(path);
      return found && parseDocument(State, found.text, path);
    },
    async save(state) {
      requireNoLink(dataDir, parts);
      makeFolder(folder);
      await replaceDocument(path, JSON.stringify({ v: 1, ...state }));
    },
  };
}
