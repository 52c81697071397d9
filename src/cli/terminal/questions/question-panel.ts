/** The questions of a run in the live view: which one is shown, and which keys are for it. */

import { type KeyId, matchesKey } from "@earendil-works/pi-tui/dist/keys.js";
import { messageOf } from "../../../lib/error-detail.ts";
import { SyscallError } from "../../../plugin/index.ts";
import type { AskClosed, AskUser } from "../../../protocol/methods.ts";
import type { TerminalSize } from "../../io.ts";
import type { SendAnswer } from "../../output/run-output.ts";
import { askedLine, timeLeft, wholeLines } from "../../questions/question-text.ts";
import { cutTo, type Look } from "../look.ts";
import {
  freshQuestion,
  isPrintable,
  type QuestionResult,
  type QuestionState,
  questionKey,
  questionPaste,
  questionView,
  wordsOf,
} from "./question-block.ts";

/** A new question ignores keys for this time, and so does a question after a character that was typed elsewhere. */
const HELD_MS = 1_000;

/** Keys that give the question the focus, also while a message is typed. */
const TURNING = ["up", "down", "tab", "escape"] as const;
/** Ignored while a question is new, unless a message is typed: the user pressed them before the question appeared. */
const CHOOSING = ["up", "down", "left", "right", "tab", "enter", "backspace"] as const;

interface QuestionPanelPorts {
  send: SendAnswer;
  /** Wall time in ms. */
  now(): number;
  say(line: string): void;
  /** The person wants to say something else instead. */
  interrupt(): void;
  /** The caller takes Esc, and the question stays open. */
  escLeaves?: true;
  /** The input line holds text: Enter sends it, and answers no question. */
  holdsText(): boolean;
  type(key: string): void;
}

/** What has happened to the question that is shown. */
interface ShownQuestion {
  at: number;
  /** null until a key was used by it. */
  state: QuestionState | null;
  /** A key was used by the question: it gets the next ones, too. */
  hasFocus: boolean;
  /** It was answered here. The daemon has not yet reported its end. */
  isSent: boolean;
  /** The block shows only the beginning of the call. */
  isCut: boolean;
  /** The whole call was printed above. */
  isPrinted: boolean;
}

export class QuestionPanel {
  readonly #ports: QuestionPanelPorts;
  /** The first one is shown. */
  #queue: AskUser[] = [];
  #shown: ShownQuestion;
  #lastTypedAt = Number.NEGATIVE_INFINITY;

  constructor(ports: QuestionPanelPorts) {
    this.#ports = ports;
    this.#shown = this.#fresh();
  }

  get size(): number {
    return this.#queue.length;
  }

  /** Whether the question takes every key: the person does not type something else. */
  get isActive(): boolean {
    return this.#open !== undefined && !this.#isNew && (this.#shown.hasFocus || !this.#isTyping);
  }

