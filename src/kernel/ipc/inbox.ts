import { onceAborted } from "../../lib/cancellation.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { InboxLog } from "../../store/runs/inbox-log.ts";
import type { InboxDraft, InboxEntry } from "../../store/runs/schema.ts";

/** Of one entry. What is longer is written to a file, and its path sent. */
export const ENTRY_BYTES = 64 * 1024;
/** What one inbox holds at most: beyond it, who sends is told. */
const MAX_ENTRIES = 256;
const MAX_BYTES = 1024 * 1024;
/** What the model is told of it at once; the rest waits for the next step, or the next call. */
const TOLD_BYTES = 64 * 1024;
/** So many wait for a message of one process at once. */
const MAX_READERS = 64;

export type MessageEntry = Extract<InboxEntry, { kind: "message" }>;

interface Reader {
  /** Takes what it waits for. Called when there is a message. */
  serve(): void;
  fail(error: unknown): void;
}

/**
 * What has arrived for one process and was told to nobody, oldest first (design §2, "Inbox"). An entry is on
 * disk before it stands here. It leaves once: into a step, a tool's result or a Recv.
 */
export class Inbox {
  readonly #pid: number;
  /** A look-up, not the log: only one that is written to costs anything. */
  readonly #log: () => InboxLog;
  #queue: InboxEntry[] = [];
  /** By call: taken, and put back unless the call comes to its end. */
  readonly #lent = new Map<string, MessageEntry[]>();
  /** On their way to the disk. */
  readonly #arrivals = new Set<Promise<void>>();
  readonly #readers = new Set<Reader>();
  /** Of the queue, of what is lent and what arrives. */
  #entries = 0;
  #bytes = 0;
  #closed: SyscallError | undefined;

  constructor(pid: number, log: () => InboxLog) {
    this.#pid = pid;
    this.#log = log;
  }

  /** What a run that is gone on with was not told yet. */
  restore(unread: readonly InboxEntry[]): void {
    for (const entry of unread) {
      this.#count(entry);
      this.#insert(entry);
    }
  }

