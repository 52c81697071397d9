import {
  type Adopted,
  adoptedProcesses,
  killOrphans,
  leaders,
  type Orphan,
  type OrphanTrace,
} from "./adopted-processes.ts";
import { countdown, endProcesses } from "./end-processes.ts";
import type { ProcessTable } from "./process-table.ts";
import { isSubreaper, ownsEveryOrphan } from "./subreaper.ts";
import { type Alarm, alarm } from "./wait.ts";

/** A program of this kernel, from its start until nothing of it is left. */
interface OwnerProgram {
  readonly id: string;
  readonly pid: number;
  readonly mark: string | null;
  /** It runs, and is not being ended. */
  readonly stays: boolean;
}

interface OrphanPorts {
  programs(): Iterable<OwnerProgram>;
  /** Whether this kernel gave the mark. */
  gave(mark: string): boolean;
  table: ProcessTable;
  graceMs: number;
  /** These would not go. */
  onStuck(left: readonly { pid: number }[]): void;
}

/**
 * What the programs of a kernel leave behind and a subreaper gets. An orphan's mark, cookie or session says which
 * program left it. One that took all of them off belongs to one of the programs that ran when it was first seen, and
 * ends with the last of these, at the latest with the kernel. Elsewhere than on Linux there are none.
 */
export class Orphans {
  readonly #o: OrphanPorts;
  /** Ids of the programs that may have left an orphan, by its PID. */
  readonly #candidates = new Map<number, ReadonlySet<string>>();
  readonly #onChildSignal = (): void => {
    this.#reaping ??= alarm(REAP_PAUSE_MS, () => {
      this.#reaping = undefined;
      this.#look();
    });
  };
  #reaping: Alarm | undefined;
  #ending: Promise<void> | undefined;
  #retry: Alarm | undefined;
  #isClosed = false;

  constructor(o: OrphanPorts) {
    this.#o = o;
  }

  /** Called with each program: the end of an orphan is signalled only, as long as the program it comes from runs on. */
  watch(): void {
    if (!isSubreaper() || process.listeners("SIGCHLD").includes(this.#onChildSignal)) return;
    process.on("SIGCHLD", this.#onChildSignal);
  }

  /** Those that end with this program; null where this process is no subreaper. */
  of(program: OwnerProgram): Adopted | null {
    if (!isSubreaper()) return null;
    const { running, settled } = this.#look();
    return { running: running.filter((orphan) => this.#endsWith(program, orphan)), settled };
  }

  /** Kills those at sight; see `EndOptions`. */
  strike(program: OwnerProgram): readonly { pid: number }[] {
    return killOrphans((orphan) => this.#endsWith(program, orphan));
  }

  /** Those of which nothing tells which program left them. */
  unattributed(): Orphan[] {
    return this.#look().running.filter((orphan) => this.#ownerOf(orphan) === undefined);
  }

  /** Ends what programs have left that are gone, now and, as long as some of it would not go, from time to time. */
  endUnowned(): void {
    if (this.#isClosed || this.#ending) return;
    const isUnowned = (orphan: OrphanTrace): boolean => !this.#ownerOf(orphan) && this.#isFree(orphan);
    const { running, settled } = this.#look();
    if (settled && !running.some(isUnowned)) return;
    this.#retry?.cancel();
    this.#ending = this.#end(isUnowned)
      .then((clean) => {
        if (!clean && !this.#isClosed) this.#retry = alarm(RETRY_MS, () => this.endUnowned());
      })
      .finally(() => {
        this.#ending = undefined;
      });
  }

  /** Ends all of them, once the programs have ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#retry?.cancel();
    await this.#ending;
    // Programs of another kernel in this process may still have left some of them.
    await this.#end(() => leaders.size === 0 || ownsEveryOrphan());
    process.off("SIGCHLD", this.#onChildSignal);
    this.#reaping?.cancel();
  }

  /** False when some would not go. */
  async #end(which: (orphan: OrphanTrace) => boolean): Promise<boolean> {
    const left = await endProcesses({
      table: this.#o.table,
      find: async () => this.#look().running.filter(which),
      group: 0,
      groupAsked: false,
      graceLeft: countdown(this.#o.graceMs),
      reap: () => void this.#look(),
      strike: () => killOrphans(which),
    });
    if (left.length > 0) this.#o.onStuck(left);
    return left.length === 0;
  }

  #look(): Adopted {
    const found = adoptedProcesses() ?? { running: [], settled: true };
    const pids = new Set(found.running.map(({ pid }) => pid));
    for (const pid of this.#candidates.keys()) if (!pids.has(pid)) this.#candidates.delete(pid);
    for (const orphan of found.running) this.#candidatesOf(orphan);
    return found;
  }

  #endsWith(program: OwnerProgram, orphan: OrphanTrace): boolean {
    const owner = this.#ownerOf(orphan);
    return owner ? owner.id === program.id : this.#isFree(orphan, program);
  }

  #ownerOf({ mark, cookie, session }: OrphanTrace): OwnerProgram | undefined {
    for (const program of this.#o.programs()) {
      const isIts = mark === null ? program.id === cookie || program.pid === session : program.mark === mark;
      if (isIts) return program;
    }
    return undefined;
  }

  /** Whether no program that could own it stays, but for one that ends. */
  #isFree(orphan: OrphanTrace, ending?: OwnerProgram): boolean {
    // The program that left it has ended already.
    if (orphan.mark !== null && this.#o.gave(orphan.mark)) return true;
    const candidates = this.#candidatesOf(orphan);
    const mine = new Set<number>();
    for (const program of this.#o.programs()) {
      mine.add(program.pid);
      if (program.id === ending?.id || !candidates.has(program.id)) continue;
      // Of two that end at once each ends it.
      if (program.stays || !ending) return false;
    }
    // Programs of another kernel in this process.
    return leaders.keys().every((pid) => mine.has(pid));
  }

  #candidatesOf({ pid }: OrphanTrace): ReadonlySet<string> {
    const before = this.#candidates.get(pid);
    if (before) return before;
    const candidates = new Set(Array.from(this.#o.programs(), ({ id }) => id));
    this.#candidates.set(pid, candidates);
    return candidates;
  }
}

/** Between an orphan's end and its reaping: a program may leave thousands in a second. */
const REAP_PAUSE_MS = 20;
/** Until the next attempt to end what KILL did not. */
const RETRY_MS = 10_000;
