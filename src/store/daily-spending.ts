/** Records the tokens and cost that runs use each day. */

import { join } from "node:path";
import { errnoOf } from "../lib/error-detail.ts";
import { SyscallError } from "../plugin/index.ts";
import { AppendLog } from "./files/append-log.ts";
import { makeFolder, temporaryOf } from "./files/document.ts";
import { type FsPort, ioError, linked, realFs, removeLeftover, withFile, writeAll } from "./files/fs-port.ts";

/** Tokens and cost of a day. The cost, in USD, covers the calls with a known price. */
export interface Spent {
  tokens: number;
  cost: number;
}

/** The folder below the data folder. */
const SPENDING = "spending";
/** Of a day's file, more than a million model calls. A larger one came with the project, and would fill the memory. */
const MAX_DAY_BYTES = 64 * 1024 ** 2;
/** Below the data folder of the user: the spending of each project's jobs that runs made. */
const AGENT_JOBS = "cron/by-runs";
const STORED_DAYS = 31;
const NAME = /^(\d{4}-\d{2}-\d{2})\.jsonl$/;

/**
 * The daily spending of the runs in one data folder: a file for each day, a line for each model call. All kernels append
 * to it and read it, so it survives kills and restarts and covers parallel runs. A day without a file was not counted.
 */
export class DailySpending {
  readonly #dir: string;
  readonly #fs: FsPort;
  #day = "";
  #log: AppendLog | undefined;
  #spent: Spent = { tokens: 0, cost: 0 };
  /** Bytes of the day's file that `#spent` includes. */
  #bytes = 0;

  constructor(dataDir: string, fs: FsPort = realFs) {
    this.#dir = join(dataDir, SPENDING);
    this.#fs = fs;
  }

  /** Returns the spending of all kernels so far. `day` has the form 2026-11-20. */
  spent(day: string): Spent {
    this.#turnTo(day);
    const path = this.#path(day);
    const size = this.#fs.stat(path)?.size ?? 0;
    if (size > this.#bytes) this.#read(path, size);
    return this.#spent;
  }

  add(day: string, { tokens, cost }: Spent): void {
    this.#turnTo(day);
    makeFolder(this.#dir, this.#fs);
    this.#log ??= new AppendLog(this.#path(day), `the spending of ${day}`, { fs: this.#fs });
    this.#log.append(JSON.stringify({ v: 1, tokens, cost }));
  }

  has(day: string): boolean {
    return this.#fs.stat(this.#path(day)) !== null;
  }

  /** Begins a day with earlier spending, unless another kernel has begun it. */
  async begin(day: string, spent: Spent): Promise<void> {
    makeFolder(this.#dir, this.#fs);
    const path = this.#path(day);
    try {
      this.#create(path, `${JSON.stringify({ v: 1, ...spent })}\n`);
    } catch (error) {
      if (errnoOf(error) !== "EEXIST") throw ioError(error, `begin the spending of ${day}`, path);
    }
    await this.#removeOld();
  }

  #path(day: string): string {
    return join(this.#dir, `${day}.jsonl`);
  }

  #turnTo(day: string): void {
    if (day === this.#day) return;
    this.#day = day;
    this.#log = undefined;
    this.#spent = { tokens: 0, cost: 0 };
    this.#bytes = 0;
  }

  /** Reads complete lines only: the last one may be unfinished. Damaged lines are ignored. */
  #read(path: string, size: number): void {
    if (size > MAX_DAY_BYTES) {
      const message = `${path}, what was spent today, has ${size} bytes: expected at most ${MAX_DAY_BYTES}. Remove it.`;
      throw new SyscallError("INVALID", message);
    }
    const bytes = new Uint8Array(size - this.#bytes);
    let got = 0;
    try {
      got = withFile(this.#fs, path, "read", (fd) => this.#fs.read(fd, bytes, this.#bytes));
    } catch (error) {
      throw ioError(error, "read what was spent today", path);
    }
    const end = bytes.subarray(0, got).lastIndexOf(NEWLINE) + 1;
    for (const line of new TextDecoder().decode(bytes.subarray(0, end)).split("\n")) {
      const { tokens, cost } = spentOf(line);
      this.#spent = { tokens: this.#spent.tokens + tokens, cost: this.#spent.cost + cost };
    }
    this.#bytes += end;
  }

  /** Creates the file atomically where it can: readers should not see it empty. Fails with EEXIST. */
  #create(path: string, text: string): void {
    const temporary = `${temporaryOf(path)}.${process.pid}`;
    const write = (file: string, mode: "create" | "replace"): void =>
      withFile(this.#fs, file, mode, (fd) => writeAll(this.#fs, fd, new TextEncoder().encode(text)));
    write(temporary, "replace");
    try {
      if (!linked(this.#fs, temporary, path)) write(path, "create");
    } finally {
      removeLeftover(this.#fs, temporary);
    }
  }

  async #removeOld(): Promise<void> {
    const days = (await this.#fs.list(this.#dir)).filter((name) => NAME.test(name)).sort();
    for (const name of days.slice(0, -STORED_DAYS)) removeLeftover(this.#fs, join(this.#dir, name));
  }
}

/**
 * The daily spending of all jobs that runs made in a project. It lies in the folder of the user: a run that removes its
 * job or the project's data starts no new budget.
 */
export function spendingOfAgentJobs(userDataDir: string, dataDir: string, fs?: FsPort): DailySpending {
  const name = Bun.CryptoHasher.hash("sha256", dataDir, "hex").slice(0, 32);
  return new DailySpending(join(userDataDir, AGENT_JOBS, name), fs);
}

/** The local date, such as 2026-11-20. */
export function localDay(ms: number): string {
  const date = new Date(ms);
  const two = (part: number): string => String(part).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

const NEWLINE = 10;

/** Returns a positive amount; 0 for any other value, so that spending never decreases. */
function amount(value: unknown): number {
  return typeof value === "number" && value > 0 && value < Number.POSITIVE_INFINITY ? value : 0;
}

function spentOf(line: string): Spent {
  const nothing = { tokens: 0, cost: 0 };
  if (line === "") return nothing;
  try {
    const value: unknown = JSON.parse(line);
    if (typeof value !== "object" || value === null) return nothing;
    return {
      tokens: "tokens" in value ? amount(value.tokens) : 0,
      cost: "cost" in value ? amount(value.cost) : 0,
    };
  } catch {
    // A torn line: its write failed.
    return nothing;
  }
}
