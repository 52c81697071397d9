/** The inbox file of a run: its writer, and its unread entries. */

import { join } from "node:path";
import { BoundedMap } from "../../lib/caches.ts";
import { SCHEMA_VERSION } from "../../lib/schema-version.ts";
import { AppendLog } from "../files/append-log.ts";
import { replaceDocument, syncDirectory } from "../files/document.ts";
import type { FsPort } from "../files/fs-port.ts";
import { SEAL_BYTES } from "./record-key.ts";
import { INBOX } from "./run-files.ts";
import type { InboxDraft, InboxEntry, InboxLine, StepRecord } from "./schema.ts";

/** Bytes of acknowledged lines that may stay in the file before it is rewritten. Readers skip them; a rewrite waits for the disk. */
const SPENT_BYTES = 256 * 1024;
/** Keys that are remembered: the newest ones. */
const MAX_KEYS = 256;

/** A message that came with a key: its number, and the digest of its request. */
export interface KeyedMessage {
  seq: number;
  digest?: string;
}

/** The entries of an inbox that no record acknowledges, and what continues it. */
export interface InboxState {
  /** The highest number assigned so far. No number is assigned twice. */
  last: number;
  /** In order of arrival. */
  unread: readonly InboxEntry[];
  keys: ReadonlyMap<string, KeyedMessage>;
  /** Bytes of acknowledged lines in the file. */
  spentBytes: number;
}

interface InboxLogOptions {
  uuid: string;
  dir: string;
  fs: FsPort;
  seal(line: string): string;
  /** Numbers, authenticates and appends lines, and returns them. */
  append(log: AppendLog, records: readonly object[]): string[];
  rest?: InboxState;
  /** Makes the step records written so far durable. */
  syncSteps(): Promise<void>;
}

interface Pending {
  /** The number of the entry; absent in a line that acknowledges other entries. */
  seq?: number;
  record: object;
  done: PromiseWithResolvers<void>;
}

/**
 * The messages that arrived for one run: `inbox.jsonl`. An entry is durable when `add` returns.
 * The record of the step that delivered it to the model acknowledges it; a `taken` line does so without a step. Until
 * then readers return it as unread. Concurrent `add` calls share one write and one sync. No file stays open.
 */
export class InboxLog {
  readonly #o: InboxLogOptions;
  readonly #log: AppendLog;
  /** The lines in the file that are not acknowledged, by number. */
  readonly #unread = new Map<number, string>();
  #last: number;
  #pending: Pending[] = [];
  /** Numbers of entries that the next `taken` line acknowledges. */
  #taken: number[] = [];
  #flushing: Promise<void> | undefined;
  /** The file's name is durable in its folder. An earlier writer may have been killed before that. */
  #named = false;
  /** Bytes of acknowledged lines in the file. */
  #spentBytes: number;
  /** Made with the first key: most messages have none. */
  #keys: BoundedMap<string, KeyedMessage> | undefined;

  constructor(o: InboxLogOptions) {
    this.#o = o;
    this.#log = new AppendLog(join(o.dir, INBOX), `${INBOX} of run ${o.uuid}`, { fs: o.fs });
    this.#last = o.rest?.last ?? 0;
    this.#spentBytes = o.rest?.spentBytes ?? 0;
    for (const [key, message] of o.rest?.keys ?? []) this.#remember(key, message);
    for (const entry of o.rest?.unread ?? []) this.#unread.set(entry.seq, o.seal(JSON.stringify(entry)));
  }

  /** Numbers the entry and makes it durable. Fails with EXHAUSTED or UNAVAILABLE when the disk rejects it. */
  async add(draft: InboxDraft): Promise<InboxEntry> {
    const entry: InboxEntry = { v: SCHEMA_VERSION, seq: ++this.#last, ...draft };
    await this.#pend({ seq: entry.seq, record: entry });
    if (entry.kind === "input" && entry.key !== undefined) this.#remember(entry.key, entry);
    return entry;
  }

  /** The message that came with this key; undefined if none did. */
  keyed(key: string): KeyedMessage | undefined {
    return this.#keys?.get(key);
  }

  #remember(key: string, { seq, digest }: KeyedMessage): void {
    this.#keys ??= new BoundedMap(MAX_KEYS);
    this.#keys.set(key, { seq, digest });
  }

