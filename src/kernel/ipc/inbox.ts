/** The inbox of one process: its unread messages and notices. */

import { onceAborted } from "../../lib/clock.ts";
import { SCHEMA_VERSION } from "../../lib/schema-version.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { UserMessage } from "../../run/live-event.ts";
import type { InboxLog, KeyedMessage } from "../../store/runs/inbox-log.ts";
import type { InboxDraft, InboxEntry } from "../../store/runs/schema.ts";

/** Maximum size of one entry. For longer text, the sender writes a file and sends its path. */
export const ENTRY_BYTES = 64 * 1024;
/** Maximum size of the user's input to a resumed run: what a command reads from stdin, and a message before it. */
const INPUT_BYTES = 4 * 1024 * 1024;
/** Maximum messages of the user that wait. */
const MAX_INPUTS = 64;
/** Maximum entries and bytes of one inbox; beyond it, `put` fails with EXHAUSTED. The user's input is not limited by it. */
const MAX_ENTRIES = 256;
const MAX_BYTES = 1024 * 1024;
/** Maximum bytes delivered at once; the rest waits for the next step or call. */
const DELIVERY_BYTES = 64 * 1024;
/** Maximum concurrent readers of one inbox. */
const MAX_READERS = 64;

export type MessageEntry = Extract<InboxEntry, { kind: "message" }>;
export type InputEntry = Extract<InboxEntry, { kind: "input" }>;

interface Reader {
  /** Takes its messages. Called when there is one. */
  serve(): void;
  fail(error: unknown): void;
}

/**
 * Oldest entry first. An entry is written to disk before it is queued. It is
 * delivered once: in a step, in a tool's result or by a Recv.
 */
export class Inbox {
  readonly #pid: number;
  /** A function, because an unused log costs nothing. */
  readonly #log: () => InboxLog;
  /** Called with each new entry, before it can be delivered. */
  readonly #queued: ((entry: InboxEntry) => void) | undefined;
  #queue: InboxEntry[] = [];
  /** By call: messages that go back to the queue unless the call succeeds. */
  readonly #lent = new Map<string, MessageEntry[]>();
  /** Entries that are being written to disk, each with its end. */
  readonly #arrivals = new Map<InboxDraft, Promise<void>>();
  readonly #readers = new Set<Reader>();
  #onArrival: (() => void) | undefined;
  #closed: SyscallError | undefined;

  constructor(pid: number, log: () => InboxLog, queued?: (entry: InboxEntry) => void) {
    this.#pid = pid;
    this.#log = log;
    this.#queued = queued;
  }

