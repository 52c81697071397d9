/** The worktrees of agents: makes them, turns what they changed into a patch, and takes that into a project. */

import { existsSync } from "node:fs";
import { copyFile, cp, mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import type { Clock } from "../../lib/clock.ts";
import { innerPath, isWithin, realOrSame } from "../../lib/inner-path.ts";
import { readRegular } from "../../lib/regular-file.ts";
import type { Children } from "../../os/children.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import type { AgentWorktrees, TakenFile, TakeQuery } from "../kernel-ports.ts";
import { hasEnded } from "../resume/saved-run.ts";
import { Git, type GitOptions, type OwnRepository } from "./git-repository.ts";
import { WorkTree } from "./git-work-tree.ts";
import { openRepository, type Repository, readIfThere, rootOf } from "./user-repository.ts";
import { ORIGIN_FILE, ORIGINS, readOrigin, WORKTREES, type WorktreeOrigin } from "./worktree-origin.ts";

/** The file in the run's record with what the run changed in its worktree. */
export const WORKTREE_PATCH = "worktree.patch";
/** For git on all files of a project. */
const WHOLE_MS = 5 * 60_000;
const MAX_CONFIG_BYTES = 64 * 1024;
const MAX_PATCH_BYTES = 64 * 1024 ** 2;
/** A worktree without a record is younger than this while its run begins. */
const BEGINNING_MS = 60 * 60_000;
/** In a worktree no file of the repository is left out. */
const ADD = ["-c", "core.sparseCheckout=false", "add", "--all"];
const APPLY = ["apply", "--whitespace=nowarn"];

interface WorktreePorts {
  userDataDir: string;
  /** A folder for git's work, absolute. */
  scratch: string;
  env: Readonly<Record<string, string>>;
  clock: Clock;
  children: Pick<Children, "exec">;
}

/**
 * A worktree is a repository of its own with the objects of the user's, so nothing is written to the user's `.git`: no
 * branch, no list of worktrees. It begins with the files of the project as they are, committed or not.
 */
export class Worktrees implements AgentWorktrees {
  readonly #p: WorktreePorts;

  constructor(ports: WorktreePorts) {
    this.#p = ports;
  }

  /** Makes the worktree of a run that is not there yet; returns its folder for the folder `cwd` of the project. */
  async make(
    uuid: string,
    project: { dir: string; home?: string | undefined; dataDir: string },
    cwd: string,
  ): Promise<string> {
    await this.remove(uuid);
    const root = await rootOf(project.dir);
    const repository = root === null ? null : await openRepository(root);
    if (repository === null) {
      const message = `A worktree needs a git repository, and ${project.dir} lies in none. Leave worktree out.`;
      throw new SyscallError("INVALID", message);
    }
    try {
      const { tree, own, begun } = await this.#begin(uuid, repository);
      const dir = join(realOrSame(tree), relative(repository.root, project.dir));
      await mkdir(dir, { recursive: true });
      const { home = project.dir, dataDir } = project;
      const origin: WorktreeOrigin = { home, dir, dataDir, begun };
      await writeFile(join(dirname(own), ORIGIN_FILE), JSON.stringify(origin), { mode: 0o600 });
      return join(dir, innerPath(project.dir, cwd) ?? "");
    } catch (thrown) {
      await this.remove(uuid);
      throw thrown;
    } finally {
      await repository.index?.handle.close();
    }
  }

  async #begin(uuid: string, repository: Repository): Promise<{ tree: string; own: string; begun: string }> {
    const { tree, own } = this.#places(uuid);
    const { format, index, objects, root, commonDir } = repository;
    const git = await this.#git(root);
    const ignored = await this.#ignored(root);
    for (const folder of [tree, dirname(own)]) await mkdir(folder, { recursive: true, mode: 0o700 });
    const begun = await git.within({ format, index, objects: [objects], root }, async (first) => {
      await writeFile(join(first.dir, "info/exclude"), ignored);
      await must(first, ADD);
      const written = await must(first, ["write-tree"]);
      await must(first, ["checkout-index", "--all", "--index", "--quiet"], { GIT_WORK_TREE: tree });
      // The worktree keeps this repository as its own.
      await rename(first.dir, own);
      return written.trim();
    });
    const inTree = join(tree, ".git");
    await cp(own, inTree, { recursive: true });
    const config = (await readRegular(join(own, "config"), MAX_CONFIG_BYTES)).toString();
    await writeFile(
      join(inTree, "config"),
      config.replace("sparseCheckout = true", "sparseCheckout = false"),
    );
    const head = await headOf(repository);
    if (head !== null) await writeFile(join(inTree, "HEAD"), `${head}\n`);
    const shallow = join(commonDir, "shallow");
    if (existsSync(shallow)) await copyFile(shallow, join(inTree, "shallow"));
    return { tree, own, begun };
  }

  /** The run has ended: writes its patch into its record, and removes the worktree. */
  async end(uuid: string, recordDir: string): Promise<void> {
    const origin = readOrigin(this.#p.userDataDir, uuid);
    const { tree, own } = this.#places(uuid);
    if (origin !== null && existsSync(tree)) {
      const git = await this.#git(tree);
      const { run } = git.open(own, tree);
      await must({ run }, ADD);
      const compared = ["diff-index", "--cached", "-p", "--binary", "--full-index", "--no-renames"];
      const options = ["--no-color", "--no-ext-diff", "--no-textconv"];
      const { exit, output, cut, errors } = await run([...compared, ...options, origin.begun], {
        most: MAX_PATCH_BYTES,
        timeoutMs: WHOLE_MS,
      });
      if (exit.code !== 0 || cut)
        throw failed(cut ? `the patch is too long; the files stay in ${tree}` : errors);
      const file = join(recordDir, WORKTREE_PATCH);
      await writeFile(`${file}.new`, output, { mode: 0o600 });
      await rename(`${file}.new`, file);
    }
    await this.remove(uuid);
  }

  async remove(uuid: string): Promise<void> {
    const { tree, own } = this.#places(uuid);
    await rm(tree, { recursive: true, force: true });
    await rm(dirname(own), { recursive: true, force: true });
  }

  /** Ends the worktrees of runs that have ended, and removes those whose record is gone. */
  async sweep(runs: (dataDir: string) => RunStore, warn: (text: string) => void): Promise<void> {
    const { userDataDir, clock } = this.#p;
    const lists = await Promise.all(
      [WORKTREES, ORIGINS].map((name) => readdir(join(userDataDir, name)).catch(() => [])),
    );
    for (const uuid of new Set(lists.flat())) {
      try {
        const origin = readOrigin(userDataDir, uuid);
        const store = origin && runs(origin.dataDir);
        const info = await store?.info(uuid);
        if (info && store) {
          if (hasEnded(info)) await this.end(uuid, store.dir(uuid));
        } else {
          const { mtimeMs } = await stat(this.#places(uuid).tree).catch(() => ({ mtimeMs: 0 }));
          if (mtimeMs < clock.now() - BEGINNING_MS) await this.remove(uuid);
        }
      } catch (thrown) {
        warn(`the worktree of run ${uuid} can't be swept: ${String(thrown)}`);
      }
    }
  }

  async take(recordDir: string, project: string, query: TakeQuery): Promise<TakenFile[]> {
    const patch = await this.patch(recordDir);
    const root = await rootOf(project);
    const repository = root === null ? null : await openRepository(root);
    if (repository === null) throw new SyscallError("INVALID", `${project} lies in no git repository.`);
    await repository.index?.handle.close();
    const git = await this.#git(repository.root);
    return git.within({ format: repository.format, root: repository.root }, async (own) => {
      const apply = (args: readonly string[], files: readonly string[] = []) =>
        own.run(
          [...APPLY, ...args, ...files.map((file) => `--include=${file.replace(/[*?[\\]/g, "\\$&")}`)],
          {
            stdin: patch,
            timeoutMs: WHOLE_MS,
            most: MAX_PATCH_BYTES,
          },
        );
      const counts = (await apply(["--numstat", "-z"])).output.toString();
      const names = [...counts.matchAll(/(?:\d+|-)\t(?:\d+|-)\t([^\0]+)\0/g)].map(([, name = ""]) => name);
      const isIn = (file: string) => (name: string) => isWithin(file, join(repository.root, name));
      const unknown = query.files.find((file) => !names.some(isIn(file)));
      if (unknown !== undefined) {
        const message = `The run has not changed ${unknown}. It changed: ${names.join(", ")}.`;
        throw new SyscallError("NOT_FOUND", message);
      }
      const chosen = names.filter(
        (name) => query.files.length === 0 || query.files.some((file) => isIn(file)(name)),
      );
      const found: TakenFile[] = [];
      for (const path of chosen) {
        const refused = query.refusal?.(join(repository.root, path)) ?? null;
        const fits = async (how: string[]) => (await apply(["--check", ...how], [path])).exit.code === 0;
        if (refused !== null) found.push({ path, done: "refused", reason: refused });
        else if (await fits([])) found.push({ path, done: "taken", reason: null });
        else if (await fits(["--reverse"])) found.push({ path, done: "unchanged", reason: null });
        else found.push({ path, done: "conflict", reason: CONFLICT });
      }
      const taken = found.flatMap(({ path, done }) => (done === "taken" ? [path] : []));
      if (taken.length > 0 && !query.dryRun) {
        const { exit, errors } = await apply([], taken);
        if (exit.code !== 0) throw failed(errors);
      }
      return found;
    });
  }

  /** What a run changed in its worktree. Fails with NOT_FOUND for a run that had none, or has not ended. */
  async patch(recordDir: string): Promise<Buffer> {
    const file = join(recordDir, WORKTREE_PATCH);
    if (existsSync(file)) return Buffer.from(await readRegular(file, MAX_PATCH_BYTES));
    const message =
      "The record has no changes of a worktree: the run had none, or it has not ended. Wait for its end.";
    throw new SyscallError("NOT_FOUND", message);
  }

  #places(uuid: string): { tree: string; own: string } {
    const { userDataDir } = this.#p;
    return { tree: join(userDataDir, WORKTREES, uuid), own: join(userDataDir, ORIGINS, uuid, "git") };
  }

  async #ignored(root: string): Promise<string> {
    const { clock } = this.#p;
    const options = { ...this.#options(root, [root]), now: () => clock.now(), watch: () => null };
    const tree = await WorkTree.open(options);
    try {
      return (await tree?.ignorePatterns({})) ?? "";
    } finally {
      await tree?.close();
    }
  }

  /** A git that no run can have written, in this folder. */
  async #git(dir: string): Promise<Git> {
    const { scratch, userDataDir } = this.#p;
    await mkdir(scratch, { recursive: true, mode: 0o700 });
    const git = await Git.find(this.#options(dir, [dir, join(userDataDir, WORKTREES)]));
    if (git !== null) return git;
    const message = "A worktree needs the program git on the PATH, outside of the project.";
    throw new SyscallError("UNAVAILABLE", message);
  }

  #options(dir: string, untrusted: readonly string[]): GitOptions {
    const { env, scratch, clock, children } = this.#p;
    const owner = { uuid: OWNER, spillDir: scratch, clock };
    return { dir, untrusted, env, scratch, exec: (request) => children.exec(owner, request) };
  }
}

