/** Finds and resumes the runs of dead kernels. */

import { hasEnded, resultOf } from "../../kernel/resume/saved-run.ts";
import type { ProcInfo } from "../../kernel/types.ts";
import type { Clock } from "../../lib/clock.ts";
import { logTextOf } from "../../lib/error-detail.ts";
import type { Logger } from "../../lib/logger.ts";
import { eachParallel } from "../../lib/parallel.ts";
import { FileLock } from "../../store/files/file-lock.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import type { KernelLocks } from "../daemon/kernel-locks.ts";
import { asSuspended, type CrashedRun, readCrashedRun, verdictOfStart } from "../records/crashed-run.ts";
import type { Run } from "../records/recorded-run.ts";
import type { SupervisedRuns } from "./supervised-runs.ts";

/** Maximum runs resumed, and records written, at the same time. */
const MAX_CONCURRENT = 4;
/** How often, and at which interval, to check whether another rnix has resumed a run. */
const MAX_POLLS = 50;
const POLL_MS = 100;

interface RecoveryPorts {
  clock: Pick<Clock, "timer">;
  /** The lock of the one rnix of this user that recovers. */
  lockFile: string;
  locks: Pick<KernelLocks, "dead" | "forget" | "isAlive">;
  /** The data folders of all known projects. */
  dataDirs(): string[];
  open(dataDir: string): RunStore;
  /**
   * Ends the programs of dead kernels, and resolves when they are gone: a call recorded as unknown must not continue.
   * Those of units are left to runs that are resumed; with `resumed`, to runs that were.
   */
  endPrograms(resumed?: boolean): Promise<void>;
  find(uuid: string): Promise<Run | undefined>;
  /** The cut-off runs of init.yaml units, which take them when they start. */
  supervised: SupervisedRuns;
  /** Returns true when all entries of init.yaml have taken over their earlier runs. */
  supervisedTaken(): boolean;
  /** Resumes a run without a caller. */
  resume(uuid: string): Promise<unknown>;
  logger: Logger;
}

interface StoredRun {
  info: ProcInfo;
  records: RunStore;
}

/**
 * Recovers the runs of dead kernels (design §7, §8). A run that was cut off becomes `suspended` on disk, children before
 * their parents; runs that are to resume by themselves are resumed. A kernel that ended in order and left nothing to
 * resume has removed its lock file, so recovery reads no records of it.
 */
export class Recovery {
  readonly #ports: RecoveryPorts;
  /** Runs that another rnix was just resuming. */
  readonly #contested: StoredRun[] = [];
  #work: Promise<void> | undefined;
  #closing = false;
  #dead: string[] = [];
  #busy = false;

  constructor(ports: RecoveryPorts) {
    this.#ports = ports;
  }

