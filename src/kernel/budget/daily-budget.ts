import type { Clock } from "../../lib/clock.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import { recordOrFail } from "../errors/run-error.ts";
import type { SpawnOpts } from "../types.ts";
import { type BudgetUsage, TreeBudget } from "./budget.ts";

interface DayPorts {
  clock: Clock;
  /** What all processes draw from. */
  envelope: TreeBudget;
  /** The records of one data folder; the same object for the same folder. */
  runs(dataDir: string): RunStore;
}

/**
 * What the runs of each project may use in a day (settings tokens_per_day and cost_per_day), from midnight to
 * midnight by the local clock: an envelope around all of them. What has been used is on disk, and shared with other
 * kernels; what they hold back for calls under way is not.
 */
export class DailyBudget {
  readonly #ports: DayPorts;
  readonly #projects = new Map<string, TreeBudget>();

  constructor(ports: DayPorts) {
    this.#ports = ports;
  }

  /** That of a run's project. The caps of its settings are the project's from now on. */
  of({ project: { dataDir }, limits, provider }: SpawnOpts): TreeBudget {
    if (provider?.plays) return this.#ports.envelope;
    const envelope = this.#projects.get(dataDir) ?? this.#make(dataDir);
    envelope.limits.tokens = limits.tokens_per_day;
    envelope.limits.cost = limits.cost_per_day;
    return envelope;
  }

  /** Whether there is a day to begin, before a run of the project is built. */
  needsBegin({ project: { dataDir }, limits }: SpawnOpts): boolean {
    if (limits.tokens_per_day === null && limits.cost_per_day === null) return false;
    return !this.#ports.runs(dataDir).dayBook.has(localDay(this.#ports.clock.now()));
  }

  /** A cap that is set in the middle of the day counts what was used before: by the records. */
  async begin({ project: { dataDir } }: SpawnOpts): Promise<void> {
    const now = this.#ports.clock.now();
    const runs = this.#ports.runs(dataDir);
    const { spendingSince } = await import("../../store/spending-since.ts");
    await runs.dayBook.begin(localDay(now), await spendingSince(runs, midnight(now)));
  }

  #make(dataDir: string): TreeBudget {
    const { clock, envelope } = this.#ports;
    const book = this.#ports.runs(dataDir).dayBook;
    const made = TreeBudget.ofDay(envelope, {
      spent: () => recordOrFail(() => book.spent(localDay(clock.now()))),
      spend: ({ tokens, cost }: BudgetUsage) =>
        recordOrFail(() => book.add(localDay(clock.now()), { tokens, cost: cost ?? 0 })),
    });
    this.#projects.set(dataDir, made);
    return made;
  }
}

/** 2026-11-20, where this computer is. */
function localDay(ms: number): string {
  const date = new Date(ms);
  const two = (part: number): string => String(part).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** The beginning of the day, which may have 23 or 25 hours. */
function midnight(ms: number): number {
  return new Date(ms).setHours(0, 0, 0, 0);
}
