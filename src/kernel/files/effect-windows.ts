/** The files that calls change: when each was changed, and what the record of a step says of them. */

import { lstat, mkdtemp, rmdir } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../lib/clock.ts";
import type { Child, ExecRequest } from "../../plugin/index.ts";
import type { Process } from "../process/process.ts";
import type { Core } from "../tiers/core.ts";
import type { PID } from "../types.ts";
import type { ChangeTracker } from "./change-tracker.ts";
import type { WorkTreeOptions } from "./git-work-tree.ts";

/** The clock of a file system is coarser than ours. */
const SLACK_MS = 25;
/** Windows closer than this become one. */
const JOINED_MS = 100;
/** More windows than this become fewer, longer ones. */
const MAX_WINDOWS = 1000;

interface Windows {
  closed: { from: number; to: number }[];
  open: number;
  /** Calls that wait for a person. */
  paused: number;
  /** When the first of the open ones began. */
  since: number;
  /** When its first program began, which may change files that nothing reports. */
  firstProgram: number | undefined;
}

export class EffectWindows<P extends object = Process> {
  readonly #clock: Pick<Clock, "now">;
  readonly #table: { ancestry(proc: P): readonly P[] };
  readonly #of = new WeakMap<P, Windows>();

  /** What a process does counts for all its ancestors. */
  constructor(clock: Pick<Clock, "now">, table: { ancestry(proc: P): readonly P[] }) {
    this.#clock = clock;
    this.#table = table;
  }

