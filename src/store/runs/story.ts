/** Reads what happened to a run as one numbered sequence, from any number on. */

import { eventsOfJournal, eventsOfStep, type RunEvent } from "../../run/events.ts";
import type { UnitLine } from "../../run/unit-schema.ts";
import type { ChangeLine } from "../changes/change-log.ts";
import { CHANGES } from "../changes/object-store.ts";
import type { LineFaults, LogPage, LogPosition } from "../files/read-log.ts";
import { INBOX, JOURNAL, STEPS, UNITS } from "./run-files.ts";
import type { FaultCollector, Page } from "./run-records.ts";
import type { RunReader } from "./run-store.ts";
import type { InboxLine, StateEvent } from "./schema.ts";

/** An event of a run. `n` grows by one with each; an older Rnix wrote events without one. */
export type StoryEvent = { n?: number } & (
  | RunEvent
  | StateEvent
  /** A message arrived, or a program took one. */
  | { t: "inbox"; line: InboxLine }
  | { t: "change"; line: ChangeLine }
  | { t: "unit"; line: UnitLine }
);

const BATCH = 100;

export class StoryReader {
  readonly #records: RunReader;
  readonly #uuid: string;
  readonly #lost: FaultCollector | undefined;
  readonly #forLog: boolean;
  /** For each append-only file, the position from which the next read continues. */
  readonly #positions = new Map<string, LogPosition>();
  /** What is wrong with the files that are read from their beginning each time. */
  readonly #again = new Map<string, LineFaults>();
  /** Read, and not returned yet. */
  #pending: StoryEvent[] = [];
  #after: number;
  #isRead = false;
  /** The last step whose record was read. */
  #recorded = 0;

  /** `after`: the number of the last event that is known. `forLog`: only the events that a log shows. */
  constructor(records: RunReader, uuid: string, after = 0, lost?: FaultCollector, forLog = false) {
    this.#records = records;
    this.#uuid = uuid;
    this.#after = after;
    this.#lost = lost;
    this.#forLog = forLog;
  }

  /** The number of the last event that was returned. */
  get after(): number {
    return this.#after;
  }

  /**
   * Returns the next events in order, at most those of some steps; none when there are no more now. `most`: none after
   * this number.
   */
  async next(most = Number.POSITIVE_INFINITY): Promise<StoryEvent[]> {
    // All events up to this one are written. What comes later is read next time: another file may lack one before it.
    let end = Math.min(most, this.#records.writer(this.#uuid)?.last ?? most);
    const journal = await this.#records.journalLines(this.#uuid);
    const steps = await this.#page(STEPS, (page) =>
      this.#records.steps(this.#uuid, { ...page, limit: BATCH }),
    );
    const last = steps.records.at(-1);
    this.#recorded = last?.step ?? this.#recorded;
    const more = steps.records.length === BATCH;
    if (more) end = Math.min(end, last?.n ?? 0);
    const units = await this.#page(UNITS, (page) => this.#records.units(this.#uuid, page));
    const open = more ? [] : eventsOfJournal(journal.records.filter(({ step }) => step > this.#recorded));
    // They are read each time: those without a number are new once.
    const isNew = ({ n }: { n?: number }): boolean => n !== undefined || (!more && !this.#isRead);
    this.#again.set(JOURNAL, journal);
    this.#add([
      ...steps.records.flatMap(eventsOfStep),
      ...open.filter(isNew),
      ...units.records.map((line) => ({ n: line.n, t: "unit", line }) as const),
    ]);
    if (!this.#forLog) {
      const inbox = await this.#records.messages(this.#uuid, { ...ALL, newer: this.#after });
      const changes = await this.#page(CHANGES, (page) => this.#records.changes(this.#uuid, page));
      this.#again.set(INBOX, inbox);
      this.#add([
        ...inbox.records.filter(isNew).map((line) => ({ n: line.n, t: "inbox", line }) as const),
        ...changes.records.map((line) => ({ n: line.n, t: "change", line }) as const),
        ...(await this.#records.states(this.#uuid)),
      ]);
    }
    this.#isRead ||= !more;
    return this.#take(end);
  }

  /** Reports what of the files that may shrink can't be read. */
  end(): void {
    for (const [file, faults] of this.#again) this.#lost?.add(file, faults);
  }

  async #page<T>(file: string, read: (page: Page) => Promise<LogPage<T>>): Promise<LogPage<T>> {
    const page = await read({ ...ALL, newer: this.#after, ...this.#positions.get(file) });
    this.#positions.set(file, page.next);
    this.#lost?.add(file, page);
    return page;
  }

  /** Adds events that are new. A step that was recorded meanwhile has the events of its journal, too. */
  #add(events: readonly StoryEvent[]): void {
    const known = new Set(this.#pending.map(({ n }) => n));
    for (const event of events) {
      if (event.n !== undefined && (event.n <= this.#after || known.has(event.n))) continue;
      if (event.n !== undefined) known.add(event.n);
      this.#pending.push(event);
    }
    this.#pending.sort((a, b) => (a.n ?? 0) - (b.n ?? 0));
  }

  #take(end: number): StoryEvent[] {
    const later = this.#pending.findIndex(({ n = 0 }) => n > end);
    const ready = this.#pending.splice(0, later < 0 ? this.#pending.length : later);
    this.#after = ready.at(-1)?.n ?? this.#after;
    return ready;
  }
}

const ALL: Page = { limit: Number.MAX_SAFE_INTEGER };
