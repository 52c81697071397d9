/** Removes runs that exceed the retention limits, and lists the removed ones. */

import { join } from "node:path";
import { z } from "zod";
import { SCHEMA_VERSION } from "../../lib/schema-version.ts";
import { SyscallError } from "../../plugin/index.ts";
import { AppendLog } from "../files/append-log.ts";
import { isLink, requireNoLink } from "../files/data-dir.ts";
import {
  checkSchemaVersion,
  makeFolder,
  removeAll,
  removeEmptyFolder,
  replaceDocument,
} from "../files/document.ts";
import type { FileLock } from "../files/file-lock.ts";
import { type FsPort, ioError, namesIn } from "../files/fs-port.ts";
import { readLog } from "../files/read-log.ts";
import { requireOwn, UUID } from "./own-run.ts";
import type { CollectReason } from "./retention.ts";
import { INFO, META } from "./run-files.ts";
import { CLAIM } from "./run-folder.ts";
import type { RunRecords } from "./run-records.ts";
import type { ProcInfo } from "./schema.ts";

/** The folder below a data folder for collected runs. */
const GC_FOLDER = "gc";
/** The folder below it for runs that are being removed. */
const GOING = "going";

/** Maximum collected runs in the list; beyond it, the older half is dropped. */
const MOST = 10_000;
/** Maximum bytes of that many lines. */
const MOST_BYTES = MOST * 200;

const CollectedRun = z.object({
  v: z.literal(SCHEMA_VERSION),
  uuid: z.string(),
  /** null when the run had no record. */
  pid: z.number().nullable(),
  ts: z.string(),
  why: z.enum(["age", "runs", "size", "empty"]),
});
export type CollectedRun = z.infer<typeof CollectedRun>;

interface CollectedPorts {
  fs: FsPort;
  /** null when another process claims the run. */
  claim(uuid: string): FileLock | null;
}

/** Files that a run may leave when it is killed before its first record. */
const LEFT_BEHIND: ReadonlySet<string> = new Set([CLAIM, ...[INFO, META].map((name) => `~${name}.tmp`)]);

/**
 * Collects runs of one data folder and lists the latest collected ones, in `gc/`. The caller of `collect` holds a lock
 * over all kernels.
 */
export class CollectedRuns {
  readonly #records: RunRecords;
  readonly #ports: CollectedPorts;
  readonly #folder: string;
  readonly #path: string;
  /** The folder of runs that are being removed. */
  readonly #going: string;

  constructor(records: RunRecords, ports: CollectedPorts) {
    this.#records = records;
    this.#ports = ports;
    this.#folder = join(records.dataDir, GC_FOLDER);
    this.#path = join(this.#folder, "collected.jsonl");
    this.#going = join(this.#folder, GOING);
  }

