/** The questions of a run in the live view: which one is shown, and when its keys count. */

import { matchesKey } from "@earendil-works/pi-tui/dist/keys.js";
import type { AskClosed, AskUser } from "../../protocol/methods.ts";
import { askedLine } from "../output/ask.ts";
import { formatElapsed } from "../output/format.ts";
import type { SendAnswer } from "../output/run.ts";
import { type AskResult, type AskState, askKey, askLines, askPaste, freshAsk } from "./ask-block.ts";
import { cutTo, type Look } from "./look.ts";

/** A question takes no key while the person types, and for this time after the last key. */
const HELD_MS = 1_000;
/** A letter or number answers when no other follows in this time: then it began the words of a message. */
const LETTER_MS = 500;

interface AskPanelPorts {
  send: SendAnswer;
  /** Wall time in ms. */
  now(): number;
  /** Prints a line above. */
  say(line: string): void;
  /** The person wants to say something else instead. */
  interrupt(): void;
  /** The input line holds text: Enter sends it, and answers no question. */
  holdsText(): boolean;
  /** Gives a key to the input line. */
  type(key: string): void;
  timer(ms: number, f: () => void): { cancel(): void };
}

export class AskPanel {
  readonly #ports: AskPanelPorts;
  #queue: AskUser[] = [];
  #state: AskState | null = null;
  /** A key has turned to the question: what follows is meant for it. */
  #isMeant = false;
  /** A first letter or number, which may also begin the words of a message. */
  #letter: { key: string; timer: { cancel(): void } } | null = null;
  /** The question that has been answered here, until its end is known. */
  #sent: string | null = null;
  #shownAt = 0;
  #lastKeyAt = Number.NEGATIVE_INFINITY;

  constructor(ports: AskPanelPorts) {
    this.#ports = ports;
  }

  /** Questions that wait for the person. */
  get size(): number {
    return this.#queue.length;
  }

  /** Whether the question takes the keys: the person does not type something else. */
  get isActive(): boolean {
    const since = Math.max(this.#shownAt, this.#lastKeyAt);
    if (this.#current === undefined || this.#sent !== null) return false;
    return this.#ports.now() - since >= HELD_MS;
  }

  ask(question: AskUser): void {
    if (this.#queue.some(({ request_id }) => request_id === question.request_id)) return;
    this.#queue.push(question);
    if (this.#queue.length === 1) this.#begin();
  }

  /** Returns whether it was a question of the model's that was answered here: its call shows the answers. */
  over({ request_id, verdict }: AskClosed): boolean {
    const at = this.#queue.findIndex((one) => one.request_id === request_id);
    if (at < 0) return false;
    const isOwn = this.#sent === request_id && verdict === "answered";
    this.#queue.splice(at, 1);
    if (at === 0) this.#begin();
    return isOwn;
  }

  /** Returns whether the question has taken the key. */
  key(data: string): boolean {
    const ask = this.#current;
    if (ask === undefined || !this.isActive) {
      this.#lastKeyAt = this.#ports.now();
      return false;
    }
    const letter = this.#takeLetter();
    if (letter !== null && isPrintable(data)) {
      this.#ports.type(letter);
      this.#lastKeyAt = this.#ports.now();
      return false;
    }
    if (letter !== null && this.#choose(ask, letter)) return true;
    const state = this.#stateOf(ask);
    const result = this.#isForText(data) ? null : askKey(ask, state, data);
    if (result === null && (this.#ports.holdsText() || isPrintable(data))) {
      this.#lastKeyAt = this.#ports.now();
      return false;
    }
    if (this.#maybeMessage(ask, state, data)) this.#holdLetter(ask, data);
    else this.#did(ask, result);
    return true;
  }

  /** Beside a text that is typed, a question is answered by keys that are none of the text: first an arrow, Tab or Esc. */
  #isForText(data: string): boolean {
    if (this.#isMeant || !this.#ports.holdsText()) return false;
    return !(["up", "down", "tab", "escape"] as const).some((key) => matchesKey(data, key));
  }

  /** Whether this key may be the first one of a message: of several marks, each is a key of its own. */
  #maybeMessage({ questions }: AskUser, { given, text }: AskState, data: string): boolean {
    const isMarked = questions[given.length]?.multi === true;
    return !this.#isMeant && text === null && !isMarked && isPrintable(data);
  }

  #holdLetter(ask: AskUser, key: string): void {
    const timer = this.#ports.timer(LETTER_MS, () => {
      this.#letter = null;
      if (this.#current === ask) this.#choose(ask, key);
    });
    this.#letter = { key, timer };
  }

  #takeLetter(): string | null {
    const letter = this.#letter;
    this.#letter = null;
    letter?.timer.cancel();
    return letter?.key ?? null;
  }

  /** Returns whether the key has answered. */
  #choose(ask: AskUser, key: string): boolean {
    this.#did(ask, askKey(ask, this.#stateOf(ask), key));
    return this.#sent !== null;
  }

  #stateOf(ask: AskUser): AskState {
    this.#state ??= freshAsk(ask);
    return this.#state;
  }

  paste(text: string): boolean {
    const ask = this.#current;
    if (ask === undefined || !this.isActive) {
      this.#lastKeyAt = this.#ports.now();
      return false;
    }
    const result = askPaste(this.#stateOf(ask), text);
    if (result === null && ask.kind === "question") return false;
    this.#did(ask, result);
    return true;
  }

  /** The block of the current question, or a line while the person types; empty when nothing is asked. */
  lines(size: { columns: number; rows: number }, look: Look): string[] {
    const ask = this.#current;
    if (ask === undefined || this.#sent !== null) return [];
    if (!this.isActive && this.#isTyping) {
      const waits = ask.call ? "permission" : "your answer";
      const what = `Waiting for ${waits}${look.mark.ellipsis} ${askedLine(ask, size.columns)}`;
      return [look.yellow(cutTo(what, size.columns, look))];
    }
    const left = formatElapsed(Math.max(0, ask.until_ms - this.#ports.now()));
    return askLines(ask, this.#stateOf(ask), { ...size, waiting: this.#queue.length, left }, look);
  }

  /** Whether the block takes the place of an input line. */
  get takesInput(): boolean {
    if (this.#current === undefined || this.#sent !== null || this.#ports.holdsText()) return false;
    return this.isActive || !this.#isTyping;
  }

  get #isTyping(): boolean {
    return this.#ports.now() - this.#lastKeyAt < HELD_MS;
  }

  get #current(): AskUser | undefined {
    return this.#queue[0];
  }

  #begin(): void {
    this.#takeLetter();
    this.#state = null;
    this.#isMeant = false;
    this.#sent = null;
    this.#shownAt = this.#ports.now();
  }

  #did(ask: AskUser, result: AskResult): void {
    if (result === null) return;
    this.#isMeant = true;
    if ("state" in result) {
      this.#state = result.state;
      return;
    }
    this.#sent = ask.request_id;
    const { answers, interrupts } = result;
    const work = async (): Promise<void> => {
      await this.#ports.send(ask.request_id, answers);
      if (interrupts) this.#ports.interrupt();
    };
    work().catch((thrown: unknown) => {
      // Another client was faster, or the run has ended: an event says so, too.
      this.#ports.say(thrown instanceof Error ? thrown.message : String(thrown));
      if (this.#current === ask) this.over({ ...ask, verdict: null, by: null });
    });
  }
}

/** One character that could be part of a text. */
function isPrintable(data: string): boolean {
  return /^[^\p{Cc}]/u.test(data);
}
