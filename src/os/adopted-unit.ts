/** The program of a background unit that was started by a kernel that is dead now. */

import { messageOf } from "../lib/error-detail.ts";
import { SyscallError } from "../plugin/index.ts";
import { couldNotEnd, countdown, endProcesses, killMarked } from "./end-processes.ts";
import { type Identity, isRunning, type ProcessTable } from "./process-table.ts";
import type { ProcessTag } from "./process-tag.ts";
import { pause, signal } from "./signal.ts";

/** What another kernel needs to find the program of a unit and its descendants. */
export interface UnitTrace extends Identity {
  /** The program's id in the ledger. */
  child: string;
  mark: ProcessTag | null;
  /** Copies its output since the death of the kernel that read it; see `outputKeeper`. */
  keeper?: Pick<Identity, "pid" | "start">;
}

/** How often it is looked whether the program runs: the system reports its end to its parent only. */
const LOOK_MS = 100;

/** How long a keeper may copy after the end. */
const KEEPER_MS = 2000;

interface AdoptedUnitOptions {
  table: ProcessTable;
  trace: UnitTrace;
  graceMs: number;
  onFault(error: SyscallError): void;
}

/** This kernel is not its parent, so its exit code is in no more than a file. */
export class AdoptedUnit {
  /** Resolves when nothing of it runs any more. Never rejects. */
  readonly gone: Promise<void>;
  readonly #o: AdoptedUnitOptions;
  #ending: Promise<void> | undefined;

  constructor(options: AdoptedUnitOptions) {
    this.#o = options;
    this.gone = this.#watch().catch((cause) => {
      const what = `Program ${options.trace.pid} of a unit cannot be watched: ${messageOf(cause)}`;
      options.onFault(new SyscallError("INTERNAL", what, { cause }));
    });
  }

  static async isThere(table: ProcessTable, trace: UnitTrace): Promise<boolean> {
    return trace.boot === table.boot() && (await isRunning(table, trace));
  }

  /** TERM, the grace, KILL, to the program and its descendants. Safe to call again. */
  end(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  async #watch(): Promise<void> {
    const { table, trace } = this.#o;
    while (await isRunning(table, trace)) await pause(LOOK_MS);
    await this.end();
    const { keeper } = trace;
    if (!keeper) return;
    // It ends by itself when it has copied everything, unless a process that has left the unit holds the pipe.
    const left = countdown(KEEPER_MS);
    while (left() > 0 && (await isRunning(table, keeper))) await pause(LOOK_MS);
    if (await isRunning(table, keeper)) signal(-keeper.pid, "SIGKILL");
  }

  async #end(): Promise<void> {
    const { table, trace, graceMs, onFault } = this.#o;
    const { child: id, mark, ...leader } = trace;
    const left = await endProcesses({
      table,
      find: async () => (await table.members([{ id, leader, mark, pipes: [] }])).get(id) ?? [],
      group: trace.pid,
      graceLeft: countdown(graceMs),
      killAsFound: () => killMarked(mark),
    });
    if (left.length > 0) onFault(couldNotEnd(left));
  }
}
