/** The conversations of the runs of one data folder, searched. They are indexed from steps.jsonl, a part at a time. */

import { errnoOf, expected } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { realFs, withFile } from "../files/fs-port.ts";
import type { IndexFile } from "../files/index-file.ts";
import { eachLine } from "../files/read-log.ts";
import { TimeSlices } from "../files/time-slice.ts";
import type { RecordKey } from "../runs/record-key.ts";
import { STEPS } from "../runs/run-files.ts";
import { RunRecords } from "../runs/run-records.ts";
import type { ProcInfo } from "../runs/schema.ts";
import type { QueryWord } from "./query.ts";
import { searchedText } from "./step-text.ts";
import { type IndexText, TextDatabase, type TextFilter, type TextHit, type TextIndex } from "./text-index.ts";

/** All texts are in one collection: a source is a run. */
const COLLECTION = "runs";
/** A part of a run that is indexed at once, so that a search waits for no more than that. */
const PART_BYTES = 256 * 1024;
/** Maximum size of an index in memory, used if no file can be written. */
const MAX_MEMORY_BYTES = 64 * 1024 * 1024;
/** How old the last look at all runs may be. */
const LOOK_MS = 30_000;
/** The runs that may grow are among the newest ones. */
const NEWEST = 200;

export interface StepHit extends TextHit {
  text: string;
  info: ProcInfo;
  step: number;
}

/** How far a run's steps.jsonl is indexed. */
interface Indexed {
  ino: number;
  bytes: number;
}

/** Searches finished steps. A run that is foreign, or a line that this user's Rnix did not write, is not searched. */
export class ConversationIndex {
  readonly #texts: TextDatabase;
  readonly #runs: RunRecords;
  readonly #key: RecordKey;
  readonly #indexed = new Map<string, Indexed>();
  /** Runs with steps that are not indexed, the newest last. */
  readonly #waiting = new Set<string>();
  #looked = Number.NEGATIVE_INFINITY;