  /** Opens a window. The returned function closes it; later calls of it do nothing. */
  begin(proc: P, what: "call" | "program"): () => void {
    const now = this.#clock.now();
    const touched = this.#table.ancestry(proc).map((one) => this.#windowsOf(one));
    for (const windows of touched) open(windows, now, what);
    let closed = false;
    return () => {
      if (closed) return;
      closed = true;
      for (const windows of touched) close(windows, this.#clock.now());
    };
  }

  /** A call waits for a person, who may change files meanwhile. The returned function ends the wait. */
  pause(proc: P): () => void {
    const touched = this.#table
      .ancestry(proc)
      .map((one) => this.#windowsOf(one))
      .filter((windows) => windows.open > 0);
    for (const windows of touched) {
      windows.paused++;
      close(windows, this.#clock.now());
    }
    return () => {
      for (const windows of touched) {
        windows.paused--;
        open(windows, this.#clock.now(), "call");
      }
    };
  }

  /** Whether a call or a program of the process is under way, or a call waits. */
  isOpen(proc: P): boolean {
    const { open = 0, paused = 0 } = this.#of.get(proc) ?? {};
    return open + paused > 0;
  }

  /** Whether a change at this time can be the run's. */
  covers(proc: P, ms: number): boolean {
    const { closed, open, since } = this.#windowsOf(proc);
    if (open > 0 && ms >= since - SLACK_MS) return true;
    return closed.some(({ from, to }) => ms >= from - SLACK_MS && ms <= to + SLACK_MS);
  }

  /** Whether a program of the run may have changed a file that was changed again at this time by another. */
  mayHide(proc: P, ms: number): boolean {
    const { firstProgram } = this.#windowsOf(proc);
    return firstProgram !== undefined && ms >= firstProgram - SLACK_MS;
  }

  #windowsOf(proc: P): Windows {
    const none = () => ({ closed: [], open: 0, paused: 0, since: 0, firstProgram: undefined });
    return this.#of.getOrInsertComputed(proc, none);
  }
}

function open(windows: Windows, now: number, what: "call" | "program"): void {
  if (what === "program") windows.firstProgram ??= now;
  if (windows.open++ > 0) return;
  const last = windows.closed.at(-1);
  windows.since = now;
  if (last === undefined || now - last.to > JOINED_MS) return;
  windows.since = last.from;
  windows.closed.pop();
}

function close(windows: Windows, now: number): void {
  if (--windows.open > 0) return;
  windows.closed.push({ from: windows.since, to: now });
  const [first, second] = windows.closed;
  if (windows.closed.length > MAX_WINDOWS && first && second)
    windows.closed.splice(0, 2, { from: first.from, to: second.to });
}

/** Maximum difference between the file system's clock and ours, including the time of the check. */
const MAX_SKEW_MS = 1000;
const AGREEMENT_MS = 60_000;

/** Runs a program of Rnix itself for a process. */
type ExecAlone = (proc: Process, request: ExecRequest) => Promise<Child>;

/**
 * What a run changes: in a git work tree, the files that are not ignored, differ between two steps, and were last
 * changed while a call or a program of the run was under way. A change at any other time is the user's or another
 * program's. Elsewhere only the files that tools report are known, and the receipt's `files_changed_complete` is false. A run
 * without a call that may change something changed nothing and asks nothing.
 */
export class ChangedFiles {
  readonly #core: Core;
  readonly #windows: EffectWindows;
  readonly #exec: ExecAlone;
  readonly #trackers = new WeakMap<Process, Promise<ChangeTracker>>();
  /** When the clocks of a process's file system and ours agreed last. */
  readonly #agreed = new WeakMap<Process, number>();

  constructor(core: Core, windows: EffectWindows, exec: ExecAlone) {
    this.#core = core;
    this.#windows = windows;
    this.#exec = exec;
  }

  /** A call that may change files is made; the returned function ends it. */
  call(proc: Process): () => void {
    return this.#windows.begin(proc, "call");
  }

  /** Before the first call of a step that is not read-only. `onlyReads`: it is not expected to change files. */
  async begin(proc: Process, onlyReads: boolean): Promise<void> {
    const known = this.#trackers.get(proc);
    const tracker = known ?? this.#track(proc);
    this.#trackers.set(proc, tracker);
    // A failure is that of the first call that may change files.
    if (onlyReads) await tracker.catch(() => undefined);
    else if (known) await (await known).next(proc.run.step, { signal: proc.signal });
    else await tracker;
  }

  /** After the calls of a step; nothing waits for it. */
  settle(proc: Process): void {
    const isQuiet = (): boolean => this.isQuiet(proc);
    this.#whenBegun(proc, (tracker) => tracker.settle({ signal: proc.signal }, isQuiet));
  }

  /** A tool is about to change a file. */
  async writing(proc: Process, file: string): Promise<void> {
    await (await this.#trackers.get(proc))?.writing(file);
  }

  /** A tool has changed a file. */
  written(proc: Process, file: string): void {
    this.#whenBegun(proc, (tracker) => tracker.written(file));
  }

  /** Records what a live process has changed so far. */
  async refresh(proc: Process): Promise<void> {
    await (await this.#trackers.get(proc))?.refresh();
  }

  /** Whether no call and no program of the process is under way. */
  isQuiet(proc: Process): boolean {
    return !this.#windows.isOpen(proc);
  }

  /** At the run's end, while it may still start programs. */
  async end(proc: Process): Promise<void> {
    const begun = this.#trackers.get(proc);
    // Changes before a crash are unknown.
    const knownSoFar = proc.spec.progress?.before?.files_changed_complete ?? true;
    if (!begun) {
      proc.result.filesChangedComplete = knownSoFar;
      return;
    }
    const tracker = await begun;
    await tracker.end({ soon: proc.stopped !== undefined });
    for (const file of tracker.changed()) proc.result.filesChanged.add(file);
    proc.result.filesChangedComplete = knownSoFar && tracker.complete;
  }

  /** A tracker that could not begin has failed the call that `begin` was called for. */
  #whenBegun(proc: Process, use: (tracker: ChangeTracker) => void): void {
    void this.#trackers.get(proc)?.then(use, () => undefined);
  }

  async #track(proc: Process): Promise<ChangeTracker> {
    const { clock, warn } = this.#core;
    const windows = this.#windows;
    // A run that changes nothing needs none of it.
    const [{ ChangeTracker }, { WorkTree }, { FileStates }, { FolderWatch }] = await Promise.all([
      import("../files/change-tracker.ts"),
      import("../files/git-work-tree.ts"),
      import("../files/file-states.ts"),
      import("../../os/folder-watch.ts"),
    ]);
    const options = { ...this.#options(proc), watch: () => FolderWatch.open() };
    const tree = await WorkTree.open(options).catch(() => null);
    const { project, limits } = proc.spec.opts;
    return ChangeTracker.begin(
      {
        dir: project.dir,
        tree,
        kept: { objects: proc.record.objects.objects, maxBytes: limits.undo_per_run },
        states: new FileStates({
          put: (content) => proc.record.objects.put(content),
          most: limits.undo_file_size,
          format: tree?.format ?? "sha1",
        }),
        record: (...lines) => proc.record.change(...lines),
        now: () => clock.now(),
        isOwn: (ms) => windows.covers(proc, ms),
        isOutput: (stat) =>
          (proc.spec.opts.outputs ?? []).some(
            ({ dev, ino, ctimeMs = stat.ctimeMs }) =>
              dev === stat.dev && ino === stat.ino && ctimeMs === stat.ctimeMs,
          ),
        mayHide: (ms) => windows.mayHide(proc, ms),
        comparable: () => this.#clocksAgree(proc),
        warn: (text) => warn(`PID ${proc.pid}`, `changed files: ${text}`),
      },
      proc.run.step,
      { signal: proc.signal },
    );
  }

  /** A network file system has a clock of its own: then times say nothing. Agreement is checked once a minute. */
  async #clocksAgree(proc: Process): Promise<boolean> {
    const now = this.#core.clock.monotonic();
    if (now - (this.#agreed.get(proc) ?? Number.NEGATIVE_INFINITY) < AGREEMENT_MS) return true;
    const agree = await this.#compareClocks(proc);
    if (agree) this.#agreed.set(proc, now);
    return agree;
  }

  async #compareClocks(proc: Process): Promise<boolean> {
    try {
      const probe = await mkdtemp(join(proc.record.dir, "clock-"));
      const skew = (await lstat(probe)).ctimeMs - this.#core.clock.now();
      await rmdir(probe);
      return Math.abs(skew) <= MAX_SKEW_MS;
    } catch {
      return false;
    }
  }

  #options(proc: Process): Omit<WorkTreeOptions, "watch"> {
    const { project, folders = [], env } = proc.spec.opts;
    return {
      dir: project.dir,
      untrusted: [project.dir, ...folders],
      env,
      scratch: proc.record.dir,
      now: () => this.#core.clock.now(),
      exec: (request) => this.#exec(proc, request),
    };
  }
}

/** What live processes change in files, for a user who looks at it or takes it back. */
export class LiveChanges {
  readonly #parts: Core & { changes: ChangedFiles };

  constructor(parts: Core & { changes: ChangedFiles }) {
    this.#parts = parts;
  }

  /** Records everything that the process has changed so far. */
  refresh(pid: PID): Promise<void> {
    return this.#parts.changes.refresh(this.#parts.table.get(pid));
  }

  /** Whether the process waits for its user or is paused, and no call or program of it is under way. */
  isQuiet(pid: PID): boolean {
    const proc = this.#parts.table.get(pid);
    return (proc.paused || proc.waitsForMessage) && this.#parts.changes.isQuiet(proc);
  }

  /** Changes of the process were taken back: its model is notified. */
  async undone(pid: PID): Promise<void> {
    const proc = this.#parts.table.get(pid);
    await this.#parts.changes.refresh(proc);
    const { clock, notify, runs } = this.#parts;
    const stored = runs(proc.spec.opts.project.dataDir);
    const { notifyUndos } = await import("../resume/undo-notice.ts");
    await notifyUndos(proc, stored, clock.now(), (text) => notify(proc, "rnix", text));
  }
}
