import { join } from "node:path";
import { AppendLog } from "../files/append-log.ts";
import { replaceDocument, syncDirectory } from "../files/document.ts";
import type { FsPort } from "../files/fs-port.ts";
import { SCHEMA_VERSION } from "../files/schema-version.ts";
import type { InboxDraft, InboxEntry, StepRecord } from "./schema.ts";

export const INBOX = "inbox.jsonl";

/** Of what nobody needs any more so many bytes stay in the file: readers leave it out, and a rewrite waits for the disk. */
const SPENT_BYTES = 256 * 1024;

/** What the inbox of a run holds that is gone on with. */
export interface InboxRest {
  /** The highest number ever given: none is given twice. */
  last: number;
  unread: readonly InboxEntry[];
  /** Bytes of the file that nobody needs any more. */
  spentBytes: number;
}

interface InboxLogOptions {
  uuid: string;
  dir: string;
  fs: FsPort;
  /** Authenticates a line. */
  seal(line: string): string;
  rest?: InboxRest;
  /** Makes the step records written so far durable. */
  syncSteps(): Promise<void>;
}

interface Pending {
  seq: number;
  line: string;
  done: PromiseWithResolvers<void>;
}

/**
 * What has arrived for one run: `inbox.jsonl` (design §2, "Inbox"). An entry is durable when `add` returns. The
 * record of the step that told it to the model acknowledges it, or a `taken` line where no step did; until then
 * a reader offers it again. One write and one sync serve all who add at the same time, and no file stays open.
 */
export class InboxLog {
  readonly #o: InboxLogOptions;
  readonly #log: AppendLog;
  /** The lines in the file that are not acknowledged, by number. */
  readonly #unread = new Map<number, string>();
  #last: number;
  #pending: Pending[] = [];
  /** Numbers for the next `taken` line. */
  #taken: number[] = [];
  #flushing: Promise<void> | undefined;
  /** The file's name is durable in its folder: a writer before us may have been killed before it was. */
  #named = false;
  /** Bytes of the file that nobody needs any more. */
  #spentBytes: number;

  constructor(o: InboxLogOptions) {
    this.#o = o;
    this.#log = new AppendLog(join(o.dir, INBOX), `${INBOX} of run ${o.uuid}`, { fs: o.fs });
    this.#last = o.rest?.last ?? 0;
    this.#spentBytes = o.rest?.spentBytes ?? 0;
    for (const entry of o.rest?.unread ?? []) this.#unread.set(entry.seq, o.seal(JSON.stringify(entry)));
  }

  /** Gives the entry its number and makes it durable. EXHAUSTED or UNAVAILABLE when the disk does not take it. */
  async add(draft: InboxDraft): Promise<InboxEntry> {
    const entry: InboxEntry = { v: SCHEMA_VERSION, seq: ++this.#last, ...draft };
    const done = Promise.withResolvers<void>();
    this.#pending.push({ seq: entry.seq, line: this.#o.seal(JSON.stringify(entry)), done });
    this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = undefined;
    });
    await done.promise;
    return entry;
  }

  /** A step's record is written: what it told the model is not offered again. */
  acknowledge(record: Pick<StepRecord, "inbox" | "tool_calls">): void {
    for (const seq of acknowledgedBy(record)) this.#spend(seq);
  }

  /** Taken by a program, so that no step will tell it. Written with the next entry, at the latest at the end. */
  taken(seq: number): void {
    this.#spend(seq);
    this.#taken.push(seq);
  }

  /** The end of the run, whose steps are durable: a file that nobody needs any more is emptied. */
  async close(): Promise<void> {
    await this.#flushing;
    if (this.#unread.size === 0) {
      if (this.#spentBytes > 0) this.#log.empty();
      this.#spentBytes = 0;
    } else if (this.#taken.length > 0) {
      this.#log.append(this.#takenLine(this.#taken));
    }
    this.#taken = [];
  }

  #spend(seq: number): void {
    const line = this.#unread.get(seq);
    if (line === undefined) return;
    this.#unread.delete(seq);
    this.#spentBytes += bytesOf(line);
  }

  #takenLine(seqs: readonly number[]): string {
    return this.#o.seal(JSON.stringify({ v: SCHEMA_VERSION, kind: "taken", seqs }));
  }

  /** Never rejects: those who added are told. */
  async #flush(): Promise<void> {
    while (this.#pending.length > 0) {
      const batch = this.#pending;
      const taken = this.#taken;
      this.#pending = [];
      this.#taken = [];
      try {
        await this.#write(batch, taken);
        for (const { done } of batch) done.resolve();
      } catch (error) {
        this.#taken.unshift(...taken);
        for (const { done } of batch) done.reject(error);
      }
    }
  }

  async #write(batch: readonly Pending[], taken: readonly number[]): Promise<void> {
    if (this.#spentBytes >= SPENT_BYTES) await this.#rewrite();
    const lines = batch.map(({ line }) => line);
    if (taken.length > 0) lines.push(this.#takenLine(taken));
    this.#log.append(...lines);
    await this.#log.sync();
    if (!this.#named) await syncDirectory(this.#o.dir, this.#o.fs);
    this.#named = true;
    for (const { seq, line } of batch) this.#unread.set(seq, line);
  }

  /**
   * Leaves out what is acknowledged. The records that say so are durable first: after a power loss between the
   * two an entry would be in neither.
   */
  async #rewrite(): Promise<void> {
    await this.#o.syncSteps();
    const kept = [...this.#unread];
    await replaceDocument(this.#log.path, kept.map(([, line]) => `${line}\n`).join(""), this.#o.fs);
    // Meanwhile some may have been acknowledged.
    const spent = kept.filter(([seq]) => !this.#unread.has(seq));
    this.#spentBytes = spent.reduce((sum, [, line]) => sum + bytesOf(line), 0);
  }
}

/** The inbox numbers that a step's record acknowledges. */
export function acknowledgedBy({
  inbox = [],
  tool_calls,
}: Pick<StepRecord, "inbox" | "tool_calls">): number[] {
  return [...inbox, ...tool_calls.flatMap((call) => call.inbox ?? [])];
}

/** In the file, with its newline. */
export function bytesOf(line: string): number {
  return Buffer.byteLength(line) + 1;
}
