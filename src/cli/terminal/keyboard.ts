/** Reads the terminal's keys one by one, without echo, and gives the keyboard back as it was. */

import { StdinBuffer } from "@earendil-works/pi-tui/dist/stdin-buffer.js";
import type { Io, Keys, Terminal } from "../io.ts";
import { TerminalGuard } from "./guard.ts";
import { answersAreRead, takeReply } from "./replies.ts";

interface KeyHandlers {
  /** One key as the terminal sends it: a character, a control character or an escape sequence. */
  key(data: string): void;
  /** A text that was pasted, in one piece, with its newlines. */
  paste(text: string): void;
  /** While a long paste comes: its characters until now. `paste` follows. */
  pasting?(length: number): void;
  /**
   * Ctrl-C, in its place among the keys. Absent: it is the signal INT to the command and its pipeline, which comes after keys
   * that were typed behind it.
   */
  interrupt?(): void;
}

const PASTE = "\u001b[?2004h";
const PASTE_END = "\u001b[?2004l";
/** Other modified keys, such as Shift+Enter, are sent as sequences; Ctrl-C and other control characters stay as they are. */
const MODIFIED = "\u001b[>4;1m";
const MODIFIED_END = "\u001b[>4;0m";
const KITTY = "\u001b[>1u";
const KITTY_END = "\u001b[<u";

/** How long the end of reading waits for the terminal's answer to a question. */
const ANSWER_ON_ITS_WAY_MS = 40;

/** The keys that a terminal in its usual mode turns into signals. */
const SIGNALS: Readonly<Record<string, NodeJS.Signals>> = { c: "SIGINT", z: "SIGTSTP", "\\": "SIGQUIT" };
const CONTROLS: Readonly<Record<string, string>> = { "\u0003": "c", "\u001a": "z", "\u001c": "\\" };
const CTRL = 4;
/** Caps Lock and Num Lock: no key is another one by them. */
const LOCKS = 64 | 128;

