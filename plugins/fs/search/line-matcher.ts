/** Matches a pattern against lines in linear time, by a table of states. */

import { SyscallError } from "rnix/plugin";
import { type Assertion, type CharTest, type Node, parsePattern } from "./pattern-syntax.ts";
import { requiredTexts } from "./required-texts.ts";

const MAX_INSTRUCTIONS = 1_000;
/** At these limits the table is cleared and built again: slower, but correct. Each limit is about 1 MB. */
const MAX_STATES = 2_000;
const MAX_KERNELS = 100_000;
const MAX_WIDE = 20_000;
/** Instructions that one `feed` may visit. */
const TURN = 20_000;
const ASCII = 128;
const NEWLINE = 10;
const RETURN = 13;
const UNKNOWN = -1;
/** The state of a line that has matched, which is final. */
const MATCHED = 0;

type Instruction =
  | { kind: "char"; test: CharTest; next: number }
  | { kind: "split"; next: number; other: number }
  | { kind: "assert"; what: Assertion; next: number }
  | { kind: "match" };

/** What is before the current character: the line's start, a word character, or another one. */
type Before = 0 | 1 | 2;
const START: Before = 0;
const WORD: Before = 1;
const OTHER: Before = 2;

interface State {
  /** Instructions that wait for the next character, in order. */
  kernel: readonly number[];
  before: Before;
  /** Next states of characters beyond ASCII. */
  wide: Map<number, number>;
  atEnd: boolean | undefined;
}

/**
 * Decides whether a line matches a regular expression, in time proportional to the line's length. JavaScript's own
 * engine backtracks: one pattern on one line can take minutes, ending its Worker does not stop it, and beyond a limit of
 * steps it wrongly answers "no match". This is a lazily built DFA: all alternatives are followed at once and cached in
 * a table, so most characters cost one look-up. A line may be fed in pieces.
 */
export class LineMatcher {
  /** Every matching line contains one of these texts; empty when the pattern requires none. */
  readonly required: readonly string[];
  readonly #program: Instruction[];
  #states: State[] = [];
  #byKey = new Map<string, number>();
  /** The next state by state and ASCII character. */
  #table = new Int32Array(0);
  #wideCount = 0;
  #kernels = 0;
  /** The state at the beginning of a line; UNKNOWN until it is made. */
  #start = UNKNOWN;
  /** State and position in the current line. */
  #state = MATCHED;
  #at = 0;

  constructor(pattern: string, options: { ignoreCase: boolean }) {
    const root = parsePattern(pattern, options.ignoreCase);
    this.required = requiredTexts(root);
    this.#program = assemble(root, pattern);
    this.#reset();
    this.begin();
  }