/** Programs need an owner; these belong to no run. */
const OWNER = "worktrees";
const CONFLICT = "it was changed in the project at the same lines: merge it by hand";

/** Runs git; returns what it printed. Fails with DRIVER. */
async function must(
  { run }: Pick<OwnRepository, "run">,
  args: readonly string[],
  env?: Record<string, string>,
): Promise<string> {
  const { exit, output, errors } = await run(args, { timeoutMs: WHOLE_MS, ...(env && { env }) });
  if (exit.code !== 0) throw failed(errors);
  return output.toString();
}

function failed(why: string): SyscallError {
  return new SyscallError("DRIVER", `git can't do this for a worktree: ${why.trim().slice(0, 500)}`);
}

/** The commit on which the user works; null where there is none yet. */
async function headOf({ gitDir, commonDir }: Repository): Promise<string | null> {
  const head = (await readIfThere(join(gitDir, "HEAD")))?.trim() ?? "";
  const [, ref] = /^ref: (refs\/[^\s]+)$/.exec(head) ?? [];
  const loose = ref === undefined ? head : (await readIfThere(join(commonDir, ref)))?.trim();
  const packed = async (): Promise<string | undefined> =>
    (await readIfThere(join(commonDir, "packed-refs")))
      ?.split("\n")
      .find((line) => line.endsWith(` ${ref}`))
      ?.split(" ")[0];
  const commit = loose ?? (await packed()) ?? "";
  return /^[0-9a-f]{40,64}$/.test(commit) ? commit : null;
}