  ask(question: AskUser): void {
    const known = this.#queue.findIndex(({ request_id }) => request_id === question.request_id);
    if (known >= 0) {
      this.#queue[known] = question;
      return;
    }
    this.#queue.push(question);
    if (this.#queue.length === 1) this.#shown = this.#fresh();
  }

  /** Returns whether it was answered here, and its call shows the answer: what was not done, or what was. */
  over({ request_id, verdict, text }: AskClosed): boolean {
    const at = this.#queue.findIndex((one) => one.request_id === request_id);
    if (at < 0) return false;
    const isSeen = verdict === "answered" || verdict === "no" || (verdict === "yes" && !text);
    const { isSent, state } = this.#shown;
    const [ask] = this.#queue.splice(at, 1);
    if (at > 0) return false;
    this.#shown = this.#fresh();
    // Answered elsewhere, or too late: the words that were typed for it begin a message.
    if (ask && state && !isSent) for (const key of wordsOf(ask, state)) this.#ports.type(key);
    return isSent && isSeen;
  }

  /** Returns whether the question has taken the key. */
  key(data: string): boolean {
    return this.#take((ask, state) => (this.#isForLine(data) ? null : questionKey(ask, state, data)), data);
  }

  paste(text: string): boolean {
    return this.#take((ask, state) => (this.#isForLine(text) ? null : questionPaste(ask, state, text)), text);
  }

  #take(read: (ask: AskUser, state: QuestionState) => QuestionResult, data: string): boolean {
    const ask = this.#open;
    const { holdsText, now } = this.#ports;
    const isOneOf = (keys: readonly KeyId[]): boolean => keys.some((key) => matchesKey(data, key));
    if (ask && this.#isNew && !holdsText() && isOneOf(CHOOSING)) return true;
    if (ask && (this.isActive || (!this.#isNew && isOneOf(TURNING)))) {
      this.#shown.state ??= freshQuestion(ask);
      const result = read(ask, this.#shown.state);
      if (result !== null) {
        this.#did(ask, result);
        return true;
      }
      if (isPrintable(data)) this.#beginMessage(this.#shown.state);
    }
    if (isPrintable(data) || (holdsText() && !matchesKey(data, "escape"))) this.#lastTypedAt = now();
    return false;
  }

  /** While a message is typed, keys belong to it, until an arrow, Tab or Esc gives the question the focus. */
  #isForLine(data: string): boolean {
    if (this.#shown.hasFocus || !this.#ports.holdsText()) return false;
    return !TURNING.some((key) => matchesKey(data, key));
  }

  /** The characters that had selected an option begin a message. */
  #beginMessage({ typed }: QuestionState): void {
    this.#shown.hasFocus = false;
    if (typed === null) return;
    this.#shown.state = typed.before;
    for (const key of typed.keys) this.#ports.type(key);
  }

  /** The block of the current question, or a line while the person types; empty when nothing is asked. */
  lines(size: TerminalSize, look: Look): string[] {
    const ask = this.#open;
    if (ask === undefined) return [];
    if (!this.isActive && this.#isTyping) {
      const waits = ask.call ? "permission" : "your answer";
      const what = `Waiting for ${waits}${look.mark.ellipsis} ${askedLine(ask, size.columns)}`;
      return [look.yellow(cutTo(what, size.columns, look))];
    }
    const left = timeLeft(ask, this.#ports.now());
    const isBeside = !this.#shown.hasFocus && this.#ports.holdsText();
    const state = this.#shown.state ?? freshQuestion(ask);
    const { escLeaves } = this.#ports;
    const shown = { ...size, waiting: this.#queue.length, left, isBeside, escLeaves };
    const view = questionView(ask, state, shown, look);
    this.#shown.isCut = view.isCut;
    return view.lines;
  }

  /** Whether the block takes the place of an input line. */
  get takesInput(): boolean {
    if (this.#open === undefined || this.#ports.holdsText()) return false;
    return this.isActive || !this.#isTyping;
  }

  get #isTyping(): boolean {
    return this.#ports.now() - this.#lastTypedAt < HELD_MS;
  }

  /** The person may not have seen it yet. */
  get #isNew(): boolean {
    return this.#ports.now() - this.#shown.at < HELD_MS;
  }

  /** The question that waits for keys: the first, unless it was answered here. */
  get #open(): AskUser | undefined {
    return this.#shown.isSent ? undefined : this.#queue[0];
  }

  #fresh(): ShownQuestion {
    const at = this.#ports.now();
    return { at, state: null, hasFocus: false, isSent: false, isCut: false, isPrinted: false };
  }

  #did(ask: AskUser, result: NonNullable<QuestionResult>): void {
    const shown = this.#shown;
    shown.hasFocus = true;
    if ("state" in result) {
      shown.state = result.state;
      return;
    }
    const { answers, interrupts } = result;
    const allows = !answers.some(({ choices }) => choices.includes("no"));
    // The user has seen a part only: print the whole, and wait for Enter again.
    if (ask.call && allows && shown.isCut && !shown.isPrinted) {
      shown.isPrinted = true;
      for (const line of wholeLines(ask)) this.#ports.say(line);
      this.#ports.say("That is all of it, of which the question shows the beginning: Enter answers.");
      return;
    }
    shown.isSent = true;
    const work = async (): Promise<void> => {
      await this.#ports.send(ask.request_id, answers);
      if (interrupts) this.#ports.interrupt();
    };
    work().catch((thrown: unknown) => {
      this.#ports.say(messageOf(thrown));
      // An answer that does not fit, such as an edited rule, leaves the question open.
      if (this.#queue[0] !== ask) return;
      if (thrown instanceof SyscallError && thrown.code === "INVALID") shown.isSent = false;
      // Another client was faster, or the run has ended: an event says so, too.
      else this.over({ ...ask, verdict: null, by: null });
    });
  }
}
