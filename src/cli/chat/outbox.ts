/** The messages that were sent and that the model has not read yet. */

import { BoundedMap } from "../../lib/caches.ts";
import type { ProgressPayload, StreamEvent } from "../../protocol/methods.ts";
import { firstLines } from "../output/format.ts";
import { type Draft, joined } from "../terminal/draft.ts";

type MessageEvent = Extract<ProgressPayload, { event: "message" }>;
export type When = MessageEvent["when"];

export interface WaitingMessage {
  /** As it is shown: with markers for long pastes. */
  shown: string;
  when: When;
}

export interface Outgoing {
  draft: Draft;
  /** What the model gets. */
  text: string;
  /** The files that are sent with it, absolute. Looked for when it is sent. */
  files(): Promise<string[]>;
  /** Sent again after a lost answer, the run takes it once. */
  key?: string;
  /** The model will not read it: it returns to the line. */
  returned?(): void;
}

type Sent = Pick<Outgoing, "draft" | "returned">;

interface Entry extends WaitingMessage, Sent {
  /** null until it is known. */
  seq: number | null;
  /** The beginning of what the model gets; undefined for a message of another client. */
  begin: string | undefined;
}

interface OutboxPorts {
  /** Resolves when the message is on disk. */
  send(message: Outgoing, when: When): Promise<{ seq: number }>;
  /** Fails when the model has read it. */
  takeBack(seq: number): Promise<unknown>;
  /** A message is on disk that was being sent when the run was lost: `clear` did not count it. */
  late?(): void;
  changed(): void;
}

/** Maximum lines of a message in the transcript; the rest is counted. */
const SHOWN_LINES = 12;
/** Characters by which an event is known to be about a message whose number is not known yet. */
const BEGIN_CHARS = 40;
/** Maximum messages whose typed form is remembered. */
const MAX_REMEMBERED = 200;

export class Outbox {
  readonly #ports: OutboxPorts;
  #entries: Entry[] = [];
  readonly #sent = new BoundedMap<number, Sent>(MAX_REMEMBERED);
  #sending: Promise<unknown> = Promise.resolve();
  /** The run is not live any more, and can be resumed. */
  #waitsOnDisk = false;
  /** Texts whose log entry is still to come: they are shown already. */
  #shown: string[] = [];
  /** Messages whose recorded entry was shown: their event may follow it. */
  readonly #recorded = new BoundedMap<number, true>(MAX_REMEMBERED);

  constructor(ports: OutboxPorts) {
    this.#ports = ports;
  }

  get waiting(): readonly WaitingMessage[] {
    return this.#entries;
  }

