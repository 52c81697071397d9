/** Collects which records of a run can't be read. */

import { join } from "node:path";
import type { DamagedLines } from "../../protocol/methods.ts";
import { DamageCollector } from "../../store/files/damaged-lines.ts";
import type { LogPage } from "../../store/files/read-log.ts";
import type { Run } from "./recorded-run.ts";

/** Collects which records of a run can't be read or are foreign, to report them with the rest. */
export class Damage {
  readonly #dir: string;
  readonly #lost: DamageCollector;

  constructor({ records, info }: Run) {
    this.#dir = records.dir(info.uuid);
    this.#lost = new DamageCollector({ live: info.ended_at_ms === null && info.exit_code === null });
  }

  /** Adds one page of this file; a line may be repeated in the next page. */
  add(file: string, page: Pick<LogPage<unknown>, "damaged" | "damagedLines" | "torn" | "foreign">): void {
    this.#lost.add(file, page);
  }

  /** Files with damage. */
  list(): DamagedLines[] {
    return this.#lost.list().map((lost) => ({ ...lost, file: join(this.#dir, lost.file) }));
  }

  get count(): number {
    return this.list().reduce((sum, { count }) => sum + count, 0);
  }
}