  /**
   * Removes a run, unless another process claims it or `mayGo` refuses its current record (null: no record). Readers
   * see it disappear at once. It also works on a full disk, to free space. Fails with PERMISSION or INVALID for a
   * folder that this user's Rnix did not make.
   */
  async collect(
    uuid: string,
    o: { why: CollectReason; ts: string; mayGo(info: ProcInfo | null): boolean },
  ): Promise<boolean> {
    const { fs, claim } = this.#ports;
    const { dataDir } = this.#records;
    const dir = this.#records.dir(uuid);
    const there = fs.stat(dir);
    if (there === null) return false;
    requireNoLink(dataDir, ["steps"], fs);
    if (!there.isFolder) throw there.isLink ? isLink(dir) : noFolder(dir);
    await this.#requireOurs(uuid);
    const held = claim(uuid);
    if (!held) return false;
    let going = dir;
    let remember: (() => Promise<boolean>) | undefined;
    try {
      const record = await this.#records.info(uuid);
      if (!o.mayGo(record) || record?.foreign) return false;
      const run = { v: SCHEMA_VERSION, uuid, pid: record?.pid ?? null, ts: o.ts, why: o.why } as const;
      const attempt = (): Promise<boolean> => unlessFull(() => this.#remember(run));
      if (!(await attempt())) remember = attempt;
      if (await unlessFull(() => this.#setAside(uuid))) going = join(this.#going, uuid);
    } catch (error) {
      throw ioError(error, `collect run ${uuid}`, dir);
    } finally {
      held.release({ remove: true });
    }
    requireNoLink(dataDir, going === dir ? ["steps"] : [GC_FOLDER, GOING], fs);
    await removeAll(going, `remove what is left of run ${uuid}`);
    // The removal freed space. If the write fails again, the run is missing from the list of collected runs.
    await remember?.();
    return true;
  }

  /** Decides by the run's record, or without one by the other files in its folder. */
  async #requireOurs(uuid: string): Promise<void> {
    const record = await this.#records.info(uuid);
    if (record) return requireOwn(record);
    const head = await this.#records.meta(uuid);
    if (head && !head.foreign) return;
    const dir = this.#records.dir(uuid);
    const names = await namesIn(this.#ports.fs, dir, "read the folder");
    if (names.some((name) => !LEFT_BEHIND.has(name))) {
      const message = `${dir} holds no record that your Rnix wrote, so it was not removed. Remove it yourself if you don't need it.`;
      throw new SyscallError("PERMISSION", message);
    }
  }

  #setAside(uuid: string): void {
    const { fs } = this.#ports;
    const dir = this.#records.dir(uuid);
    requireNoLink(this.#records.dataDir, [GC_FOLDER, GOING], fs);
    makeFolder(this.#going, fs);
    try {
      fs.rename(dir, join(this.#going, uuid));
    } catch (error) {
      throw ioError(error, `collect run ${uuid}`, dir);
    }
  }

  /** Removes what an interrupted collection left. */
  async sweep(): Promise<void> {
    const { fs } = this.#ports;
    const { dataDir } = this.#records;
    for (const uuid of (await namesIn(fs, this.#going, "read the folder")).filter((name) =>
      UUID.test(name),
    )) {
      requireNoLink(dataDir, [GC_FOLDER, GOING], fs);
      await removeAll(join(this.#going, uuid), "remove what is left of collected runs");
    }
    removeEmptyFolder(this.#going);
  }

  async find(wanted: (run: CollectedRun) => boolean): Promise<CollectedRun | undefined> {
    return (await this.#all()).findLast(wanted);
  }

  /** Returns the bytes on disk of a run's folder. */
  diskBytes(uuid: string): Promise<number> {
    return bytesBelow(this.#ports.fs, this.#records.dir(uuid));
  }

  async #remember(run: CollectedRun): Promise<void> {
    const { fs } = this.#ports;
    requireNoLink(this.#records.dataDir, [GC_FOLDER], fs);
    makeFolder(this.#folder, fs);
    const log = new AppendLog(this.#path, "the list of collected runs", { fs });
    log.append(JSON.stringify(run));
    if (log.size <= MOST_BYTES) return;
    const kept = (await this.#all()).slice(-MOST / 2);
    await replaceDocument(this.#path, kept.map((one) => `${JSON.stringify(one)}\n`).join(""), fs);
  }

  async #all(): Promise<CollectedRun[]> {
    const { records } = await readLog(this.#ports.fs, this.#path, {
      after: 0,
      limit: Number.MAX_SAFE_INTEGER,
      decode: (value, line) => {
        checkSchemaVersion(value, `Line ${line} of ${this.#path}`);
        return CollectedRun.parse(value);
      },
    });
    return records;
  }
}

function noFolder(dir: string): SyscallError {
  return new SyscallError("INVALID", `Expected the folder of a run, found another file: ${dir}. Remove it.`);
}

/** Returns false when the disk is full. */
async function unlessFull(write: () => unknown): Promise<boolean> {
  try {
    await write();
    return true;
  } catch (error) {
    if (error instanceof SyscallError && error.code === "EXHAUSTED") return false;
    throw error;
  }
}

/** Block size of most file systems. */
const BLOCK = 4096;

async function bytesBelow(fs: FsPort, dir: string): Promise<number> {
  let sum = 0;
  for (const name of await namesIn(fs, dir, "read the folder")) {
    const path = join(dir, name);
    const found = fs.stat(path);
    // A file takes whole blocks.
    sum += found?.isFolder ? await bytesBelow(fs, path) : Math.ceil((found?.size ?? 0) / BLOCK) * BLOCK;
  }
  return sum;
}