  constructor(file: IndexFile, dataDir: string, key: RecordKey) {
    this.#texts = new TextDatabase(file, "step", (texts) => {
      this.#reset();
      this.#learn(texts);
    });
    this.#runs = new RunRecords(dataDir, realFs, key);
    this.#key = key;
  }

  /** How many runs are known to have steps that are not indexed. */
  get pending(): number {
    return this.#waiting.size;
  }

  /** Looks for new and grown runs. */
  async look(): Promise<void> {
    this.#texts.use(() => undefined);
    const uuids = await this.#list();
    const isAllDue = performance.now() - this.#looked > LOOK_MS;
    const slices = new TimeSlices();
    // The newest ones last: they are indexed first.
    for (const uuid of isAllDue ? uuids : uuids.slice(-NEWEST)) {
      this.#lookAt(uuid);
      await slices.pause();
    }
    if (!isAllDue) return;
    this.#looked = performance.now();
    const there = new Set(uuids);
    for (const uuid of this.#indexed.keys()) if (!there.has(uuid)) this.#waiting.add(uuid);
  }

  /** Does one piece of work. Returns false when nothing is left. */
  async work(): Promise<boolean> {
    const uuid = [...this.#waiting].at(-1);
    if (uuid === undefined || this.#texts.memoryBytes > MAX_MEMORY_BYTES) return false;
    this.#waiting.delete(uuid);
    if (await this.#index(uuid)) this.#waiting.add(uuid);
    return this.#waiting.size > 0;
  }

  /** The hits whose run and step are still there. */
  async find(words: readonly QueryWord[], filter: TextFilter, limit: number): Promise<StepHit[]> {
    const hits = this.#texts.use((texts) => texts.find(words, filter, limit));
    const infos = new Map<string, ProcInfo | null>();
    const found: StepHit[] = [];
    for (const hit of hits) {
      const info = infos.get(hit.source) ?? (await this.#info(hit.source));
      infos.set(hit.source, info);
      const step = info && this.#stepOf(hit);
      if (info && step) found.push({ ...hit, text: step, info, step: Number(hit.id) });
      else this.#indexAgain(hit.source);
    }
    return found;
  }

  /** The runs of the data folder, oldest first: their names sort by time. */
  async #list(): Promise<string[]> {
    const uuids = await this.#runs.uuids().catch(expected);
    return uuids instanceof SyscallError ? [] : uuids;
  }

  #lookAt(uuid: string): void {
    const facts = realFs.stat(this.#pathOf(uuid));
    const indexed = this.#indexed.get(uuid);
    if (!facts || facts.isLink || facts.isFolder) return;
    if (facts.size > 0 && (indexed?.ino !== facts.ino || indexed.bytes !== facts.size))
      this.#waiting.add(uuid);
  }

  /** Indexes a part of a run. Returns true when more is left. */
  async #index(uuid: string): Promise<boolean> {
    const facts = realFs.stat(this.#pathOf(uuid));
    const info = facts && (await this.#info(uuid));
    if (!facts || !info) {
      this.#remove(uuid);
      // Looked at again when it changes.
      if (facts) this.#indexed.set(uuid, { ino: facts.ino, bytes: facts.size });
      return false;
    }
    const known = this.#indexed.get(uuid);
    const isSame = known !== undefined && known.ino === facts.ino && known.bytes <= facts.size;
    const from = isSame ? known.bytes : 0;
    const part = await this.#read(uuid, from, info);
    if (!part) {
      this.#indexed.set(uuid, { ino: facts.ino, bytes: facts.size });
      return false;
    }
    const { texts, to, isWhole } = part;
    // A torn line at the end waits for the rest of it.
    if (to === from && isWhole) return false;
    this.#write(uuid, { from: isSame ? known : null, to: { ino: facts.ino, bytes: to } }, texts);
    return !isWhole;
  }

  /** Undefined where the file can't be read. */
  async #read(
    uuid: string,
    from: number,
    info: ProcInfo,
  ): Promise<{ texts: IndexText[]; to: number; isWhole: boolean } | undefined> {
    const seal = this.#key.sealOf(`run ${uuid}`);
    const texts: IndexText[] = [];
    let to = from;
    let isWhole = true;
    const take = (at: number, bytes: Uint8Array): void => {
      to = at + bytes.length + 1;
      const step = seal.isSealed(STEPS, bytes) ? searchedText(new TextDecoder().decode(bytes)) : null;
      if (!step) return;
      texts.push({
        id: String(step.step),
        text: step.text,
        time_ms: step.time_ms,
        data: `${at} ${bytes.length}`,
        stored: false,
        agent: info.agent,
        project: info.project,
      });
    };
    try {
      await eachLine(
        realFs,
        this.#pathOf(uuid),
        ({ at, bytes, ended }) => {
          isWhole = !ended || at - from < PART_BYTES;
          if (!ended || !isWhole) return false;
          if (bytes) take(at, bytes);
          return true;
        },
        from,
      );
    } catch (error) {
      expected(error);
      return undefined;
    }
    return { texts, to, isWhole };
  }

  /** Another process may have indexed the same part meanwhile: then this one is dropped. */
  #write(uuid: string, { from, to }: { from: Indexed | null; to: Indexed }, texts: IndexText[]): void {
    const isWritten = this.#texts.change((index) => {
      const now = index.versionOf(COLLECTION, uuid);
      if (from !== null && now !== versionOf(from)) return false;
      if (from === null && now !== undefined) index.remove(COLLECTION, uuid);
      index.add(COLLECTION, uuid, versionOf(to), texts);
      return true;
    });
    if (isWritten) this.#indexed.set(uuid, to);
    else this.#texts.use((texts) => this.#learn(texts));
  }

  /** Called if the run's record is gone, or differs from what was indexed. */
  #indexAgain(uuid: string): void {
    this.#indexed.delete(uuid);
    this.#waiting.add(uuid);
  }

  #remove(uuid: string): void {
    this.#texts.change((index) => index.remove(COLLECTION, uuid));
    this.#indexed.delete(uuid);
  }

  /** null for a run that is gone, damaged or foreign. */
  async #info(uuid: string): Promise<ProcInfo | null> {
    const info = await this.#runs.info(uuid).catch(expected);
    return info instanceof SyscallError || info?.foreign ? null : info;
  }

  /** The text of a found step, from its own record; undefined when it has changed. */
  #stepOf({ source, data, id }: TextHit): string | undefined {
    const [at = 0, length = 0] = data.split(" ").map(Number);
    const bytes = this.#bytesOf(source, at, length);
    if (!bytes || !this.#key.sealOf(`run ${source}`).isSealed(STEPS, bytes)) return undefined;
    const step = searchedText(new TextDecoder().decode(bytes));
    return step && String(step.step) === id ? step.text : undefined;
  }

  #bytesOf(uuid: string, at: number, length: number): Uint8Array | undefined {
    try {
      const bytes = new Uint8Array(length);
      const got = withFile(realFs, this.#pathOf(uuid), "read", (fd) => realFs.read(fd, bytes, at));
      return got === length ? bytes : undefined;
    } catch (error) {
      if (errnoOf(error) === undefined) throw error;
      return undefined;
    }
  }

  #reset(): void {
    this.#indexed.clear();
    this.#waiting.clear();
    this.#looked = Number.NEGATIVE_INFINITY;
  }

  /** Reads how far each run is indexed. */
  #learn(texts: TextIndex): void {
    for (const { source, version } of texts.sources(COLLECTION)) {
      const [ino = 0, bytes = 0] = version.split(" ").map(Number);
      this.#indexed.set(source, { ino, bytes });
    }
  }

  #pathOf(uuid: string): string {
    return `${this.#runs.dir(uuid)}/${STEPS}`;
  }
}

function versionOf({ ino, bytes }: Indexed): string {
  return `${ino} ${bytes}`;
}
