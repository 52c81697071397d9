import { lstat, mkdtemp, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Clock } from "../../lib/clock.ts";
import type { EffectWindows } from "../files/effect-windows.ts";
import { type Listing, WorkTree, type WorkTreeOptions } from "../files/git-work-tree.ts";
import type { OpenContexts } from "../files/open-context.ts";
import type { Process } from "../process/process.ts";

/** Maximum difference between the file system's clock and ours, including the time of the check. */
const MAX_SKEW_MS = 1000;

/** The work tree before the run's first call that may change something. */
interface Baseline {
  tree: WorkTree;
  before: Listing;
}

/**
 * What a run changed beyond its Write and Edit calls: in a git work tree, the files that are not ignored, differ
 * between the run's first call that may change something and its end, and were last changed while such a call or a
 * program of the run was under way. A change at any other time is the user's or another program's. Elsewhere the receipt's
 * `files_changed_complete` is false. A run without such a call changed nothing and asks nothing.
 */
export class ChangedFiles {
  readonly #contexts: OpenContexts;
  readonly #windows: EffectWindows;
  readonly #clock: Pick<Clock, "now">;
  readonly #baselines = new WeakMap<Process, Promise<Baseline | null>>();

  constructor(contexts: OpenContexts, windows: EffectWindows, clock: Pick<Clock, "now">) {
    this.#contexts = contexts;
    this.#windows = windows;
    this.#clock = clock;
  }

  /** A call that may change files is made; the returned function ends it. */
  call(proc: Process): () => void {
    return this.#windows.begin(proc, "call");
  }

  /** Before the first call that is not read-only; later calls of it do nothing. */
  async begin(proc: Process): Promise<void> {
    let baseline = this.#baselines.get(proc);
    if (!baseline) {
      baseline = this.#baseline(proc);
      this.#baselines.set(proc, baseline);
    }
    await baseline;
  }

  /** At the run's end, while it may still start programs. */
  async end(proc: Process): Promise<void> {
    const begun = this.#baselines.get(proc);
    // Changes before a crash are unknown.
    const knownSoFar = proc.spec.progress?.filesChangedComplete ?? true;
    if (!begun) {
      proc.filesChangedComplete = knownSoFar;
      return;
    }
    const baseline = await begun;
    const after = baseline && (await this.#after(baseline.tree, proc.stopped !== undefined));
    proc.filesChangedComplete = knownSoFar && after?.complete === true && baseline?.before.complete === true;
    if (!baseline || !after) return;
    const before = baseline.before.files;
    const changed = [
      ...[...after.files].flatMap(([file, state]) => (before.get(file) === state ? [] : [file])),
      ...[...before.keys()].filter((file) => !after.files.has(file)),
    ].filter((file) => !proc.filesChanged.has(file));
    if (changed.length === 0) return;
    const comparable = await this.#clocksAgree(proc);
    for (const file of changed) {
      const ms = comparable ? await this.#changedAt(proc, file, after) : undefined;
      if (ms === undefined || this.#windows.covers(proc, ms)) proc.filesChanged.add(file);
      // Another program changed it after the run began: the run may have changed it before.
      else if (this.#windows.mayHide(proc, ms)) proc.filesChangedComplete = false;
    }
  }

  /** When a file was changed last. For a deleted one: when its folder was. */
  async #changedAt(proc: Process, file: string, { changedAt }: Listing): Promise<number | undefined> {
    const known = changedAt.get(file);
    if (known !== undefined) return known;
    for (let path = join(proc.spec.opts.project.dir, file); path !== dirname(path); path = dirname(path)) {
      const found = await lstat(path).catch(() => null);
      if (found) return found.isDirectory() ? found.mtimeMs : found.ctimeMs;
    }
    return undefined;
  }

  /** A network file system has a clock of its own: then times say nothing. */
  async #clocksAgree(proc: Process): Promise<boolean> {
    try {
      const probe = await mkdtemp(join(proc.record.dir, "clock-"));
      const skew = (await lstat(probe)).ctimeMs - this.#clock.now();
      await rmdir(probe);
      return Math.abs(skew) <= MAX_SKEW_MS;
    } catch {
      return false;
    }
  }

  /** null when there is no readable git work tree. */
  async #baseline(proc: Process): Promise<Baseline | null> {
    let tree: WorkTree | null = null;
    let before: Listing | null = null;
    try {
      tree = await WorkTree.open(this.#options(proc));
      before = (await tree?.list({ signal: proc.signal })) ?? null;
    } catch {
      // No git on this machine, or a repository that can't be read.
    }
    if (tree && before) return { tree, before };
    await tree?.close();
    return null;
  }

  async #after(tree: WorkTree, soon: boolean): Promise<Listing | null> {
    try {
      return await tree.list({ soon });
    } catch {
      return null;
    } finally {
      await tree.close();
    }
  }

  #options(proc: Process): WorkTreeOptions {
    const { project, folders = [], env } = proc.spec.opts;
    return {
      dir: project.dir,
      untrusted: [project.dir, ...folders],
      env,
      scratch: proc.record.dir,
      exec: (request) => this.#contexts.execAlone(proc, request, "changes"),
    };
  }
}