  /** On disk, then here, then whoever waits is woken. EXHAUSTED when it is full, CLOSED when nobody is told any more. */
  async put(draft: InboxDraft): Promise<InboxEntry> {
    if (this.#closed) throw this.#closed;
    requireRoom(draft, this.#entries, this.#bytes, this.#pid);
    this.#count(draft);
    const arrival = Promise.withResolvers<void>();
    this.#arrivals.add(arrival.promise);
    try {
      const entry = await this.#log().add(draft);
      this.#insert(entry);
      this.#wake();
      return entry;
    } catch (thrown) {
      this.#forget(draft);
      throw thrown;
    } finally {
      this.#arrivals.delete(arrival.promise);
      arrival.resolve();
    }
  }

  /** For the step that begins: it tells these, and its record acknowledges them. */
  take(): InboxEntry[] {
    const taken = atOnce(this.#queue);
    this.#queue = this.#queue.slice(taken.length);
    for (const entry of taken) this.#forget(entry);
    return taken;
  }

  /**
   * Messages for the result of a call, and how many are left; waits for the first. They are the call's for good
   * with `settle`. Aborted: the signal's reason.
   */
  lend(callId: string, signal: AbortSignal): Promise<{ messages: MessageEntry[]; left: number }> {
    return this.#whenMessage([signal], () => {
      const waiting = this.#messages();
      const messages = atOnce(waiting);
      this.#remove(messages);
      this.#lent.set(callId, [...(this.#lent.get(callId) ?? []), ...messages]);
      return { messages, left: waiting.length - messages.length };
    });
  }

  /** The call is over: the numbers of what its result tells. One that came to nothing gives it back. */
  settle(callId: string, told: boolean): number[] {
    const lent = this.#lent.get(callId);
    if (!lent) return [];
    this.#lent.delete(callId);
    if (!told) {
      for (const entry of lent) this.#insert(entry);
      this.#wake();
      return [];
    }
    for (const entry of lent) this.#forget(entry);
    return lent.map(({ seq }) => seq);
  }

  /** The oldest message, for a program: it is acknowledged by being taken. Waits for it until one of the signals. */
  receive(...signals: AbortSignal[]): Promise<MessageEntry> {
    return this.#whenMessage(signals, () => {
      const [message] = this.#messages();
      if (!message) throw new SyscallError("INTERNAL", "An inbox woke a reader without a message.");
      this.#remove([message]);
      this.#forget(message);
      this.#log().taken(message.seq);
      return message;
    });
  }

  get hasMessage(): boolean {
    return this.#queue.some(({ kind }) => kind === "message");
  }

  /**
   * Whether everything was told, so that the process may end. If so, nothing is taken any more: what came later
   * would be told to nobody.
   */
  async finish(): Promise<boolean> {
    while (this.#queue.length === 0 && this.#arrivals.size > 0) await Promise.all(this.#arrivals);
    if (this.#queue.length > 0) return false;
    this.close();
    return true;
  }

  /** Nothing arrives any more, and who waits is told so. What was not told stays on disk. */
  close(): void {
    this.#closed ??= new SyscallError(
      "CLOSED",
      `Process ${this.#pid} has ended or is ending: it takes and waits for no more messages.`,
      { pid: this.#pid },
    );
    for (const reader of [...this.#readers]) reader.fail(this.#closed);
  }

  async #whenMessage<T>(signals: readonly AbortSignal[], take: () => T): Promise<T> {
    for (const signal of signals) signal.throwIfAborted();
    if (this.hasMessage) return take();
    if (this.#closed) throw this.#closed;
    if (this.#readers.size >= MAX_READERS) {
      throw new SyscallError(
        "EXHAUSTED",
        `${MAX_READERS} wait for a message of process ${this.#pid} already.`,
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
    const ignore = signals.map((signal) => onceAborted(signal, () => reader.fail(signal.reason)));
    return promise.finally(() => {
      for (const stop of ignore) stop();
    });
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

  /** By its number: what is given back stands where it stood. */
  #insert(entry: InboxEntry): void {
    const after = this.#queue.findLastIndex(({ seq }) => seq < entry.seq);
    this.#queue.splice(after + 1, 0, entry);
  }

  #count(entry: InboxDraft): void {
    this.#entries++;
    this.#bytes += sizeOf(entry);
  }

  #forget(entry: InboxDraft): void {
    this.#entries--;
    this.#bytes -= sizeOf(entry);
  }
}

/** The same of a run that has no process: `unread` is what waits there. */
export function requireSpaceFor(draft: InboxDraft, unread: readonly InboxEntry[], pid: number): void {
  const bytes = unread.reduce((sum, entry) => sum + sizeOf(entry), 0);
  requireRoom(draft, unread.length, bytes, pid);
}

/** INVALID for an entry that fits into no inbox, EXHAUSTED for one that does not fit into this. */
function requireRoom(draft: InboxDraft, entries: number, bytes: number, pid: number): void {
  if (sizeOf(draft) > ENTRY_BYTES) throw tooLong(sizeOf(draft));
  if (entries < MAX_ENTRIES && bytes + sizeOf(draft) <= MAX_BYTES) return;
  throw new SyscallError(
    "EXHAUSTED",
    `The inbox of process ${pid} is full: it holds ${entries} entries of ${bytes} bytes together, and at most ${MAX_ENTRIES} and ${MAX_BYTES} wait there. Try again when it has read some.`,
    { pid, retryable: true },
  );
}

function tooLong(bytes: number): SyscallError {
  return new SyscallError(
    "INVALID",
    `Expected a text of at most ${ENTRY_BYTES} bytes, this one has ${bytes}. Write it to a file and send the path.`,
  );
}

/** From the front, as many as are told at once: one, however long it is. */
function atOnce<T extends InboxEntry>(entries: readonly T[]): T[] {
  let bytes = 0;
  const end = entries.findIndex((entry, index) => {
    bytes += sizeOf(entry);
    return index > 0 && bytes > TOLD_BYTES;
  });
  return entries.slice(0, end < 0 ? entries.length : end);
}

function sizeOf(entry: InboxDraft): number {
  return Buffer.byteLength(entry.kind === "message" ? entry.data : entry.text);
}