  /** Begins a new line. */
  begin(): void {
    if (this.#start === UNKNOWN) this.#start = this.#stateOf([0], START);
    this.#state = this.#start;
  }

  /**
   * Whether some line of a file's bytes may match: a quick test before its lines are read. Always true for a file that
   * is not plain ASCII.
   */
  mayMatch(bytes: Uint8Array): boolean {
    this.begin();
    let state = this.#state;
    let table = this.#table;
    const length = bytes.length;
    for (let at = 0; at < length; at++) {
      const byte = bytes[at] ?? ASCII;
      if (byte >= ASCII) return true;
      if (byte === RETURN && (at + 1 === length || bytes[at + 1] === NEWLINE)) continue;
      if (byte === NEWLINE) {
        this.#state = state;
        if (this.end()) return true;
        this.begin();
        state = this.#state;
        table = this.#table;
        continue;
      }
      const known = table[state * ASCII + byte] ?? UNKNOWN;
      if (known === UNKNOWN) {
        state = this.#step(state, byte);
        table = this.#table;
      } else {
        state = known;
      }
      if (state === MATCHED) return true;
    }
    this.#state = state;
    return bytes[length - 1] !== NEWLINE && this.end();
  }

  /** Whether the line so far has matched. */
  get matched(): boolean {
    return this.#state === MATCHED;
  }

  /** Where `feed` stopped: after a match, at `to`, or earlier when it used up its turn. */
  get position(): number {
    return this.#at;
  }

  /** Takes text[from, to), no line ends in it. Call it again from `position` until that is `to` or it matched. */
  feed(text: string, from: number, to: number): void {
    let at = from;
    let state = this.#state;
    let turn = TURN;
    while (at < to && state !== MATCHED && turn > 0) {
      const unit = text.charCodeAt(at);
      if (unit < ASCII) {
        const known = this.#table[state * ASCII + unit] ?? UNKNOWN;
        at++;
        if (known !== UNKNOWN) {
          state = known;
          continue;
        }
        turn -= this.#program.length;
        state = this.#step(state, unit);
        continue;
      }
      const codePoint = text.codePointAt(at) ?? unit;
      at += codePoint > 0xffff ? 2 : 1;
      const known = this.#states[state]?.wide.get(codePoint);
      if (known === undefined) turn -= this.#program.length;
      state = known ?? this.#step(state, codePoint);
    }
    this.#state = state;
    this.#at = at;
  }

  /** Whether the line matches, now that all of it was fed. */
  end(): boolean {
    if (this.#state === MATCHED) return true;
    const state = this.#stateAt(this.#state);
    state.atEnd ??= this.#close(state, undefined).matched;
    return state.atEnd;
  }

  #step(from: number, codePoint: number): number {
    const state = this.#stateAt(from);
    const { waiting, matched } = this.#close(state, codePoint);
    let next = MATCHED;
    if (!matched) {
      // The search may begin at every character.
      const kernel = new Set([0]);
      for (const index of waiting) {
        const instruction = this.#program[index];
        if (instruction?.kind === "char" && instruction.test(codePoint)) kernel.add(instruction.next);
      }
      next = this.#stateOf(
        [...kernel].sort((a, b) => a - b),
        isWord(codePoint) ? WORD : OTHER,
      );
    }
    // Making the next state may have emptied the table, and `from` with it.
    if (this.#states[from] !== state) return next;
    if (codePoint < ASCII) this.#table[from * ASCII + codePoint] = next;
    else if (this.#wideCount++ < MAX_WIDE) state.wide.set(codePoint, next);
    return next;
  }

  /** Follows instructions that take no character. Assertions depend on the characters around this position. */
  #close(state: State, codePoint: number | undefined): { waiting: number[]; matched: boolean } {
    const seen = new Set<number>();
    const open = [...state.kernel];
    const waiting: number[] = [];
    for (let index = open.pop(); index !== undefined; index = open.pop()) {
      if (seen.has(index)) continue;
      seen.add(index);
      const instruction = this.#program[index];
      if (instruction === undefined || instruction.kind === "match") return { waiting, matched: true };
      if (instruction.kind === "char") waiting.push(index);
      else if (instruction.kind === "split") open.push(instruction.next, instruction.other);
      else if (holds(instruction.what, state.before, codePoint)) open.push(instruction.next);
    }
    return { waiting, matched: false };
  }

  #stateOf(kernel: number[], before: Before): number {
    const key = `${before}:${kernel.join(",")}`;
    const known = this.#byKey.get(key);
    if (known !== undefined) return known;
    if (this.#isFull()) this.#reset();
    this.#kernels += kernel.length;
    const number = this.#states.length;
    this.#states.push({ kernel, before, wide: new Map(), atEnd: undefined });
    this.#byKey.set(key, number);
    if (this.#table.length < this.#states.length * ASCII) this.#grow();
    return number;
  }

  #isFull(): boolean {
    return this.#states.length >= MAX_STATES || this.#kernels >= MAX_KERNELS || this.#wideCount >= MAX_WIDE;
  }

  #grow(): void {
    const larger = new Int32Array(Math.max(8 * ASCII, 2 * this.#table.length)).fill(UNKNOWN);
    larger.set(this.#table);
    this.#table = larger;
  }

  #reset(): void {
    this.#states = [{ kernel: [], before: OTHER, wide: new Map(), atEnd: true }];
    this.#byKey = new Map();
    this.#table = new Int32Array(8 * ASCII).fill(UNKNOWN);
    this.#wideCount = 0;
    this.#kernels = 0;
    this.#start = UNKNOWN;
  }

  #stateAt(number: number): State {
    const state = this.#states[number];
    if (!state) throw new SyscallError("INTERNAL", `The matcher has no state ${number}.`);
    return state;
  }
}

function holds(what: Assertion, before: Before, codePoint: number | undefined): boolean {
  if (what === "line start") return before === START;
  if (what === "line end") return codePoint === undefined;
  const border = (before === WORD) !== (codePoint !== undefined && isWord(codePoint));
  return border === (what === "word border");
}

/** As \w in JavaScript. */
function isWord(codePoint: number): boolean {
  return (
    (codePoint >= 48 && codePoint <= 57) ||
    (codePoint >= 65 && codePoint <= 90) ||
    codePoint === 95 ||
    (codePoint >= 97 && codePoint <= 122)
  );
}

/** Thompson's construction; instruction 0 is the start. */
function assemble(root: Node, pattern: string): Instruction[] {
  const program: Instruction[] = [];
  const add = (instruction: Instruction): number => {
    if (program.length >= MAX_INSTRUCTIONS) {
      throw new SyscallError(
        "INVALID",
        `The pattern ${JSON.stringify(pattern.slice(0, 200))} can't be used: its repetitions make it too large. Use smaller numbers, * or +.`,
      );
    }
    return program.push(instruction) - 1;
  };
  /** Appends the node's instructions; they continue with the next ones appended. */
  const put = (node: Node): void => {
    switch (node.kind) {
      case "empty":
        return;
      case "char":
        add({ kind: "char", test: node.test, next: program.length + 1 });
        return;
      case "assert":
        add({ kind: "assert", what: node.what, next: program.length + 1 });
        return;
      case "sequence":
        for (const part of node.parts) put(part);
        return;
      case "choice":
        putChoice(node.options);
        return;
      case "repeat":
        putRepeat(node);
        return;
    }
  };
  const putChoice = (options: readonly Node[]): void => {
    const ends: number[] = [];
    for (const [index, option] of options.entries()) {
      if (index === options.length - 1) {
        put(option);
        break;
      }
      const split = add({ kind: "split", next: program.length + 1, other: 0 });
      put(option);
      ends.push(add({ kind: "split", next: 0, other: 0 }));
      program[split] = { kind: "split", next: split + 1, other: program.length };
    }
    for (const end of ends) program[end] = { kind: "split", next: program.length, other: program.length };
  };
  const putRepeat = (node: Extract<Node, { kind: "repeat" }>): void => {
    for (let count = 0; count < node.min; count++) {
      const before = program.length;
      put(node.body);
      // A body without instructions needs no repetition.
      if (program.length === before) return;
    }
    if (node.max === null) {
      const split = add({ kind: "split", next: program.length + 1, other: 0 });
      put(node.body);
      add({ kind: "split", next: split, other: split });
      program[split] = { kind: "split", next: split + 1, other: program.length };
      return;
    }
    const splits: number[] = [];
    for (let count = node.min; count < node.max; count++) {
      splits.push(add({ kind: "split", next: program.length + 1, other: 0 }));
      put(node.body);
    }
    for (const split of splits) program[split] = { kind: "split", next: split + 1, other: program.length };
  };
  put(root);
  add({ kind: "match" });
  return program;
}