  /** Starts. It never rejects: a failure of one run is logged and does not stop the others. */
  start(): Promise<void> {
    this.#ports.supervised.expect();
    const before = this.#work ?? Promise.resolve();
    this.#work = before
      .then(() => this.#recover())
      .catch((thrown) => this.#ports.logger.warn("recovery", logTextOf(thrown)));
    return this.#work;
  }

  /** Checks again after the start: another kernel may have died since, such as that of a command. */
  again(): void {
    if (this.#work && !this.#closing) void this.start();
  }

  /** Runs are still being resumed. */
  get busy(): boolean {
    return this.#busy;
  }

  /** Resumes no more runs: the next rnix does. */
  stop(): void {
    this.#closing = true;
  }

  /** Waits for work under way, and recovers kernels that have died meanwhile. */
  async close(): Promise<void> {
    this.stop();
    if (this.#work) await this.start();
    // A run that no unit has taken by then has lost its unit.
    if (this.#ports.supervisedTaken()) this.#forgetKernels();
  }

  async #recover(): Promise<void> {
    const { locks, lockFile, logger } = this.#ports;
    const lock = locks.dead().length > 0 ? FileLock.tryAcquire(lockFile) : undefined;
    try {
      // Another daemon of this user, on another socket, is recovering.
      if (lock === null) logger.info("recovery", "another rnix is recovering the runs of dead ones");
      if (!lock) return;
      this.#busy = true;
      await this.#recoverAll();
    } finally {
      this.#busy = false;
      this.#ports.supervised.complete();
      lock?.release({ remove: true });
    }
  }

  async #recoverAll(): Promise<void> {
    await this.#ports.endPrograms();
    this.#dead = this.#ports.locks.dead();
    const found = await this.#recordCrashes(await this.#find(new Set(this.#dead)));
    const roots = await this.#resumableRoots(found);
    this.#ports.supervised.complete();
    await eachParallel(roots, MAX_CONCURRENT, (run) => this.#resume(run));
    for (const run of this.#contested.splice(0)) await this.#awaitOther(run);
    await this.#ports.endPrograms(true);
    if (this.#ports.supervised.isEmpty) this.#forgetKernels();
  }

  async #find(kernels: ReadonlySet<string>): Promise<StoredRun[]> {
    const found: StoredRun[] = [];
    for (const dir of this.#ports.dataDirs()) {
      const records = this.#ports.open(dir);
      try {
        const { runs, damaged } = await records.leftBy(kernels);
        found.push(...runs.map((info) => ({ info, records })));
        for (const { uuid, error } of damaged) {
          this.#ports.logger.warn("recovery", `run ${uuid} in ${dir} is damaged: ${error.message}`);
        }
      } catch (thrown) {
        this.#ports.logger.warn(
          "recovery",
          `the runs in ${dir} could not be looked at: ${logTextOf(thrown)}`,
        );
      }
    }
    return found;
  }

  /** Records the state of the runs that were cut off. Returns all runs as recorded now. */
  async #recordCrashes(found: readonly StoredRun[]): Promise<StoredRun[]> {
    const open = found.filter(({ info }) => info.ended_at_ms === null);
    const below = new Map<string, StoredRun[]>();
    for (const one of found) {
      const parent = one.info.parent_uuid;
      if (parent !== null) below.set(parent, [...(below.get(parent) ?? []), one]);
    }
    const words = new Map<string, CrashedRun>();
    await eachParallel(open, MAX_CONCURRENT, async (run) => {
      const said = await this.#readCrash(run);
      if (said) words.set(run.info.uuid, said);
    });
    // The deepest first: a parent's record contains its children's ends.
    const mended = new Map<string, ProcInfo>();
    for (const { info } of deepestFirst(open)) {
      const said = words.get(info.uuid);
      if (!said) continue;
      const children = (below.get(info.uuid) ?? [])
        .map((child) => mended.get(child.info.uuid) ?? child.info)
        .filter((child) => child.ended_at_ms !== null);
      mended.set(info.uuid, withChildren(asSuspended(info, said), said, children));
    }
    const written: StoredRun[] = [];
    await eachParallel(found, MAX_CONCURRENT, async ({ info, records }) => {
      const wanted = mended.get(info.uuid);
      if (!wanted && info.ended_at_ms === null) return;
      const now = wanted ? await this.#write(info, wanted, records) : info;
      if (now) written.push({ info: now, records });
    });
    return written;
  }

  /** Undefined: its steps can't be read. The next start tries again. */
  async #readCrash({ info, records }: StoredRun): Promise<CrashedRun | undefined> {
    try {
      return await readCrashedRun(info, records);
    } catch (thrown) {
      this.#keepKernel(info.kernel);
      this.#ports.logger.warn(
        "recovery",
        `run ${info.uuid}: what it did can't be read: ${logTextOf(thrown)}`,
      );
      return undefined;
    }
  }

  /** null: another rnix has resumed it meanwhile, or the disk failed. */
  async #write(before: ProcInfo, wanted: ProcInfo, records: RunStore): Promise<ProcInfo | null> {
    // A kernel looks dead between the creation of its file and its lock. Check again: runs that it has begun since are
    // its own.
    const isSame = ({ kernel, pid, ended_at_ms }: ProcInfo): boolean =>
      kernel === before.kernel &&
      pid === before.pid &&
      ended_at_ms === null &&
      !this.#ports.locks.isAlive(kernel);
    try {
      const now = await records.amend(before.uuid, (info) => (isSame(info) ? wanted : null));
      if (now === null) this.#contested.push({ info: before, records });
      if (now?.kernel !== wanted.kernel || now.pid !== wanted.pid || now.ended_at_ms === null) return null;
      this.#ports.logger.info(
        "recovery",
        `run ${before.uuid} was cut off at step ${wanted.steps}: ${wanted.exit_reason}`,
      );
      return now;
    } catch (thrown) {
      this.#keepKernel(before.kernel);
      this.#ports.logger.warn(
        "recovery",
        `run ${before.uuid}: its end could not be recorded: ${logTextOf(thrown)}`,
      );
      return null;
    }
  }

  /** The runs to resume now. Runs of init.yaml units are set aside, and children are left to their parents. */
  async #resumableRoots(found: readonly StoredRun[]): Promise<StoredRun[]> {
    const roots: StoredRun[] = [];
    for (const run of found) {
      const { info } = run;
      const { goesOn, because } = verdictOfStart(info);
      if (because) await this.#leaveSuspended(run, because);
      if (!goesOn) continue;
      if (info.supervised !== null) this.#ports.supervised.add(info.supervised, run);
      else if (!(await this.#hasParent(run))) roots.push(run);
    }
    return roots;
  }

  /** An agent that has not ended resumes its children itself. */
  async #hasParent({ info }: StoredRun): Promise<boolean> {
    if (info.parent_uuid === null) return false;
    const parent = (await this.#ports.find(info.parent_uuid))?.info;
    return parent !== undefined && parent.kind === "agent" && !hasEnded(parent);
  }

  async #resume(run: StoredRun): Promise<void> {
    if (this.#closing) return this.#keepKernel(run.info.kernel);
    try {
      await this.#ports.resume(run.info.uuid);
    } catch (thrown) {
      if (this.#closing) this.#keepKernel(run.info.kernel);
      else await this.#leaveSuspended(run, logTextOf(thrown));
    }
  }

  /** Waits until the other rnix has resumed the run. If it does not, the next start recovers the run. */
  async #awaitOther({ info, records }: StoredRun): Promise<void> {
    const { kernel, uuid } = info;
    for (let look = 0; look < MAX_POLLS && !this.#closing; look++) {
      const now = await records.info(uuid).catch(() => null);
      if (now?.kernel !== kernel) return;
      await new Promise<void>((resolve) => void this.#ports.clock.timer(POLL_MS, resolve));
    }
    this.#keepKernel(kernel);
  }

  /** Leaves the run suspended, and records why. */
  async #leaveSuspended({ info, records }: StoredRun, why: string): Promise<void> {
    const { uuid, kernel } = info;
    const message = `It was not resumed when rnix started: ${why} Resume it: rnix resume ${uuid}`;
    this.#ports.logger.warn("recovery", `run ${uuid}: ${message}`);
    try {
      await records.amend(uuid, (now) =>
        now.kernel === kernel && now.state === "suspended"
          ? { ...now, error: { code: "UNAVAILABLE", message } }
          : null,
      );
    } catch (thrown) {
      this.#ports.logger.warn("recovery", `run ${uuid}: that could not be recorded: ${logTextOf(thrown)}`);
    }
  }

  /** The next start checks its kernel again. */
  #keepKernel(kernel: string): void {
    this.#dead = this.#dead.filter((id) => id !== kernel);
  }

  #forgetKernels(): void {
    for (const kernel of this.#dead.splice(0)) this.#ports.locks.forget(kernel);
  }
}

