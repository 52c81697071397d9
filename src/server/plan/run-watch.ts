/** Watches the projects in which runs are active. */

import { pathExists } from "../../config/files/file.ts";
import type { Project } from "../../config/project/project.ts";
import { followedBelow, hasTrustRecord, Trust, type TrustItem } from "../../config/trust/trust.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { Logger } from "../../lib/logger.ts";

/** The part of a process's project that identifies it. */
type WatchedProject = Pick<Project, "id" | "dir">;

interface RunWatchPorts {
  activeProjects: ActiveProjects;
  userDataDir: string;
  kernelId: string;
  kernelAlive(kernelId: string): boolean;
  project(dir: string): Project;
  /** The current content of all parts of the project that need trust. */
  items(project: Project): Promise<TrustItem[]>;
  logger: Logger;
}

/** This kernel's runs by project id. */
export type ActiveProjects = Map<string, ActiveProject>;

/** Runs of this kernel in one project. */
interface ActiveProject {
  runs: number;
  /** Followed projects in folders below: the runs are watched there, too. */
  below: readonly WatchedProject[];
  /** The current begin or end: they run one after the other. */
  turn: Promise<void>;
}

/**
 * Separates a run's changes from the user's in a project that is trusted with `--follow`. Before the first run there
 * the user's changes are trusted. After the last one has ended, differences are distrusted. A kernel that dies
 * meanwhile leaves its mark, which the next run settles. Followed projects in folders below are handled alike, because
 * a run may write there. Without followed projects this costs one read of the trust records.
 */
export class RunWatch {
  readonly #ports: RunWatchPorts;

  constructor(ports: RunWatchPorts) {
    this.#ports = ports;
  }

  async begin(project: WatchedProject): Promise<void> {
    const active = this.#ports.activeProjects.get(project.id) ?? {
      runs: 0,
      below: [],
      turn: Promise.resolve(),
    };
    this.#ports.activeProjects.set(project.id, active);
    active.runs++;
    await this.#inTurn(active, active.runs === 1 ? () => this.#beginAll(project, active) : () => undefined);
  }

  /** Each `begin` has one. It resolves when the project is settled. */
  async end(project: WatchedProject): Promise<void> {
    const active = this.#ports.activeProjects.get(project.id);
    if (!active) return;
    active.runs--;
    if (active.runs > 0) return;
    await this.#inTurn(active, () => this.#endAll(project, active));
    if (active.runs === 0) this.#ports.activeProjects.delete(project.id);
  }

  /** Runs after the current one; an error reaches only its own caller. */
  async #inTurn(active: ActiveProject, part: () => Promise<void> | void): Promise<void> {
    const mine = active.turn.then(part);
    active.turn = mine.catch(() => undefined);
    await mine;
  }

  async #beginAll(project: WatchedProject, active: ActiveProject): Promise<void> {
    // A project whose folder is gone, or is part of another project now, needs no watch.
    active.below = followedBelow(this.#ports.userDataDir, project.dir).filter(
      ({ id, dir }) => pathExists(dir) && this.#ports.project(dir).id === id,
    );
    await Promise.all([this.#first(project), ...active.below.map((inner) => this.begin(inner))]);
  }

  async #endAll(project: WatchedProject, active: ActiveProject): Promise<void> {
    const { below } = active;
    active.below = [];
    await Promise.all([this.#last(project), ...below.map((inner) => this.end(inner))]);
  }

  async #first({ id, dir }: WatchedProject): Promise<void> {
    const { kernelId, kernelAlive, userDataDir } = this.#ports;
    if (!hasTrustRecord(userDataDir, id)) return;
    const project = this.#ports.project(dir);
    if (!this.#trust(project).follows) return;
    try {
      const others = this.#trust(project).activeKernels();
      const dead = others.filter((id) => id === kernelId || !kernelAlive(id));
      const items = await this.#ports.items(project);
      if (dead.length > 0) this.#settle(project, dead, items);
      // Read again: the list may have been written meanwhile.
      this.#trust(project).beginRuns(kernelId, others.length > dead.length ? null : items);
    } catch (thrown) {
      this.#trust(project).beginRuns(kernelId, null);
      this.#warn(project, thrown);
    }
  }

  async #last({ id, dir }: WatchedProject): Promise<void> {
    if (!hasTrustRecord(this.#ports.userDataDir, id)) return;
    // Removed by the run: its mark stays, and a run in the next folder of this path settles it.
    if (!pathExists(dir)) return;
    const project = this.#ports.project(dir);
    if (!this.#trust(project).follows) return;
    try {
      this.#settle(project, [this.#ports.kernelId], await this.#ports.items(project));
    } catch (thrown) {
      // This kernel stays marked as active. Until that can be settled, only listed items are trusted.
      this.#warn(project, thrown);
    }
  }

  #settle(project: Project, kernelIds: readonly string[], items: readonly TrustItem[]): void {
    const changed = this.#trust(project).settleRuns(kernelIds, items);
    if (changed.length === 0) return;
    this.#ports.logger.warn(
      `trust ${project.dir}`,
      `changed while a run was active, so not trusted: ${changed.join(", ")}. \`rnix trust\` shows and trusts it.`,
    );
  }

  #trust(project: Project): Trust {
    return new Trust(this.#ports.userDataDir, project);
  }

  #warn({ dir }: Project, thrown: unknown): void {
    this.#ports.logger.warn(`trust ${dir}`, messageOf(thrown));
  }
}
