/** The rows of `rnix top` with the chosen run, and the part of them that is in view. */

import type { TopRun } from "./now.ts";
import type { Row } from "./rows.ts";

export class RunList {
  rows: readonly Row[] = [];
  /** The UUID of the chosen run; it stays chosen where its row moves. */
  chosen = "";
  #at = 0;
  #first = 0;
  #room = 1;

  get run(): TopRun | undefined {
    const row = this.rows[this.#at];
    return row?.kind === "run" ? row.run : undefined;
  }

  arrange(rows: readonly Row[]): void {
    this.rows = rows;
    const at = rows.findIndex((row) => row.kind === "run" && row.run.uuid === this.chosen);
    if (at >= 0) this.#at = at;
    else this.move(0);
  }

  page(direction: 1 | -1): void {
    this.move(direction * this.#room);
  }

  /** To the run that is this many rows away, or to the next one beyond a title. */
  move(by: number): void {
    const runs = this.rows.flatMap((row, at) => (row.kind === "run" ? [at] : []));
    const wanted = this.#at + by;
    const next = by < 0 ? runs.findLast((at) => at <= wanted) : runs.find((at) => at >= wanted);
    this.#at = next ?? (by < 0 ? runs[0] : runs.at(-1)) ?? 0;
    this.chosen = this.run?.uuid ?? "";
  }

  /** The title of the first group stays in view with its first run. */
  visible(room: number): readonly Row[] {
    this.#room = room;
    const wanted = this.rows[this.#at - 1]?.kind === "group" ? this.#at - 1 : this.#at;
    this.#first = Math.max(0, Math.min(this.#first, wanted, this.rows.length - room));
    this.#first = Math.max(this.#first, this.#at - room + 1);
    return this.rows.slice(this.#first, this.#first + room);
  }
}
