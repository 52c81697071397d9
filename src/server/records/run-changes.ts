/** What runs changed in files: shows it, and takes it back. */

import { isAbsolute, join, relative } from "node:path";
import { toolEnvironment } from "../../config/environment/environment.ts";
import type { Env } from "../../config/environment/paths.ts";
import { GitDiff, type LineCounts } from "../../kernel/files/git-diff.ts";
import { Git } from "../../kernel/files/git-repository.ts";
import type { ProcInfo } from "../../kernel/types.ts";
import type { Clock } from "../../lib/clock.ts";
import { isOddName } from "../../lib/file-name.ts";
import { isWithin } from "../../lib/inner-path.ts";
import type { Children } from "../../os/children.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { FileChange, RunDiff, StepChanges, UndoReport } from "../../protocol/methods.ts";
import type { ChangeLine, FileState } from "../../store/changes/change-log.ts";
import {
  type ChangeHistory,
  type FileHistory,
  foldChanges,
  netChanges,
} from "../../store/changes/fold-changes.ts";
import { CHANGES, type ObjectStore } from "../../store/changes/object-store.ts";
import type { LogPage } from "../../store/files/read-log.ts";
import { removeOld } from "../../store/files/remove-old.ts";
import { TimeSlices } from "../../store/files/time-slice.ts";
import { foreignLines, requireOwn } from "../../store/runs/own-run.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import type { Run } from "./recorded-run.ts";
import { interruptedLine, planRedo, planUndo, UndoFiles } from "./undo-files.ts";

/** Older work of git was left by a daemon that was killed. */
const LEFT_MS = 60 * 60_000;

interface RunChangesPorts {
  children: Pick<Children, "exec">;
  env: Env;
  clock: Pick<Clock, "now">;
  open(dataDir: string): RunStore;
  /** A folder for git's work, absolute; outside of all projects. */
  scratch: string;
}

interface DiffQuery {
  /** Absolute files and folders; empty: all. */
  files: readonly string[];
  /** Only changes of this step. */
  step?: number;
  /** Only changes of this step and later ones. */
  fromStep?: number;
  patch: boolean;
}

interface UndoQuery {
  /** Absolute files and folders; empty: all. */
  files: readonly string[];
  /** The last step whose changes stay. */
  toStep: number;
  redo: boolean;
  dryRun: boolean;
  /** Overwrites what others changed since. */
  force: boolean;
}

/** A run with its changes, read once for a request. */
interface ReadRun {
  info: ProcInfo;
  history: ChangeHistory;
  store: ObjectStore;
  notes: string[];
  /** Lines of its changes are not there any more; null: all are. */
  lost: string | null;
}

export class RunChanges {
  readonly #p: RunChangesPorts;
  #swept: Promise<void> | undefined;

  constructor(ports: RunChangesPorts) {
    this.#p = ports;
  }

  /** `live`: the run's process has not ended, and everything up to now is recorded. */
  async diff(run: Run, query: DiffQuery, live: boolean): Promise<RunDiff> {
    const read = await this.#read(run, live);
    const { history, notes } = read;
    const chosen = stepsOf(query);
    const valid = netChanges(history, chosen).filter(({ path }) => isChosen(read, path, query.files));
    const undone = netChanges(history, { ...chosen, undone: true }).filter(
      ({ path }) => isChosen(read, path, query.files) && !valid.some((one) => one.path === path),
    );
    requireKnown(read, query.files);
    const all = [
      ...valid.map((net) => ({ net, undone: false })),
      ...undone.map((net) => ({ net, undone: true })),
    ];
    const git = await this.#gitDiff(read);
    const nets = all.map(({ net }) => net);
    const counts = await countsOf(git, nets);
    const files = all.map(({ net, undone: gone }, i): FileChange => {
      const { path, before, after, steps } = net;
      const problem = problemOf(net) ?? (isAbsolute(path) ? OUTSIDE : isOddName(path) ? ODD_NAME : null);
      return {
        path,
        status: statusOf(before, after),
        ...NOT_COUNTED,
        ...counts[i],
        steps,
        undone: gone,
        problem,
      };
    });
    const ofSteps = valid.map(({ path }) => fileOf(history, path, chosen));
    const bySteps = await this.#bySteps(read, ofSteps);
    const shown = new Map(
      valid
        .filter((net) => !isAbsolute(net.path) && !isOddName(net.path) && isKept(net))
        .map((net) => [net.path, net]),
    );
    const patch = query.patch && git ? await git.patch(shown) : null;
    if (!git && all.length > 0)
      notes.push("git is not installed: lines are not counted, and there is no patch");
    if (query.patch && git && patch === null)
      notes.push("the patch would be too long: name files, or --step");
    return {
      ...headOf(read),
      files,
      patch,
      notes,
      steps: [...bySteps].sort(([a], [b]) => a - b).map(([step, sums]) => ({ step, ...sums })),
    };
  }

  async bySteps(run: Run, live: boolean): Promise<Map<number, StepChanges>> {
    const read = await this.#read(run, live);
    return this.#bySteps(read, [...read.history.files.values()]);
  }