  /** Resolves when it is on disk. If that fails the message leaves the queue; the caller puts it back into the line. */
  async send(message: Outgoing, when: When): Promise<void> {
    const { draft, text, returned } = message;
    const [shown, begin] = [draft.shown.trim(), text.slice(0, BEGIN_CHARS)];
    const entry: Entry = { seq: null, shown, when, draft, returned, begin };
    this.#entries.push(entry);
    this.#ports.changed();
    // One after the other: they arrive in the order in which they were typed.
    const sent = this.#sending.then(() => this.#ports.send(message, when));
    this.#sending = sent.catch(() => undefined);
    try {
      const { seq } = await sent;
      this.#number(entry, seq);
      if (this.#waitsOnDisk) this.#ports.late?.();
    } catch (error) {
      this.#remove(entry);
      throw error;
    }
  }

  /** The events that the view gets for one of the stream: a message is shown as it was typed, when the model reads it. */
  shown(event: StreamEvent): StreamEvent[] {
    if (event.type === "progress" && event.payload.event === "message") {
      const { payload } = event;
      const text = this.#shownText(payload);
      this.#take(payload);
      if (payload.state !== "read" || this.#recorded.has(payload.seq)) return [event];
      this.#shown.push(payload.text);
      const ts = new Date().toISOString();
      return [event, { type: "log_entry", payload: { ts, step: 0, kind: "inbox", text } }];
    }
    if (event.type !== "log_entry" || event.payload.kind !== "inbox") return [event];
    for (const seq of event.payload.seqs ?? []) this.#recorded.set(seq, true);
    // The log repeats messages that are shown already.
    let { text } = event.payload;
    for (const shown of this.#shown.splice(0)) text = text.replace(shown, () => "");
    return text.trim() === "" ? [] : [{ ...event, payload: { ...event.payload, text } }];
  }

  /** Takes in what became of a message, also one of another client. */
  #take({ seq, state, text, when }: MessageEvent): void {
    const known = this.#entries.find((one) => one.seq === seq) ?? this.#unnumbered(seq, text);
    if (known !== undefined && state !== "queued") this.#remove(known);
    if (known !== undefined || state !== "queued") return;
    // The model was interrupted before it had read it, or another client has sent it.
    const sent = this.#sent.get(seq) ?? { draft: { shown: withoutAttachments(text), pastes: new Map() } };
    this.#entries.push({ ...sent, seq, shown: sent.draft.shown.trim(), when, begin: undefined });
    this.#ports.changed();
  }

  /** What the user has typed: without the contents of attached files and long pastes. */
  #shownText({ seq, text }: Pick<MessageEvent, "seq" | "text">): string {
    const shown = this.#sent.get(seq)?.draft.shown.trim() ?? withoutAttachments(text);
    return firstLines(shown.split("\n"), SHOWN_LINES).join("\n");
  }

  /**
   * Takes all waiting messages of this client back, to edit them; null when the model has read them all. `returned`:
   * numbers of messages that wait again, whose events may still be on their way.
   */
  async takeBack(returned: readonly number[] = []): Promise<Draft | null> {
    await this.#sending;
    const waiting = this.#entries.flatMap(({ seq }) => (seq === null ? [] : [seq]));
    const taken: Draft[] = [];
    for (const seq of [...new Set([...returned, ...waiting])]) {
      const sent = this.#sent.get(seq);
      if (sent === undefined) continue;
      try {
        await this.#ports.takeBack(seq);
        taken.push(sent.draft);
        sent.returned?.();
      } catch {
        // The model has just read it: it is in the transcript.
      }
      this.#entries = this.#entries.filter((one) => one.seq !== seq);
    }
    this.#ports.changed();
    return joined(taken);
  }

  /** Takes the waiting messages back and stops the run by `interrupt`. Returns all that the model has not read. */
  async stop(interrupt: () => Promise<{ put_back: readonly number[] }>): Promise<Draft | null> {
    const waiting = await this.takeBack();
    const { put_back } = await interrupt();
    return joined([await this.takeBack(put_back), waiting]);
  }

  /**
   * The run is not live any more. Returns what will not be read, and how many messages wait on disk: those are read when
   * the run is resumed, if it has not ended. What is being sent is the caller's, who knows whether it arrived.
   */
  clear({ hasEnded }: { hasEnded: boolean }): { unread: Draft | null; kept: number } {
    const sent = this.#entries.filter(({ seq }) => seq !== null);
    const left = hasEnded ? sent : [];
    for (const { returned } of left) returned?.();
    const kept = sent.length - left.length;
    this.#entries = [];
    this.#waitsOnDisk = !hasEnded;
    this.#ports.changed();
    return { unread: joined(left.map(({ draft }) => draft)), kept };
  }

  /** The message that the server is about to answer for. */
  #unnumbered(seq: number, text: string): Entry | undefined {
    const entry = this.#entries.find((one) => one.seq === null);
    if (entry?.begin === undefined || !text.startsWith(entry.begin)) return undefined;
    this.#number(entry, seq);
    return entry;
  }

  #number(entry: Entry, seq: number): void {
    entry.seq = seq;
    this.#sent.set(seq, entry);
  }

  #remove(entry: Entry): void {
    this.#entries = this.#entries.filter((one) => one !== entry);
    this.#ports.changed();
  }
}

/** Attached files and outputs of the user's commands stand behind the text, each in its frame. */
export function withoutAttachments(text: string): string {
  const at = text.search(/\n\n<(?:(?:file|image)(?:-\w+)? path|command(?:-\w+)? line)="/);
  return at < 0 ? text : text.slice(0, at);
}
