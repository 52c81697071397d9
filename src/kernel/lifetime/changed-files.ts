import { type Listing, WorkTree, type WorkTreeOptions } from "../files/git-work-tree.ts";
import type { OpenContexts } from "../files/open-context.ts";
import type { Process } from "../process/process.ts";

/** The work tree before the run's first call that may change something. */
interface Baseline {
  tree: WorkTree;
  before: Listing;
}

/**
 * What a run changed beyond its Write and Edit calls: in a git work tree, the files that are not ignored and
 * differ between the run's first call that may change something and its end. Elsewhere the receipt's
 * `files_changed_complete` is false. A run without such a call changed nothing and asks nothing.
 */
export class ChangedFiles {
  readonly #contexts: OpenContexts;
  readonly #baselines = new WeakMap<Process, Promise<Baseline | null>>();

  constructor(contexts: OpenContexts) {
    this.#contexts = contexts;
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
    for (const [file, state] of after.files) if (before.get(file) !== state) proc.filesChanged.add(file);
    for (const file of before.keys()) if (!after.files.has(file)) proc.filesChanged.add(file);
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
