/** The runs of a data folder for listings, read by the index's Worker. */

import { statSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import { TimeSlices } from "../files/time-slice.ts";
import {
  type DamagedRun,
  type Listing,
  listingOf,
  type PageQuery,
  type RunLists,
  type RunPage,
  type RunRow,
} from "../runs/run-lists.ts";
import type { ProcInfo } from "../runs/schema.ts";
import type { DamagedText, RowsText } from "./requests.ts";
import type { SearchIndex } from "./search-index.ts";

/** The first listing of a data folder reads every record. */
const LISTING_MS = 120_000;
const RECORDS = 200;
/** A Worker is not started for fewer runs: it takes 9 MiB and 45 ms of CPU, as long as these take in this thread. */
const FEW_RUNS = 500;

interface WorkerRunListsPorts {
  index: Pick<SearchIndex, "ask" | "isRunning">;
  dataDir: string;
  /** Reads the runs in this thread, when the Worker can't. */
  own(): Promise<RunLists>;
  /** Reads a run's own record. */
  info(uuid: string): Promise<ProcInfo | null>;
}

/** No answer is missing without the Worker: then this thread reads the records. */
export class WorkerRunLists implements RunLists {
  readonly #ports: WorkerRunListsPorts;

  constructor(ports: WorkerRunListsPorts) {
    this.#ports = ports;
  }

  async list(): Promise<Listing> {
    return listingOf(await this.page({}));
  }

  page(query: PageQuery): Promise<RunPage> {
    return this.#unlessEnded(
      async () => {
        const { index, dataDir } = this.#ports;
        const page = await index.ask("pageRuns", { dataDir, query }, LISTING_MS);
        const { rows, total, open, damaged } = page;
        return {
          rows: await rowsOf(rows),
          total,
          open: await rowsOf(open),
          damaged: damaged.map(damagedRun),
        };
      },
      (own) => own.page(query),
    );
  }

  infos(rows: readonly Pick<RunRow, "uuid">[]): Promise<ProcInfo[]> {
    return this.#unlessEnded(
      () => this.#infos(rows.map(({ uuid }) => uuid)),
      (own) => own.infos(rows),
    );
  }

  async #infos(uuids: readonly string[]): Promise<ProcInfo[]> {
    const { index, dataDir, info } = this.#ports;
    const found: ProcInfo[] = [];
    const slices = new TimeSlices();
    for (let at = 0; at < uuids.length; at += RECORDS) {
      const part = uuids.slice(at, at + RECORDS);
      const texts = await index.ask("recordTexts", { dataDir, uuids: part });
      for (const [i, uuid] of part.entries()) {
        await slices.pause();
        const text = texts[i];
        const record = typeof text === "string" ? parsedInfo(text) : await info(uuid);
        if (record) found.push(record);
      }
    }
    return found;
  }

  async #unlessEnded<T>(ask: () => Promise<T>, instead: (own: RunLists) => Promise<T>): Promise<T> {
    if (!this.#ports.index.isRunning && this.#hasFewRuns()) return instead(await this.#ports.own());
    try {
      return await ask();
    } catch (error) {
      const isEnded = error instanceof SyscallError && ENDED.has(error.code);
      if (!isEnded) throw error;
      return instead(await this.#ports.own());
    }
  }

  /** A folder with N folders has N + 2 links, or 1 where the file system does not count them. */
  #hasFewRuns(): boolean {
    const links = statSync(join(this.#ports.dataDir, "steps"), { throwIfNoEntry: false })?.nlink ?? 0;
    return links !== 1 && links < FEW_RUNS;
  }
}

const ENDED: ReadonlySet<string> = new Set(["CLOSED", "UNAVAILABLE", "TIMEOUT", "INTERNAL"]);

async function rowsOf(texts: readonly RowsText[]): Promise<RunRow[]> {
  const rows: RunRow[] = [];
  const slices = new TimeSlices();
  for (const text of texts) {
    await slices.pause();
    for (const row of parsedRows(text)) rows.push(row);
  }
  return rows;
}

function parsedRows(text: RowsText): RunRow[] {
  return JSON.parse(text);
}

function parsedInfo(text: string): ProcInfo {
  return JSON.parse(text);
}

function damagedRun({ uuid, code, message }: DamagedText): DamagedRun {
  return { uuid, error: new SyscallError(code, message) };
}
