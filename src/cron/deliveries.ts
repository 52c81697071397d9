/** Hands the answers of runs to where their job wants them, until they are accepted or given up. */

import { messageOf } from "../lib/error-detail.ts";
import { Semaphore } from "../lib/semaphore.ts";
import { type DeliveryState, type LedgerRow, SyscallError } from "../plugin/index.ts";
import type { StoredJob } from "./job.ts";
import type { ProjectPorts } from "./job-review.ts";
import { attemptKey } from "./ledger.ts";

/** Waits before the second and later tries. */
const WAITS_MS = [10_000, 60_000, 600_000, 3_600_000] as const;
const ERROR_CHARS = 500;
/** Rows whose answers are delivered at the same time: each may run a program. */
const MAX_CONCURRENT = 8;

/** Each delivery is counted in the row of its run, so a restart continues where it stopped. */
export class Deliveries {
  readonly #ports: ProjectPorts;
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #slots = new Semaphore(MAX_CONCURRENT);
  /** When a row is tried again, by row. */
  readonly #waiting = new Map<string, number>();
  /** Tries that could not be counted yet, as on a full disk: they are not repeated. */
  readonly #uncounted = new Map<string, DeliveryState>();
  #closed = false;

  constructor(ports: ProjectPorts) {
    this.#ports = ports;
  }

  /** The deliveries that the end of a run asks for. */
  of(job: StoredJob, row: LedgerRow): Pick<LedgerRow, "delivery"> {
    if (!this.#ports.deliver) return {};
    const rows = this.#ports.ledger.rows(job.id);
    const before = rows.findLast((one) => one.state === "ran" && one.due < row.due);
    const wanted = (job.deliver ?? []).filter(({ when }) => {
      if (when === "on-failure") return row.state === "failed";
      return when === "always" || (row.state === "ran" && before?.answer !== row.answer);
    });
    if (wanted.length === 0) return {};
    return { delivery: wanted.map(({ to }) => ({ to, state: "due", tries: 0, error: null })) };
  }

  /** Begins what is due now. */
  look(now: number): void {
    if (this.#closed || !this.#ports.deliver) return;
    for (const row of this.#ports.ledger.open()) {
      if (!row.delivery?.some(({ state }) => state === "due")) continue;
      const key = attemptKey(row);
      if (this.#underWay.has(key) || (this.#waiting.get(key) ?? now) > now) continue;
      const work = this.#slots
        .run(() => this.#deliver(row, key))
        .catch((thrown: unknown) =>
          this.#ports.log("warn", `job ${row.job}`, `a delivery could not be counted: ${String(thrown)}`),
        )
        .finally(() => this.#underWay.delete(key));
      this.#underWay.set(key, work);
    }
  }

  /** When `look` has something to do. */
  next(now: number): number {
    // What is due already has begun.
    return Math.min(...[...this.#waiting.values()].filter((at) => at > now), Number.POSITIVE_INFINITY);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#underWay.values());
  }

  async #deliver(row: LedgerRow, key: string): Promise<void> {
    const { clock, ledger } = this.#ports;
    let wait: number | null = null;
    for (const [at, one] of (row.delivery ?? []).entries()) {
      if (one.state !== "due" || this.#closed) continue;
      const next = this.#uncounted.get(`${key} ${at}`) ?? (await this.#try(row, one));
      this.#uncounted.set(`${key} ${at}`, next);
      const latest = ledger.row(row.job_id, row.due, row.attempt) ?? row;
      ledger.append({ ...latest, delivery: latest.delivery?.map((old, i) => (i === at ? next : old)) });
      this.#uncounted.delete(`${key} ${at}`);
      if (next.state === "due") wait = Math.max(wait ?? 0, WAITS_MS[one.tries] ?? 0);
    }
    if (wait === null) this.#waiting.delete(key);
    else this.#waiting.set(key, clock.now() + wait);
  }

  async #try(row: LedgerRow, one: DeliveryState): Promise<DeliveryState> {
    const { deliver, job: find, log } = this.#ports;
    const job = find(row.job_id);
    const tries = one.tries + 1;
    try {
      if (!job) throw new SyscallError("NOT_FOUND", "The job was removed.");
      await deliver?.(job, row, one);
      return { ...one, state: "delivered", tries, error: null };
    } catch (thrown) {
      const error = messageOf(thrown).slice(0, ERROR_CHARS);
      const isOver = !job || WAITS_MS[one.tries] === undefined;
      if (isOver)
        log("warn", `job ${row.job}`, `the answer of ${row.due} was not delivered to ${one.to}: ${error}`);
      return { ...one, state: isOver ? "failed" : "due", tries, error };
    }
  }
}