  /**
   * Writes an entry to disk, queues it and wakes the readers. Fails with EXHAUSTED if full, CLOSED after `close`. A message
   * of the user with a key that has arrived before is not queued again, and gets the number of that one; INVALID if it
   * is another one.
   */
  async put(draft: InboxDraft): Promise<InboxEntry> {
    if (draft.kind === "input" && draft.key !== undefined) {
      const { key, digest } = draft;
      const twin = () => this.#arrivals.keys().find((one) => one.kind === "input" && one.key === key);
      // Of several that wait for one whose write fails, one is written.
      for (let first = twin(); first; first = twin()) await this.#arrivals.get(first);
      const before = this.#log().keyed(key);
      if (before) return { v: SCHEMA_VERSION, seq: requireSame(before, digest), ...draft };
    }
    if (this.#closed) throw this.#closed;
    const held = [...this.#queue, ...[...this.#lent.values()].flat(), ...this.#arrivals.keys()];
    requireSpace(draft, held, this.#pid);
    const arrival = Promise.withResolvers<void>();
    this.#arrivals.set(draft, arrival.promise);
    try {
      const entry = await this.#log().add(draft);
      this.#queued?.(entry);
      this.#insert(entry);
      this.#wake();
      this.#onArrival?.();
      return entry;
    } finally {
      this.#arrivals.delete(draft);
      arrival.resolve();
    }
  }

  /**
   * Takes the entries for a new step, whose record acknowledges them. `turnOver`: the answer before it is complete, so
   * the oldest message that was to wait for that is among them.
   */
  take(turnOver = false): InboxEntry[] {
    const follows = turnOver ? this.#queue.find(isFollowUp) : undefined;
    const taken = firstDelivery(this.#queue.filter((entry) => !isFollowUp(entry) || entry === follows));
    this.#remove(taken);
    return taken;
  }

  /** Queues entries that are on disk: unread ones of a resumed run, and those of `take` that made no step. */
  putBack(entries: readonly InboxEntry[]): void {
    for (const entry of entries) this.#insert(entry);
  }

  /**
   * Removes a message of the user that was not delivered yet; durable when it resolves. Fails with NOT_FOUND if there is
   * none of this number.
   */
  async takeBack(seq: number): Promise<InputEntry> {
    const pid = this.#pid;
    const entry = this.inputs.find((one) => one.seq === seq);
    const none = `No message ${seq} waits for process ${pid}: its model has read it, or it was taken back.`;
    if (!entry) throw new SyscallError("NOT_FOUND", none, { pid });
    await this.#withdraw(entry);
    return entry;
  }

  /** Removes an unread notice of this text; durable when it resolves. Returns false if there is none. */
  async takeBackNotice(text: string): Promise<boolean> {
    await Promise.all(this.#arrivals.values());
    const notice = this.#queue.find((entry) => entry.kind === "notice" && entry.text === text);
    if (notice) await this.#withdraw(notice);
    return notice !== undefined;
  }

  /** Calls `f` at each new entry. There is one listener: the loop, while it waits. */
  onArrival(f: (() => void) | undefined): void {
    this.#onArrival = f;
  }

  /** Messages of the user that were not delivered yet, oldest first. */
  get inputs(): InputEntry[] {
    return this.#queue.filter((entry) => entry.kind === "input");
  }

  /** Whether an entry waits that begins a turn, with a number above `after`: a notice does not. */
  beginsTurn(after: number): boolean {
    return this.#queue.some(({ kind, seq }) => kind !== "notice" && seq > after);
  }

  /** The highest number in the queue. */
  get newest(): number {
    return this.#queue.at(-1)?.seq ?? 0;
  }

  /**
   * Takes messages for the result of a call, and waits for the first. `settle` decides whether they stay taken.
   * Throws the signal's reason on abort.
   */
  lend(callId: string, signal: AbortSignal): Promise<{ messages: MessageEntry[]; left: number }> {
    return this.#whenMessage(signal, () => {
      const waiting = this.#messages();
      const messages = firstDelivery(waiting);
      this.#remove(messages);
      this.#lent.set(callId, [...(this.#lent.get(callId) ?? []), ...messages]);
      return { messages, left: waiting.length - messages.length };
    });
  }

  /** Ends a call: returns the numbers of its messages, or puts them back if the call has no result. */
  settle(callId: string, hasResult: boolean): number[] {
    const lent = this.#lent.get(callId);
    if (!lent) return [];
    this.#lent.delete(callId);
    if (!hasResult) {
      for (const entry of lent) this.#insert(entry);
      this.#wake();
      return [];
    }
    return lent.map(({ seq }) => seq);
  }

  /** Takes the oldest message for a program, which acknowledges it. Waits for one until the signal is aborted. */
  receive(signal: AbortSignal): Promise<MessageEntry> {
    return this.#whenMessage(signal, () => {
      const [message] = this.#messages();
      if (!message) throw new SyscallError("INTERNAL", "An inbox woke a reader without a message.");
      this.#remove([message]);
      this.#log().taken(message.seq);
      return message;
    });
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0;
  }

  /** Whether a report of a background unit waits. */
  get hasReport(): boolean {
    return this.#queue.some(({ kind }) => kind === "unit");
  }

  get hasMessage(): boolean {
    return this.#queue.some(({ kind }) => kind === "message");
  }

  /**
   * Closes the inbox if every entry was delivered, and returns whether the process may end. Later entries could not
   * be delivered. `isLeft`: whether an entry is left that must be delivered.
   */
  async finish(isLeft: () => boolean = () => !this.isEmpty): Promise<boolean> {
    while (!isLeft() && this.#arrivals.size > 0) await Promise.all(this.#arrivals.values());
    if (isLeft()) return false;
    this.close();
    return true;
  }

  /** Accepts no more entries and rejects the readers. Undelivered entries stay on disk. */
  close(): void {
    this.#closed ??= new SyscallError(
      "CLOSED",
      `Process ${this.#pid} has ended or is ending: it accepts no more messages.`,
      { pid: this.#pid },
    );
    for (const reader of [...this.#readers]) reader.fail(this.#closed);
  }

  async #whenMessage<T>(signal: AbortSignal, take: () => T): Promise<T> {
    signal.throwIfAborted();
    if (this.hasMessage) return take();
    if (this.#closed) throw this.#closed;
    if (this.#readers.size >= MAX_READERS) {
      throw new SyscallError(
        "EXHAUSTED",
        `${MAX_READERS} readers already wait for a message of process ${this.#pid}.`,
      );
    }
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const reader: Reader = {
      serve: () => {
        this.#readers.delete(reader);
        resolve(take());
      },
      fail: (error) => {
        this.#readers.delete(reader);
        reject(error);
      },
    };
    this.#readers.add(reader);
    return promise.finally(onceAborted(signal, () => reader.fail(signal.reason)));
  }

  async #withdraw(entry: InboxEntry): Promise<void> {
    // Taken at once: no step may get it while the disk is written.
    this.#remove([entry]);
    try {
      await this.#log().takeBack(entry.seq);
    } catch (thrown) {
      this.#insert(entry);
      throw thrown;
    }
  }

  #wake(): void {
    for (const reader of [...this.#readers]) {
      if (!this.hasMessage) return;
      reader.serve();
    }
  }

  #messages(): MessageEntry[] {
    return this.#queue.filter((entry) => entry.kind === "message");
  }

  #remove(entries: readonly InboxEntry[]): void {
    this.#queue = this.#queue.filter((entry) => !entries.includes(entry));
  }

  /** Inserts by number, so that a returned entry keeps its position. */
  #insert(entry: InboxEntry): void {
    const after = this.#queue.findLastIndex(({ seq }) => seq < entry.seq);
    this.#queue.splice(after + 1, 0, entry);
  }
}

