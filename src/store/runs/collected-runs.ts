import { join } from "node:path";
import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { AppendLog, readLog } from "../files/append-log.ts";
import { isLink, requireNoLink } from "../files/data-dir.ts";
import {
  checkSchemaVersion,
  makeFolder,
  removeAll,
  removeEmptyFolder,
  replaceDocument,
} from "../files/document.ts";
import type { FileLock } from "../files/file-lock.ts";
import { errno, type FsPort, ioError } from "../files/fs-port.ts";
import { SCHEMA_VERSION } from "../files/schema-version.ts";
import { requireOwn, UUID } from "./own-run.ts";
import type { CollectReason } from "./retention.ts";
import { CLAIM } from "./run-claim.ts";
import { INFO, META } from "./run-writer.ts";
import type { ProcInfo } from "./schema.ts";

/** Below a data folder: what concerns runs that were collected. */
const GC_FOLDER = "gc";
/** In it: runs on their way out. */
const GOING = "going";

/** So many are remembered; the older half goes when there are more. */
const MOST = 10_000;
/** What that many lines have at most. */
const MOST_BYTES = MOST * 200;

/** A run that was here. */
const CollectedRun = z.object({
  v: z.literal(SCHEMA_VERSION),
  uuid: z.string(),
  /** null: no record told it. */
  pid: z.number().nullable(),
  ts: z.string(),
  why: z.enum(["age", "runs", "size", "empty"]),
});
export type CollectedRun = z.infer<typeof CollectedRun>;

interface CollectedPorts {
  dataDir: string;
  fs: FsPort;
  /** Absolute. */
  runDir(uuid: string): string;
  /** null: somebody takes it up. */
  claim(uuid: string): FileLock | null;
  info(uuid: string): Promise<ProcInfo | null>;
  meta(uuid: string): Promise<{ foreign?: true } | null>;
}

/** What a run that was cut off before its first record may have left. */
const LEFT_BEHIND: ReadonlySet<string> = new Set([CLAIM, ...[INFO, META].map((name) => `~${name}.tmp`)]);

/**
 * Collects runs of one data folder, and knows those that were, as far as they are remembered: in `gc/`. Who
 * collects holds a lock over all kernels.
 */
export class CollectedRuns {
  readonly #ports: CollectedPorts;
  readonly #folder: string;
  readonly #path: string;
  /** Runs on their way out. */
  readonly #going: string;

  constructor(ports: CollectedPorts) {
    this.#ports = ports;
    this.#folder = join(ports.dataDir, GC_FOLDER);
    this.#path = join(this.#folder, "collected.jsonl");
    this.#going = join(this.#folder, GOING);
  }

  /**
   * Removes a run whole, unless somebody takes it up or `mayGo` says no to its record as it is then; null: it has
   * none. For readers it is gone from one moment to the next. On a full disk it goes all the same: that is what it is
   * removed for. PERMISSION or INVALID for a folder that this user's Rnix has not made.
   */
  async collect(
    uuid: string,
    o: { why: CollectReason; ts: string; mayGo(info: ProcInfo | null): boolean },
  ): Promise<boolean> {
    const { fs, runDir, claim, info } = this.#ports;
    const dir = runDir(uuid);
    const there = fs.stat(dir);
    if (there === null) return false;
    requireNoLink(this.#ports.dataDir, ["steps"], fs);
    if (!there.isFolder) throw there.isLink ? isLink(dir) : noFolder(dir);
    await this.#requireOurs(uuid);
    const held = claim(uuid);
    if (!held) return false;
    let going = dir;
    let remember: (() => Promise<boolean>) | undefined;
    try {
      const record = await info(uuid);
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
    requireNoLink(this.#ports.dataDir, going === dir ? ["steps"] : [GC_FOLDER, GOING], fs);
    await removeAll(going, `remove what is left of run ${uuid}`);
    // There is room for it now. Where there is not, nobody is told any more that there was such a run.
    await remember?.();
    return true;
  }

  /** By its record; where it has none, by what else stands in its folder. */
  async #requireOurs(uuid: string): Promise<void> {
    const { fs, info, meta, runDir } = this.#ports;
    const record = await info(uuid);
    if (record) return requireOwn(record);
    const head = await meta(uuid);
    if (head && !head.foreign) return;
    const names = await namesIn(fs, runDir(uuid));
    if (names.some((name) => !LEFT_BEHIND.has(name))) throw notOurs(runDir(uuid));
  }

  #setAside(uuid: string): void {
    const { fs, runDir, dataDir } = this.#ports;
    requireNoLink(dataDir, [GC_FOLDER, GOING], fs);
    makeFolder(this.#going, fs);
    try {
      fs.rename(runDir(uuid), join(this.#going, uuid));
    } catch (error) {
      throw ioError(error, `collect run ${uuid}`, runDir(uuid));
    }
  }

  /** Removes what a collection that was cut off has left. */
  async sweep(): Promise<void> {
    const { dataDir, fs } = this.#ports;
    for (const uuid of (await namesIn(fs, this.#going)).filter((name) => UUID.test(name))) {
      requireNoLink(dataDir, [GC_FOLDER, GOING], fs);
      await removeAll(join(this.#going, uuid), "remove what is left of collected runs");
    }
    removeEmptyFolder(this.#going);
  }

  /** The last one that answers to it. */
  async find(wanted: (run: CollectedRun) => boolean): Promise<CollectedRun | undefined> {
    return (await this.#all()).findLast(wanted);
  }

  /** Bytes on disk of a run and what is beside it. */
  diskBytes(uuid: string): Promise<number> {
    return bytesBelow(this.#ports.fs, this.#ports.runDir(uuid));
  }

  async #remember(run: CollectedRun): Promise<void> {
    const { dataDir, fs } = this.#ports;
    requireNoLink(dataDir, [GC_FOLDER], fs);
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

function notOurs(dir: string): SyscallError {
  return new SyscallError(
    "PERMISSION",
    `${dir} holds no record that your Rnix has written: it is left alone. Remove it yourself if nothing in it is needed.`,
  );
}

function noFolder(dir: string): SyscallError {
  return new SyscallError("INVALID", `Expected the folder of a run, found another file: ${dir}. Remove it.`);
}

/** False: the disk is full. */
async function unlessFull(write: () => unknown): Promise<boolean> {
  try {
    await write();
    return true;
  } catch (error) {
    if (error instanceof SyscallError && error.code === "EXHAUSTED") return false;
    throw error;
  }
}

/** Of most file systems. */
const BLOCK = 4096;

async function bytesBelow(fs: FsPort, dir: string): Promise<number> {
  let sum = 0;
  for (const name of await namesIn(fs, dir)) {
    const path = join(dir, name);
    const found = fs.stat(path);
    // A file takes whole blocks.
    sum += found?.isFolder ? await bytesBelow(fs, path) : Math.ceil((found?.size ?? 0) / BLOCK) * BLOCK;
  }
  return sum;
}

/** One that has gone in the meantime has none. */
async function namesIn(fs: FsPort, dir: string): Promise<string[]> {
  try {
    return await fs.list(dir);
  } catch (error) {
    if (errno(error) === "ENOENT") return [];
    throw ioError(error, "look into", dir);
  }
}
