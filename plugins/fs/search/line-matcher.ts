import { SyscallError } from "rnix/plugin";
import { type Assertion, type CharTest, type Node, parsePattern } from "./pattern-syntax.ts";
import { requiredTexts } from "./required-texts.ts";

const MAX_INSTRUCTIONS = 1_000;
/** Beyond these the table is emptied and filled anew: slower, never wrong. About 1 MB for each. */
const MAX_STATES = 2_000;
const MAX_KERNELS = 100_000;
const MAX_WIDE = 20_000;
/** Instructions looked at before one `feed` gives up its turn. */
const TURN = 20_000;
const ASCII = 128;
const NEWLINE = 10;
const RETURN = 13;
const UNKNOWN = -1;
/** The state of a line that has matched: nothing leads out of it. */
const MATCHED = 0;

type Instruction =
  | { kind: "char"; test: CharTest; next: number }
  | { kind: "split"; next: number; other: number }
  | { kind: "assert"; what: Assertion; next: number }
  | { kind: "match" };

/** What stood before: the line's start, a word character, another one. */
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
 * Tells whether a line holds a match of a regular expression, in time that grows with the line's length
 * and nothing else. JavaScript's own engine backtracks: one pattern on one line can take it minutes, not even the
 * end of its Worker stops it, and past a limit of steps it answers "no match" whatever the truth. Here all ways to match are followed at once, and what was found is kept in a table
 * (a lazily built DFA), so that most characters cost one look-up. A line may be fed in pieces.
 */
export class LineMatcher {
  /** A line that matches holds one of these; none where that can't be told. */
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
  /** Of the line being fed. */
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
   * Whether some line of a whole file's bytes could match: a quick look before its lines are read. Of a file that is
   * not plain ASCII it can't be told.
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

  /** Where `feed` stopped: behind a match, at `to`, or before it when its turn was over. */
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

  /** Follows what needs no character, knowing what stands before and behind this place. */
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
  /** Puts the node's instructions at the end of the program; they lead on to what is put there next. */
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
      // What needs no instruction need not be repeated, however often it is asked for.
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
