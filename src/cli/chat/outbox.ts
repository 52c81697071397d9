/** The messages that were sent and that the model has not read yet. */

import type { ProgressPayload } from "../../protocol/methods.ts";
import { type Draft, expanded } from "../terminal/input-line.ts";

type MessageEvent = Extract<ProgressPayload, { event: "message" }>;
export type When = MessageEvent["when"];

export interface WaitingMessage {
  /** As it is shown: with markers for long pastes. */
  shown: string;
  when: When;
}

interface Entry extends WaitingMessage {
  /** null until the server has answered. */
  seq: number | null;
  draft: Draft;
}

interface OutboxPorts {
  /** Resolves when the message is on disk. */
  send(draft: Draft, when: When): Promise<{ seq: number }>;
  /** Fails when the model has read it. */
  takeBack(seq: number): Promise<unknown>;
  changed(): void;
}

/** Maximum lines of a message in the transcript; the rest is counted. */
const SHOWN_LINES = 12;
/** Maximum messages whose typed form is remembered. */
const MAX_REMEMBERED = 200;

export class Outbox {
  readonly #ports: OutboxPorts;
  #entries: Entry[] = [];
  /** Numbers whose event came before the server's answer. */
  readonly #settled = new Set<number>();
  readonly #sent = new Map<number, Draft>();
  #sending: Promise<unknown> = Promise.resolve();

  constructor(ports: OutboxPorts) {
    this.#ports = ports;
  }

  get waiting(): readonly WaitingMessage[] {
    return this.#entries;
  }

  /** Resolves when it is on disk. If that fails the message leaves the queue; the caller puts it back into the line. */
  async send(draft: Draft, when: When): Promise<void> {
    const entry: Entry = { seq: null, shown: draft.shown.trim(), when, draft };
    this.#entries.push(entry);
    this.#ports.changed();
    // One after the other: they arrive in the order in which they were typed.
    const sent = this.#sending.then(() => this.#ports.send(draft, when));
    this.#sending = sent.catch(() => undefined);
    try {
      const { seq } = await sent;
      this.#remember(seq, draft);
      entry.seq = seq;
      if (this.#settled.delete(seq)) this.#remove(entry);
    } catch (error) {
      this.#remove(entry);
      throw error;
    }
  }

  /** Takes in what became of a message, also one of another client. */
  take({ seq, state, text, when }: MessageEvent): void {
    const entry = this.#entries.find((one) => one.seq === seq);
    if (state !== "queued") {
      if (entry !== undefined) this.#remove(entry);
      else if (this.#entries.some((one) => one.seq === null)) this.#settled.add(seq);
      return;
    }
    const isOwn = entry !== undefined || this.#entries.some((one) => one.seq === null);
    if (isOwn) return;
    const draft = { shown: withoutAttachments(text), pastes: new Map() };
    this.#entries.push({ seq, shown: draft.shown, when, draft });
    this.#ports.changed();
  }

  /** What the user has typed, for the transcript: without the contents of attached files and long pastes. */
  shownText({ seq, text }: Pick<MessageEvent, "seq" | "text">): string {
    return shortened(this.#sent.get(seq)?.shown.trim() ?? withoutAttachments(text));
  }

  /** The message as it was typed here; undefined for one of another client. */
  draftOf(seq: number): Draft | undefined {
    return this.#sent.get(seq);
  }

  /** Takes all waiting messages back, to edit them; null when the model has read them all. */
  async takeBack(): Promise<Draft | null> {
    await this.#sending;
    const taken: Draft[] = [];
    for (const entry of [...this.#entries]) {
      if (entry.seq === null) continue;
      try {
        await this.#ports.takeBack(entry.seq);
        taken.push(entry.draft);
      } catch {
        // The model has just read it: it is in the transcript.
      }
      this.#remove(entry);
    }
    return taken.length === 0 ? null : joined(taken);
  }

  /** The run has ended: nothing of it waits any more. Returns what was not read. */
  clear(): Draft | null {
    const left = this.#entries.map(({ draft }) => draft);
    this.#entries = [];
    this.#ports.changed();
    return left.length === 0 ? null : joined(left);
  }

  #remember(seq: number, draft: Draft): void {
    this.#sent.set(seq, draft);
    const oldest = this.#sent.keys().next().value;
    if (this.#sent.size > MAX_REMEMBERED && oldest !== undefined) this.#sent.delete(oldest);
  }

  #remove(entry: Entry): void {
    this.#entries = this.#entries.filter((one) => one !== entry);
    this.#ports.changed();
  }
}

/** Several drafts as one. Its pastes are written out where their numbers would collide. */
export function joined(drafts: readonly Draft[]): Draft {
  const withPastes = drafts.filter(({ pastes }) => pastes.size > 0);
  const shown = drafts
    .map((draft) => (withPastes.length > 1 ? expanded(draft) : draft.shown).trim())
    .join("\n");
  return { shown, pastes: withPastes.length === 1 ? (withPastes[0]?.pastes ?? new Map()) : new Map() };
}

/** Attached files stand behind the text, each in its frame. */
export function withoutAttachments(text: string): string {
  const at = text.search(/\n\n<(?:file|image)(?:-\w+)? path="/);
  return at < 0 ? text : text.slice(0, at);
}

function shortened(text: string): string {
  const lines = text.split("\n");
  if (lines.length <= SHOWN_LINES + 2) return text;
  return [...lines.slice(0, SHOWN_LINES), `… ${lines.length - SHOWN_LINES} more lines`].join("\n");
}
