import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { SyscallError } from "../plugin/index.ts";
import type { OpenContexts } from "./open-context.ts";
import type { Process } from "./process.ts";
import { type ProgramResult, runProgram } from "./programs.ts";

const STATUS_LIMIT = 4 * 1024 * 1024;
const STATUS_TIMEOUT_MS = 10_000;

/**
 * What a run changed beyond its Write and Edit calls: in a git work tree the difference of its status
 * between the run's first call that may change something and its end. Elsewhere nobody can say, and the
 * receipt's `files_changed_complete` is false. A run without such a call changed nothing and asks nothing.
 */
export class Changes {
  readonly #contexts: OpenContexts;
  readonly #before = new WeakMap<Process, Promise<Map<string, string> | null>>();

  constructor(contexts: OpenContexts) {
    this.#contexts = contexts;
  }

  /** Before the first call that is not read-only; later calls of it do nothing. */
  async begin(proc: Process): Promise<void> {
    let before = this.#before.get(proc);
    if (!before) {
      before = this.#status(proc, "changes-before", proc.signal);
      this.#before.set(proc, before);
    }
    await before;
  }

  /** At the run's end, while it may still start programs. */
  async end(proc: Process): Promise<void> {
    const begun = this.#before.get(proc);
    // What was changed before a crash nobody knows.
    const knownSoFar = proc.spec.progress?.filesChangedComplete ?? true;
    if (!begun) {
      proc.filesChangedComplete = knownSoFar;
      return;
    }
    const before = await begun;
    const after = before && (await this.#status(proc, "changes-after"));
    proc.filesChangedComplete = knownSoFar && after !== null;
    if (!before || !after) return;
    for (const [file, state] of after) if (before.get(file) !== state) proc.filesChanged.add(file);
    for (const file of before.keys()) if (!after.has(file)) proc.filesChanged.add(file);
  }

  /** File to status and, for a file that differs, when it was last written; null when git can't tell. */
  async #status(proc: Process, call: string, signal?: AbortSignal): Promise<Map<string, string> | null> {
    const { dir } = proc.spec.opts.project;
    const root = workTreeRoot(dir);
    if (root === null) return null;
    const git = (args: readonly string[]): Promise<ProgramResult> => this.#git(proc, call, args, signal);
    try {
      const harmless = [...NOTHING_RUNS, ...(await filtersOff(root, git))];
      const { exit, output } = await git([...harmless, ...STATUS]);
      if (exit.code !== 0 || output.length >= STATUS_LIMIT) return null;
      return await parseStatus(output, dir);
    } catch {
      // No git on this machine, or it could not be run: then the list is not complete, and says so.
      return null;
    }
  }

  #git(
    proc: Process,
    call: string,
    args: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<ProgramResult> {
    return runProgram(
      (request) => this.#contexts.exec(proc, request, call),
      {
        argv: ["git", ...args],
        cwd: proc.spec.opts.project.dir,
        env: { GIT_OPTIONAL_LOCKS: "0" },
        timeoutMs: STATUS_TIMEOUT_MS,
        maxOutput: STATUS_LIMIT,
        life: "call",
      },
      STATUS_LIMIT,
      signal,
    );
  }
}

/**
 * Whoever may write a file of the project may tell git what to run on a look at it, and no permission or
 * trust was asked for that: a monitor, a hook, a filter, and whatever a submodule says for itself.
 */
const NOTHING_RUNS = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"];
const STATUS = [
  ...["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"],
  ...["--ignore-submodules=dirty", "--", "."],
];

/** Filters have names of their own, so they are asked for, unless the work tree's file plainly has none. */
async function filtersOff(
  root: string,
  git: (args: readonly string[]) => Promise<ProgramResult>,
): Promise<string[]> {
  const file = Bun.file(join(root, ".git", "config"));
  if ((await file.exists()) && !/filter|include|worktree/i.test(await file.text())) return [];
  const { exit, output } = await git(["config", "--null", "--name-only", "--get-regexp", "^filter\\."]);
  if (exit.code === NO_SUCH_KEY) return [];
  const keys = output.split("\0").filter((key) => key !== "");
  if (exit.code !== 0 || keys.some((key) => key.includes("="))) {
    throw new SyscallError("UNAVAILABLE", `The filters of ${root} can't be switched off.`);
  }
  return keys.flatMap((key) => ["-c", key.endsWith(".required") ? `${key}=false` : `${key}=`]);
}

/** Of `git config`. */
const NO_SUCH_KEY = 1;

/** `XY path\0…`: the path is relative to the work tree's root, which need not be the project's folder. */
async function parseStatus(output: string, dir: string): Promise<Map<string, string>> {
  const root = workTreeRoot(dir);
  const prefix = root === null || root === dir ? "" : `${dir.slice(root.length + 1)}/`;
  const files = new Map<string, string>();
  for (const entry of output.split("\0")) {
    if (entry.length < 4) continue;
    const path = entry.slice(3);
    const file = path.startsWith(prefix) ? path.slice(prefix.length) : path;
    const stat = await Bun.file(join(root ?? dir, path))
      .stat()
      .catch(() => null);
    files.set(file, `${entry.slice(0, 2)} ${stat?.mtimeMs ?? ""} ${stat?.size ?? ""}`);
  }
  return files;
}

function workTreeRoot(dir: string): string | null {
  for (let at = dir; ; at = dirname(at)) {
    if (existsSync(join(at, ".git"))) return at;
    if (dirname(at) === at) return null;
  }
}
