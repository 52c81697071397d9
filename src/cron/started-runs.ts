/** What a project's jobs have started, as the user's own data folder knows it: `cron/started/`. */

import { join } from "node:path";
import { z } from "zod";
import type { LedgerRow } from "../plugin/index.ts";
import {
  makeFolder,
  parseDocument,
  readDocument,
  replaceDocument,
  temporaryOf,
} from "../store/files/document.ts";
import { type FsPort, realFs } from "../store/files/fs-port.ts";
import { CRON } from "./cron-folder.ts";
import { dueRow } from "./due.ts";
import type { StoredJob } from "./job.ts";
import { byInstant, type Ledger } from "./ledger.ts";
import { usedOnDay } from "./spending.ts";

/** The newest attempt of a job that a run began, and what the job had used on that day. */
const Started = z.object({
  due: z.string(),
  attempt: z.number(),
  started: z.string(),
  tokens_used: z.number(),
  cost_usd: z.number(),
});
type Started = z.infer<typeof Started>;
const Document = z.lazy(() => z.object({ v: z.literal(1), jobs: z.record(z.string(), Started) }));

const REASON = "rows of the job were removed from its ledger";

/**
 * A program can shorten the ledger, which lies in the project. Then what a job has started does not start again, and what
 * it used stays in its budget of the day.
 */
export class StartedRuns {
  readonly #path: string;
  readonly #folder: string;
  readonly #fs: FsPort;
  #jobs: Record<string, Started> = {};

  constructor(userDataDir: string, dataDir: string, fs: FsPort = realFs) {
    this.#folder = join(userDataDir, CRON, "started");
    this.#path = join(this.#folder, `${Bun.CryptoHasher.hash("sha256", dataDir, "hex").slice(0, 32)}.json`);
    this.#fs = fs;
  }

  /** The rows that a ledger lacks which was just read. */
  async missing(ledger: Ledger, jobs: readonly StoredJob[]): Promise<LedgerRow[]> {
    const found = await readDocument(this.#path, this.#fs);
    this.#jobs = found === null ? {} : parseDocument(Document, found.text, this.#path).jobs;
    return jobs.flatMap((job) => {
      const known = this.#jobs[job.id];
      return known ? missingOf(job, known, ledger) : [];
    });
  }

  /** `isBegun`: the run of a row that is running has its record. */
  async save(
    ledger: Ledger,
    jobs: readonly StoredJob[],
    isBegun: (row: LedgerRow) => boolean,
  ): Promise<void> {
    const changed = new Set(ledger.startedJobs);
    if (changed.size === 0) return;
    ledger.startedJobs.clear();
    const entries = jobs.flatMap((job): [string, Started][] => {
      const known = this.#jobs[job.id];
      const newest = changed.has(job.id) ? newestOf(job, ledger, isBegun) : undefined;
      const one = newest ?? known;
      return one ? [[job.id, one]] : [];
    });
    const now = Object.fromEntries(entries);
    if (JSON.stringify(now) === JSON.stringify(this.#jobs)) return;
    try {
      makeFolder(this.#folder, this.#fs);
      const text = `${JSON.stringify({ v: 1, jobs: now })}\n`;
      await replaceDocument(this.#path, text, this.#fs, undefined, temporaryOf(this.#path));
    } catch (thrown) {
      for (const id of changed) ledger.startedJobs.add(id);
      throw thrown;
    }
    this.#jobs = now;
  }
}

function newestOf(job: StoredJob, ledger: Ledger, isBegun: (row: LedgerRow) => boolean): Started | undefined {
  let newest: LedgerRow | undefined;
  for (const row of ledger.rows(job.id)) {
    const hasBegun = row.started !== null && (row.state !== "running" || isBegun(row));
    if (hasBegun && (!newest || byInstant(row, newest) >= 0)) newest = row;
  }
  if (!newest?.started) return undefined;
  const { due, attempt, started } = newest;
  const { tokens, cost } = usedOnDay(job, ledger, Date.parse(started));
  return { due, attempt, started, tokens_used: tokens, cost_usd: cost };
}

function missingOf(job: StoredJob, known: Started, ledger: Ledger): LedgerRow[] {
  const isThere = typeof ledger.row(job.id, known.due, known.attempt)?.started === "string";
  const used = usedOnDay(job, ledger, Date.parse(known.started));
  const tokens = Math.max(0, known.tokens_used - used.tokens);
  const cost = Math.max(0, known.cost_usd - used.cost);
  if (isThere && tokens === 0 && cost < 1e-9) return [];
  // Beside the row of the attempt where that is there.
  const attempt = isThere ? 0 : known.attempt;
  const before = ledger.row(job.id, known.due, attempt);
  const earlier = isThere
    ? []
    : ledger.open(job.id).filter((row) => row.state === "due" && byInstant(row, known) < 0);
  return [
    ...earlier.map((row): LedgerRow => ({ ...row, state: "skipped", reason: REASON })),
    dueRow(job, Date.parse(known.due), {
      attempt,
      state: "skipped",
      reason: REASON,
      started: known.started,
      tokens_used: tokens + (before?.tokens_used ?? 0),
      cost_usd: cost + (before?.cost_usd ?? 0),
    }),
  ];
}