  async #bySteps(read: ReadRun, files: readonly FileHistory[]): Promise<Map<number, StepChanges>> {
    const slices = new TimeSlices();
    const all: { step: number; net: Pair }[] = [];
    for (const file of files) {
      for (const step of new Set(file.changes.filter(({ undone }) => !undone).map((one) => one.step))) {
        const [net] = netChanges({ files: new Map([[file.path, file]]) }, { after: step - 1, until: step });
        if (net) all.push({ step, net });
      }
      await slices.pause();
    }
    const nets = all.map(({ net }) => net);
    const counts = await countsOf(all.length > 0 ? await this.#gitDiff(read) : null, nets);
    const found = new Map<number, StepChanges>();
    all.forEach(({ step }, i) => {
      const sum = found.get(step) ?? { files: 0, added: 0, removed: 0 };
      sum.files++;
      sum.added += counts[i]?.added ?? 0;
      sum.removed += counts[i]?.removed ?? 0;
      found.set(step, sum);
    });
    return found;
  }

  /** The caller has made sure that no process of the run changes files meanwhile. */
  async undo(run: Run, query: UndoQuery, live: boolean): Promise<UndoReport> {
    const { info } = run;
    requireOwn(info);
    if (query.force && query.files.length === 0) {
      const message = "--force needs the files whose changes by others may be lost: name them.";
      throw new SyscallError("INVALID", message);
    }
    const records = this.#p.open(run.records.dataDir);
    const claim = live ? undefined : records.claim(info.uuid);
    if (claim === null) {
      throw new SyscallError("INVALID", `Run ${info.uuid} is being resumed, or undone, by another command.`);
    }
    try {
      const first = await this.#read(run, live);
      const files = new UndoFiles({ store: first.store, project: info.project });
      if (first.history.interrupted && !query.dryRun) {
        await records.addChange(
          info.uuid,
          await interruptedLine(files, first.history.interrupted, this.#ts()),
        );
      }
      const read = first.history.interrupted && !query.dryRun ? await this.#read(run, live) : first;
      requireWhole(read, query);
      requireKnown(read, query.files);
      const planned = query.redo ? planRedo(read.history) : planUndo(read.history, query.toStep);
      const chosen = {
        ...planned,
        files: planned.files.filter(({ path }) => isChosen(read, path, query.files)),
      };
      const done = query.dryRun
        ? await files.look(chosen, query)
        : await files.apply(chosen, query, (line) =>
            records.addChange(info.uuid, { ...line, ts: this.#ts() }),
          );
      const pairs = chosen.files.map(({ from, to }, i) =>
        done[i]?.done === "refused" ? UNKNOWN : { before: from, after: to },
      );
      const counts = await countsOf(await this.#gitDiff(read), pairs);
      return {
        ...headOf(read),
        redo: query.redo,
        dry_run: query.dryRun,
        to_step: planned.toStep,
        files: done.map((one, i) => ({ ...NOT_COUNTED, ...one, ...counts[i] })),
        refused: done.filter((one) => one.done === "refused").length,
        warnings: query.redo ? [] : await warningsOf(run, planned.toStep),
        notes: read.notes,
      };
    } finally {
      claim?.release({ remove: true });
    }
  }

  async #read(run: Run, live: boolean): Promise<ReadRun> {
    const { info } = run;
    const records = this.#p.open(run.records.dataDir);
    const page = await records.changes(info.uuid);
    if (page.foreign > 0 && !info.foreign) throw foreignLines(info.uuid, CHANGES, page.foreign);
    const history = foldChanges(page.records, live);
    const notes = notesOf(history);
    if (page.damaged > 0) notes.push(`${page.damaged} lines of ${CHANGES} of its record can't be read`);
    const lost = lostOf(page, info);
    if (lost !== null) notes.push(lost);
    return { info, history, store: records.objects(info.uuid), notes, lost };
  }

  /** null where there is no git that the run can't have written. */
  async #gitDiff({ info, store }: ReadRun): Promise<GitDiff | null> {
    const dir = this.#p.scratch;
    this.#swept ??= removeOld(dir, this.#p.clock.now() - LEFT_MS);
    await this.#swept;
    const owner = { uuid: crypto.randomUUID(), spillDir: dir };
    const git = await Git.find({
      dir,
      untrusted: [info.project],
      env: toolEnvironment(this.#p.env, []),
      scratch: dir,
      exec: (request) => this.#p.children.exec(owner, request),
    });
    return git && new GitDiff(git, store);
  }

  #ts(): string {
    return new Date(this.#p.clock.now()).toISOString();
  }
}

/** `git clean -x` and `git reset --hard` of a run, for example, remove its record; a line that is torn is the last one. */
function lostOf(
  { records, missing, damaged, torn }: LogPage<ChangeLine>,
  { acted }: Pick<ProcInfo, "acted">,
): string | null {
  if (missing === 0 && damaged === (torn ? 1 : 0) && (records.length > 0 || !acted)) return null;
  return `lines of ${CHANGES} of its record are gone, so what the run changed is not known`;
}

/** A file that the run found may look like one that it made, where the line is gone that says so. */
function requireWhole({ lost, info }: ReadRun, { force }: UndoQuery): void {
  if (lost === null || force) return;
  const message = `Nothing is taken back: ${lost}. \`rnix diff ${info.pid}\` shows what is left of it, and \`rnix undo ${info.pid} FILE --force\` takes a file back by that.`;
  throw new SyscallError("INVALID", message);
}

function headOf({ info, history }: ReadRun): Pick<RunDiff, "pid" | "uuid" | "source" | "project"> {
  const { pid, uuid, project } = info;
  return { pid, uuid, source: history.source, project };
}

const NOT_COUNTED: LineCounts = { added: null, removed: null };
const OUTSIDE = "it is outside of the project, so it is not part of the patch";
const ODD_NAME = "its name is not UTF-8, so it is not part of the patch";

const LOST: FileState = { kind: "other", oid: null, size: 0 };
/** Is not counted. */
const UNKNOWN = { before: LOST, after: LOST };

type Pair = { before: FileState | null; after: FileState | null };

/** The counts of each pair. Lines are counted only where both contents are kept. */
async function countsOf(diff: GitDiff | null, pairs: readonly Pair[]): Promise<LineCounts[]> {
  const counts = (diff ? await diff.counts(pairs.filter(isKept)) : []).values();
  return pairs.map((pair) => (isKept(pair) ? counts.next().value : undefined) ?? NOT_COUNTED);
}

function isKept({ before, after }: Pair): boolean {
  return [before, after].every((state) => state === null || state.oid !== null);
}

function problemOf({ before, after, mixed }: Pair & { mixed: boolean }): string | null {
  const lost = before?.lost ?? after?.lost;
  if (lost !== undefined) return lost;
  return mixed ? "another program changed it between two changes of the run" : null;
}

function statusOf(before: FileState | null, after: FileState | null): FileChange["status"] {
  if (before === null) return "added";
  if (after === null) return "deleted";
  return before.oid !== null && before.oid === after.oid ? "mode" : "modified";
}

function stepsOf({ step, fromStep }: DiffQuery): { after?: number; until?: number } {
  if (step !== undefined) return { after: step - 1, until: step };
  return fromStep === undefined ? {} : { after: fromStep - 1 };
}

function fileOf(
  { files }: ChangeHistory,
  path: string,
  chosen: { after?: number; until?: number },
): FileHistory {
  const { after = 0, until = Number.POSITIVE_INFINITY } = chosen;
  const changes = files.get(path)?.changes ?? [];
  return { path, changes: changes.filter(({ step }) => step > after && step <= until) };
}

function isChosen({ info }: ReadRun, path: string, files: readonly string[]): boolean {
  if (files.length === 0) return true;
  const file = isAbsolute(path) ? path : join(info.project, path);
  return files.some((one) => isWithin(one, file));
}

/** Fails with NOT_FOUND for a named file that the run has not changed. */
function requireKnown(read: ReadRun, files: readonly string[]): void {
  const { history, info } = read;
  for (const file of files) {
    if ([...history.files.keys()].some((path) => isChosen(read, path, [file]))) continue;
    const message = `Run ${info.uuid} has not changed ${relative(info.project, file) || file}. \`rnix diff ${info.pid} --stat\` lists what it changed.`;
    throw new SyscallError("NOT_FOUND", message);
  }
}

/** Maximum files that one note names. */
const MAX_NAMED = 5;

/** What is not known of the changes of a run. */
function notesOf({ source, files, others, gaps, complete }: ChangeHistory): string[] {
  const notes: string[] = [];
  if (source === "writes") {
    notes.push(
      "the project is in no git work tree, or git could not compare it: only what Write, Edit and tools like them changed is known, not what commands did",
    );
  }
  for (const step of gaps) {
    notes.push(
      `rnix ended by a crash after step ${step} had begun: what the run changed from then on is not known`,
    );
  }
  if (others.length > 0) {
    const more = others.length > MAX_NAMED ? `, and ${others.length - MAX_NAMED} more` : "";
    notes.push(
      `others changed these files while the run worked, so they do not count as its changes: ${others.slice(0, MAX_NAMED).join(", ")}${more}`,
    );
  } else if (source === "git" && !complete && files.size > 0)
    notes.push("git could not read everything, so files may be missing");
  return notes;
}

/** What an undo of the later steps does not take back. */
async function warningsOf({ info, records }: Run, toStep: number): Promise<string[]> {
  let commands = 0;
  let servers = 0;
  for await (const { step, tool_calls } of records.everyStep(info.uuid)) {
    if (step <= toStep) continue;
    for (const { path } of tool_calls) {
      if (path?.startsWith("/dev/shell")) commands++;
      if (path?.startsWith("/mnt/")) servers++;
    }
  }
  const done = [
    commands > 0 ? `${commands} ${commands === 1 ? "command" : "commands"} of Bash` : "",
    servers > 0 ? `${servers} ${servers === 1 ? "call" : "calls"} of MCP servers` : "",
  ].filter(Boolean);
  if (done.length === 0) return [];
  return [
    `not undone: what ${done.join(" and ")} did beside these files (network, other folders, ignored files, the git repository itself)`,
  ];
}
