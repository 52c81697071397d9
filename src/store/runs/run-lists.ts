/** What listings of runs ask for and get. */

import type { SyscallError } from "../../plugin/index.ts";
import type { RunRow } from "./run-row.ts";
import type { PageQuery } from "./run-table.ts";
import type { ProcInfo } from "./schema.ts";

export type { RunFilter, RunRow } from "./run-row.ts";
export type { PageQuery } from "./run-table.ts";

export interface DamagedRun {
  uuid: string;
  error: SyscallError;
}

export interface Listing {
  /** Rows of all readable runs, oldest first. */
  rows: RunRow[];
  /** Runs that could not be read, and why. */
  damaged: DamagedRun[];
}

export interface RunPage {
  rows: RunRow[];
  /** How many closed runs all pages have. */
  total: number;
  /** All runs that are open on disk, unfiltered: they may be live, or cut off. */
  open: RunRow[];
  damaged: DamagedRun[];
}

/** How listings read the runs of a data folder. Each record that may have changed, or is on the page, is checked. */
export interface RunLists {
  list(): Promise<Listing>;
  page(query: PageQuery): Promise<RunPage>;
  /** Returns the records of these rows, in order. Runs removed meanwhile are left out. */
  infos(rows: readonly Pick<RunRow, "uuid">[]): Promise<ProcInfo[]>;
}

export function listingOf({ rows, open, damaged }: RunPage): Listing {
  return { rows: [...rows, ...open].sort((a, b) => (a.uuid < b.uuid ? -1 : 1)), damaged };
}