export class Keyboard {
  readonly #terminal: Terminal;
  readonly #on: KeyHandlers;
  readonly #extended: boolean;
  readonly #remove: () => void;
  readonly #input = new StdinBuffer();
  readonly #pastes = new PasteSplitter({
    keys: (text) => this.#input.process(text),
    paste: (text) => this.#paste(text),
    pasting: (length) => this.#on.pasting?.(length),
  });
  #decoder = new TextDecoder();
  /** The first half of a character of two UTF-16 units. */
  #half = "";
  #keys: Keys | null = null;
  #endAnswers: (() => boolean) | undefined;
  #closed = false;

  private constructor(terminal: Terminal, on: KeyHandlers, extended: boolean) {
    this.#terminal = terminal;
    this.#on = on;
    this.#extended = extended;
    this.#input.on("data", (data) => this.#took(data));
    // A paste whose beginning arrived in pieces.
    this.#input.on("paste", (text) => this.#paste(text));
    this.#remove = TerminalGuard.of(terminal).add({
      restore: () => this.#release(),
      renew: () => this.#grab(),
    });
  }

  /**
   * null when stdin is not a terminal. `extended`: asks the terminal to tell Shift+Enter from Enter and Esc from other keys
   * (kitty's protocol), for an input line that the user sees: a command that is killed leaves the terminal in this mode.
   */
  static open(io: Pick<Io, "terminal">, on: KeyHandlers, { extended = false } = {}): Keyboard | null {
    const terminal = io.terminal();
    if (terminal === null) return null;
    const keyboard = new Keyboard(terminal, on, extended);
    if (keyboard.#grab()) return keyboard;
    keyboard.#remove();
    return null;
  }

  /** Gives the keyboard back. What was typed and not handled is dropped. Safe twice. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#terminal.write(this.#release());
    this.#remove();
  }

  #grab(): boolean {
    this.#keys?.close();
    this.#keys = this.#terminal.readKeys((bytes) =>
      this.#pastes.take(this.#decoder.decode(bytes, { stream: true })),
    );
    if (this.#keys === null) return false;
    this.#endAnswers = answersAreRead(this.#terminal);
    this.#terminal.write(PASTE + MODIFIED + (this.#extended ? KITTY : ""));
    return true;
  }

  #release(): string {
    if (this.#keys === null) return "";
    // An answer that comes after it would be left for the shell.
    if (this.#endAnswers?.()) Bun.sleepSync(ANSWER_ON_ITS_WAY_MS);
    this.#keys.close();
    this.#keys = null;
    this.#input.clear();
    this.#pastes.clear();
    this.#decoder = new TextDecoder();
    this.#half = "";
    return (this.#extended ? KITTY_END : "") + MODIFIED_END + PASTE_END;
  }

  #paste(text: string): void {
    if (!this.#closed) this.#on.paste(text.replaceAll(/\r\n?/g, "\n"));
  }

  #took(data: string): void {
    if (this.#closed) return;
    const signal = signalOf(data);
    if (signal === "SIGINT" && this.#on.interrupt !== undefined) return void this.#on.interrupt();
    if (signal !== undefined) {
      // To the whole group, as the terminal does: the other programs of a pipeline get it too.
      process.kill(0, signal);
      return;
    }
    if (takeReply(this.#terminal, data)) return;
    // The library takes a string apart by UTF-16 units.
    if (/^[\ud800-\udbff]$/.test(data)) this.#half = data;
    else {
      const whole = this.#half + data;
      this.#half = "";
      this.#on.key(whole);
    }
  }
}

function signalOf(data: string): NodeJS.Signals | undefined {
  const key = CONTROLS[data] ?? controlKey(data);
  return key === undefined ? undefined : SIGNALS[key];
}

/** The key of a sequence for Ctrl and a letter: `CSI 99;5u` of kitty, `CSI 27;5;99~` of xterm. */
function controlKey(data: string): string | undefined {
  const [, code, kittyModifiers, modifiers, otherCode] =
    /^\u001b\[(?:(\d+)(?::\d*)*;(\d+)(?::[12])?u|27;(\d+);(\d+)~)$/.exec(data) ?? [];
  const held = Number(kittyModifiers ?? modifiers) - 1;
  if ((held & ~LOCKS) !== CTRL) return undefined;
  return String.fromCodePoint(Number(code ?? otherCode));
}

const BEGINS = "\u001b[200~";
const ENDS = "\u001b[201~";
/** A sequence that may still become the beginning of a paste: no key alone is sent so. */
const MAY_BEGIN = /\u001b\[2(?:00?)?$/;

/** More than any input takes: the rest of a longer paste is dropped. */
export const MAX_PASTE = 16 * 1024 * 1024;

interface PasteHandlers {
  keys(text: string): void;
  paste(text: string): void;
  /** While a long paste comes: its characters until now. */
  pasting?(length: number): void;
}

/** A paste beyond this length is announced while it comes. */
const LONG = 32 * 1024;

/** Each character is looked at once, also in a paste of many pieces. */
export class PasteSplitter {
  readonly #on: PasteHandlers;
  /** null while no text is pasted. */
  #parts: string[] | null = null;
  #length = 0;
  /** What may be the beginning of a mark whose end has not come yet. */
  #held = "";

  constructor(on: PasteHandlers) {
    this.#on = on;
  }

  take(text: string): void {
    let rest = this.#held + text;
    this.#held = "";
    while (rest !== "") rest = this.#parts === null ? this.#keys(rest) : this.#pasted(rest, this.#parts);
  }

  clear(): void {
    this.#parts = null;
    this.#held = "";
  }

  /** Returns what follows the beginning of a paste. */
  #keys(text: string): string {
    const at = text.indexOf(BEGINS);
    const keys = at < 0 ? text.replace(MAY_BEGIN, "") : text.slice(0, at);
    if (at < 0) this.#held = text.slice(keys.length);
    else this.#parts = [];
    this.#length = 0;
    if (keys !== "") this.#on.keys(keys);
    return at < 0 ? "" : text.slice(at + BEGINS.length);
  }

  /** Returns what follows the end of the paste. */
  #pasted(text: string, parts: string[]): string {
    const at = text.indexOf(ENDS);
    const end = at < 0 ? Math.max(0, text.length - ENDS.length + 1) : at;
    const part = text.slice(0, Math.min(end, MAX_PASTE - this.#length));
    this.#length += part.length;
    parts.push(part);
    if (at < 0) {
      this.#held = text.slice(end);
      if (this.#length > LONG) this.#on.pasting?.(this.#length);
      return "";
    }
    this.#parts = null;
    this.#on.paste(parts.join(""));
    return text.slice(at + ENDS.length);
  }
}