function deepestFirst(runs: readonly StoredRun[]): StoredRun[] {
  const byUuid = new Map(runs.map((run) => [run.info.uuid, run]));
  const depth = ({ info }: StoredRun, seen = 0): number => {
    const parent = info.parent_uuid === null ? undefined : byUuid.get(info.parent_uuid);
    return parent && seen < runs.length ? depth(parent, seen + 1) + 1 : 0;
  };
  return runs
    .map((run) => ({ run, depth: depth(run) }))
    .sort((a, b) => b.depth - a.depth)
    .map(({ run }) => run);
}

/**
 * Adds what the parent did not learn: how its children ended, and what they used since its last count.
 * Children from before are partly in its own account already.
 */
function withChildren(
  parent: ProcInfo,
  { countedAtMs }: CrashedRun,
  children: readonly ProcInfo[],
): ProcInfo {
  const known = parent.children.filter(({ uuid }) => !children.some((child) => child.uuid === uuid));
  const sum = { ...parent, children: [...known, ...children.map(resultOf)] };
  for (const child of children) {
    if (child.created_at_ms < countedAtMs) continue;
    sum.tokens_used += child.tokens_used;
    sum.steps_used = (sum.steps_used ?? sum.steps) + (child.steps_used ?? child.steps);
    if (child.cost_usd !== null) sum.cost_usd = (sum.cost_usd ?? 0) + child.cost_usd;
  }
  return sum;
}
