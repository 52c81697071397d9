/** The indexes of the runs whose steps clients list. */

import { type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { BoundedMap } from "../../lib/caches.ts";
import { StepIndex, type StepLine } from "../../run/step-index.ts";
import type { DamageCollector } from "../../store/files/damaged-lines.ts";
import type { LineFaults, LogPosition } from "../../store/files/read-log.ts";
import { STEPS } from "../../store/runs/run-files.ts";
import type { Run } from "./recorded-run.ts";

const MAX_INDEXES = 8;
const NO_FAULTS = { foreign: 0, missing: 0 };
const BATCH = 100;

/** Reads steps.jsonl of a run once, and later only what was added to it. */
export class StepIndexes {
  readonly #files = new BoundedMap<string, IndexedFile>(MAX_INDEXES);

  /** Returns a line for each finished step; adds to `damage` what can't be read. */
  async of(run: Run, isLive: boolean, damage: DamageCollector): Promise<readonly StepLine[]> {
    const path = join(run.records.dir(run.info.uuid), STEPS);
    const known = this.#files.get(path);
    const file = known?.continues(path, isLive) ? known : new IndexedFile(path);
    this.#files.set(path, file);
    return file.read(run, damage);
  }
}

class IndexedFile {
  readonly #index = new StepIndex();
  #stat: Stats | undefined;
  #next: LogPosition = { after: 0, at: 0 };
  readonly #faults: LineFaults[] = [];
  #reading: Promise<unknown> = Promise.resolve();

  constructor(path: string) {
    this.#stat = statSync(path, { throwIfNoEntry: false });
  }

  /** The file is as it was, or a live run has added lines. */
  continues(path: string, isLive: boolean): boolean {
    const [before, now] = [this.#stat, statSync(path, { throwIfNoEntry: false })];
    this.#stat = now;
    if (before?.ino !== now?.ino || !now) return false;
    return now.mtimeMs === before?.mtimeMs || (isLive && now.size >= (this.#next.at ?? 0));
  }

  /** Two clients at once share the lines. */
  async read(run: Run, damage: DamageCollector): Promise<readonly StepLine[]> {
    const reading = this.#reading.catch(() => undefined).then(() => this.#readOn(run, damage));
    this.#reading = reading;
    await reading;
    for (const faults of this.#faults) damage.add(STEPS, faults);
    return this.#index.lines;
  }

  async #readOn({ info, records }: Run, damage: DamageCollector): Promise<void> {
    for (;;) {
      const {
        records: steps,
        next,
        ...faults
      } = await records.steps(info.uuid, { ...this.#next, limit: BATCH });
      for (const step of steps) this.#index.add(step, info.cwd);
      if (faults.torn) {
        // The torn line is read again.
        const damagedLines = faults.damagedLines.splice(-1);
        damage.add(STEPS, { ...NO_FAULTS, damaged: 1, damagedLines, torn: true });
        Object.assign(faults, { damaged: faults.damaged - 1, torn: false });
      }
      if (faults.damaged + faults.foreign + faults.missing > 0) this.#faults.push(faults);
      if (next.after === this.#next.after) return;
      this.#next = next;
    }
  }
}