  async #pend(pending: Omit<Pending, "done">): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.#pending.push({ ...pending, done });
    this.#flushing ??= this.#flush().finally(() => {
      this.#flushing = undefined;
    });
    await done.promise;
  }

  /** Acknowledges the entries that a recorded step delivered to the model. */
  acknowledge(record: Pick<StepRecord, "inbox" | "tool_calls">): void {
    for (const seq of acknowledgedBy(record)) this.#spend(seq);
  }

  /** Acknowledges an entry that a program took without a step. Written with the next entry, or at the end. */
  taken(seq: number): void {
    this.#spend(seq);
    this.#taken.push(seq);
  }

  /** Acknowledges an entry that its sender takes back; durable when it resolves. */
  async takeBack(seq: number): Promise<void> {
    await this.#pend({ record: takenLine([seq]) });
    this.#spend(seq);
  }

  /** Ends the inbox after the run's steps are durable. A file without unread entries and keys is emptied. */
  async close(): Promise<void> {
    await this.#flushing;
    if (this.#unread.size === 0 && !this.#keys) {
      if (this.#spentBytes > 0) this.#log.empty();
      this.#spentBytes = 0;
    } else if (this.#taken.length > 0) {
      this.#o.append(this.#log, [takenLine(this.#taken)]);
    }
    this.#taken = [];
  }

  #spend(seq: number): void {
    const line = this.#unread.get(seq);
    if (line === undefined) return;
    this.#unread.delete(seq);
    this.#spentBytes += bytesOf(line);
  }

  /** Never rejects: errors reject the pending `add` calls. */
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
    const records = batch.map(({ record }) => record);
    if (taken.length > 0) records.push(takenLine(taken));
    const lines = this.#o.append(this.#log, records);
    await this.#log.sync();
    if (!this.#named) await syncDirectory(this.#o.dir, this.#o.fs);
    this.#named = true;
    for (const [at, { seq }] of batch.entries())
      if (seq !== undefined) this.#unread.set(seq, lines[at] ?? "");
  }

  /**
   * Removes acknowledged lines from the file. The steps that acknowledge them must be durable first: otherwise a power
   * loss in between could lose both.
   */
  async #rewrite(): Promise<void> {
    await this.#o.syncSteps();
    const unread = [...this.#unread];
    const lines = unread.map(([, line]) => line);
    const { seal, fs } = this.#o;
    if (this.#keys) {
      const keys = [...this.#keys].map(([key, { seq, digest }]) => [key, seq, ...(digest ? [digest] : [])]);
      lines.unshift(seal(JSON.stringify({ v: SCHEMA_VERSION, kind: "keys", keys })));
    }
    await replaceDocument(this.#log.path, lines.map((line) => `${line}\n`).join(""), fs);
    // Some may have been acknowledged during the rewrite.
    const spent = unread.filter(([seq]) => !this.#unread.has(seq));
    this.#spentBytes = spent.reduce((sum, [, line]) => sum + bytesOf(line), 0);
  }
}

function takenLine(seqs: readonly number[]): object {
  return { kind: "taken", seqs };
}

function acknowledgedBy({ inbox = [], tool_calls }: Pick<StepRecord, "inbox" | "tool_calls">): number[] {
  return [...inbox, ...tool_calls.flatMap((call) => call.inbox ?? [])];
}

export function bytesOf(line: string): number {
  return Buffer.byteLength(line) + 1;
}

/** Returns the unread entries. `acknowledged`: the numbers in the records; `bytes`: the size of the inbox file. */
export function unreadMessages(
  lines: readonly InboxLine[],
  acknowledged: readonly number[],
  bytes: number,
): InboxState {
  const spent = new Set(acknowledged);
  for (const line of lines) if (line.kind === "taken") for (const seq of line.seqs) spent.add(seq);
  const entries = lines.filter((line) => line.kind !== "taken" && line.kind !== "keys");
  const unread = entries.filter(({ seq }) => !spent.has(seq));
  // An emptied file has no lines, but its numbers must not be assigned again.
  const given = [...entries.map(({ seq }) => seq), ...spent];
  return {
    unread,
    keys: new Map(lines.flatMap(keysOf)),
    last: given.reduce((last, seq) => Math.max(last, seq), 0),
    spentBytes: unread.reduce((left, line) => left - bytesOf(JSON.stringify(line)) - SEAL_BYTES, bytes),
  };
}

function keysOf(line: InboxLine): [string, KeyedMessage][] {
  if (line.kind === "keys") return line.keys.map(([key, seq, digest]) => [key, { seq, digest }]);
  return line.kind === "input" && line.key !== undefined ? [[line.key, line]] : [];
}