/** Returns the number of the message that came with a key before; fails with INVALID if it was another one. */
export function requireSame({ seq, digest }: KeyedMessage, now: string | undefined): number {
  if (digest === now || digest === undefined || now === undefined) return seq;
  throw new SyscallError(
    "INVALID",
    `key: another message came with this key before, as number ${seq}. Send this one with a key of its own.`,
  );
}

export function asUserMessage({ seq, text, when }: InputEntry): UserMessage {
  return { seq, text, when: when ?? "next_step" };
}

/**
 * Fails with INVALID if the entry is too long, and with EXHAUSTED if the inbox of this process is full: it holds these
 * undelivered entries.
 */
export function requireSpace(draft: InboxDraft, held: readonly InboxDraft[], pid: number): void {
  const isInput = draft.kind === "input";
  const most = isInput ? INPUT_BYTES : ENTRY_BYTES;
  if (sizeOf(draft) > most) {
    const text = `Expected a text of at most ${most} bytes, this one has ${sizeOf(draft)}. Write it to a file and send the path.`;
    throw new SyscallError("INVALID", text);
  }
  // A unit limits its events itself, and its end must not be lost.
  if (draft.kind === "unit") return;
  const others = held.filter(({ kind }) => kind !== "input" && kind !== "unit");
  if (isInput && held.length - others.length >= MAX_INPUTS) {
    const message = `${MAX_INPUTS} messages already wait for process ${pid}. Send more when it has read some.`;
    throw new SyscallError("EXHAUSTED", message, { pid, retryable: true });
  }
  const bytes = others.reduce((sum, entry) => sum + sizeOf(entry), 0);
  if (isInput || (held.length < MAX_ENTRIES && bytes + sizeOf(draft) <= MAX_BYTES)) return;
  const message = `The inbox of process ${pid} is full: it holds ${held.length} entries of ${bytes} bytes together, and the limits are ${MAX_ENTRIES} entries and ${MAX_BYTES} bytes. Try again when it has read some.`;
  throw new SyscallError("EXHAUSTED", message, { pid, retryable: true });
}

/** Returns the first entries that are delivered together: at least one. */
function firstDelivery<T extends InboxEntry>(entries: readonly T[]): T[] {
  let bytes = 0;
  const end = entries.findIndex((entry, index) => {
    bytes += sizeOf(entry);
    return index > 0 && bytes > DELIVERY_BYTES;
  });
  return entries.slice(0, end < 0 ? entries.length : end);
}

function isFollowUp(entry: InboxEntry): boolean {
  return entry.kind === "input" && entry.when === "after_answer";
}

function sizeOf(entry: InboxDraft): number {
  return Buffer.byteLength(entry.kind === "message" ? entry.data : entry.text);
}
