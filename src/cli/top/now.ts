/** What `rnix top` knows of the runs: live ones by the stream of changes, ended ones by the records. */

import type { ListedAsk, ProcChanges, ProviderQueue, ShownProc } from "../../protocol/methods.ts";

export interface TopRun extends ShownProc {
  elapsed_ms: number;
  elapsed_at_ms?: number;
}

/** The request for the ended runs that are shown: the newest. */
export const NEWEST = { all_projects: true, newest: true, limit: 100 };

export class Now {
  #live = new Map<string, TopRun>();
  #ended: readonly TopRun[] = [];
  #all: ReadonlyMap<string, TopRun> = new Map();
  asks: readonly ListedAsk[] = [];
  queues: readonly ProviderQueue[] = [];
  /** The daemon does not answer: nothing is known of its live runs. */
  isLost = false;

  /** The newest first, and the live ones as they are now. */
  get all(): ReadonlyMap<string, TopRun> {
    return this.#all;
  }

  /** Returns whether a run is live no longer: then the ended ones are read again. */
  apply({ rows, gone, asks, queues }: ProcChanges): boolean {
    this.isLost = false;
    if (gone === null) this.#live = new Map();
    for (const uuid of gone ?? []) this.#live.delete(uuid);
    for (const row of rows) this.#live.set(row.uuid, row);
    this.asks = asks ?? this.asks;
    this.queues = queues ?? this.queues;
    this.#merge();
    return gone === null || gone.length > 0 || rows.some(({ ended_at_ms }) => ended_at_ms !== null);
  }

  /** `processes`: live and ended ones. */
  ended(processes: readonly TopRun[]): void {
    this.#ended = processes.filter(({ ended_at_ms }) => ended_at_ms !== null);
    this.#merge();
  }

  get hasEnded(): boolean {
    return this.#ended.length > 0;
  }

  askOf(uuid: string): ListedAsk | undefined {
    return this.asks.find((ask) => ask.uuid === uuid);
  }

  #merge(): void {
    this.#all = new Map([...this.#ended.map((run) => [run.uuid, run] as const), ...this.#live]);
  }
}
