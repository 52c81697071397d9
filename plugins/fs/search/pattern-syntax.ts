/** Parses a regular expression to a syntax tree that an automaton can match. */

import { SyscallError } from "rnix/plugin";

/** The syntax tree of a regular expression without the parts that need backtracking. */
export type Node =
  | { kind: "empty" }
  /** `text`: the one character that it takes. */
  | { kind: "char"; test: CharTest; text?: string }
  | { kind: "assert"; what: Assertion }
  | { kind: "sequence"; parts: Node[] }
  | { kind: "choice"; options: Node[] }
  | { kind: "repeat"; body: Node; min: number; max: number | null };

export type CharTest = (codePoint: number) => boolean;
export type Assertion = "line start" | "line end" | "word border" | "no word border";

const MAX_LENGTH = 2_000;
const MAX_DEPTH = 100;
const MAX_COUNT = 1_000;
const ASSERTIONS: Readonly<Record<string, Assertion>> = {
  "^": "line start",
  $: "line end",
  "\\b": "word border",
  "\\B": "no word border",
};
/** Escapes of one letter that stand for a class or a character and mean the same to JavaScript. */
const KNOWN_ESCAPE =
  /^\\(?:[dDwWsStfrv0]|x[\da-fA-F]{2}|u[\da-fA-F]{4}|u\{[\da-fA-F]{1,6}\}|[pP]\{[^}]{1,60}\})/;

/**
 * Reads JavaScript's syntax without what needs backtracking: look-around and back-references. INVALID says
 * what is wrong and where.
 */
export function parsePattern(source: string, ignoreCase: boolean): Node {
  return new Parser(source, ignoreCase).parse();
}

class Parser {
  readonly #source: string;
  #ignoreCase: boolean;
  #at = 0;
  #depth = 0;

  constructor(source: string, ignoreCase: boolean) {
    this.#source = source;
    this.#ignoreCase = ignoreCase;
  }

  parse(): Node {
    if (this.#source.length > MAX_LENGTH) throw this.#wrong(`it is longer than ${MAX_LENGTH} characters`);
    if (this.#source.startsWith("(?i)")) {
      this.#ignoreCase = true;
      this.#at = 4;
    }
    const node = this.#choice();
    if (this.#at < this.#source.length) throw this.#wrong('unmatched ")"; a literal one is written \\)');
    return node;
  }

  #choice(): Node {
    const options = [this.#sequence()];
    while (this.#take("|")) options.push(this.#sequence());
    return options.length === 1 ? (options[0] ?? { kind: "empty" }) : { kind: "choice", options };
  }

  #sequence(): Node {
    const parts: Node[] = [];
    while (this.#at < this.#source.length && !this.#ahead("|") && !this.#ahead(")")) {
      parts.push(this.#repeated(this.#atom()));
    }
    return parts.length === 0 ? { kind: "empty" } : { kind: "sequence", parts };
  }

  #repeated(body: Node): Node {
    const count = this.#quantifier();
    if (!count) return body;
    if (body.kind === "assert")
      throw this.#wrong("a repetition needs a character before it, not a place like ^ or \\b");
    // Lazy or greedy makes no difference to whether a line matches.
    this.#take("?");
    if (this.#ahead("*") || this.#ahead("+") || this.#quantifierAhead()) {
      throw this.#wrong("a repetition follows a repetition");
    }
    return { kind: "repeat", body, ...count };
  }

  #quantifier(): { min: number; max: number | null } | undefined {
    if (this.#take("*")) return { min: 0, max: null };
    if (this.#take("+")) return { min: 1, max: null };
    if (this.#take("?")) return { min: 0, max: 1 };
    const braces = this.#quantifierAhead();
    if (!braces) return undefined;
    const [text, low = "0", comma, high] = braces;
    this.#at += text.length;
    const min = Number(low);
    const max = comma === undefined ? min : high === undefined || high === "" ? null : Number(high);
    if (max !== null && max < min) throw this.#wrong(`the numbers in ${text} are the wrong way round`);
    if (Math.max(min, max ?? 0) > MAX_COUNT)
      throw this.#wrong(`${text} is more than ${MAX_COUNT} repetitions`);
    return { min, max };
  }

  /** A brace that is no repetition stands for itself, as in JavaScript: `interface{}`. */
  #quantifierAhead(): RegExpExecArray | null {
    return /^\{(\d+)(,)?(\d+)?\}/.exec(this.#source.slice(this.#at, this.#at + 20));
  }

  #atom(): Node {
    const char = this.#peek();
    if (char === "(") return this.#group();
    if (char === "[") return this.#class();
    if (char === "\\") return this.#escape();
    if (char === "*" || char === "+" || char === "?") {
      throw this.#wrong(`nothing stands before ${char}; a literal one is written \\${char}`);
    }
    const assertion = ASSERTIONS[char];
    this.#at += char.length;
    if (assertion) return { kind: "assert", what: assertion };
    if (char === ".") return { kind: "char", test: () => true };
    return this.#literal(char);
  }

  #group(): Node {
    const opened = this.#at;
    this.#at++;
    if (this.#take("?")) {
      const head = /^(?::|P?<[A-Za-z_$][\w$]*>)/.exec(this.#source.slice(this.#at, this.#at + 100));
      if (!head) {
        throw this.#wrong(
          "look-around and other (?…) groups are not supported, only (…), (?:…), (?<name>…) and (?i) at the start",
        );
      }
      this.#at += head[0].length;
    }
    if (++this.#depth > MAX_DEPTH) throw this.#wrong(`its groups are nested more than ${MAX_DEPTH} deep`);
    const body = this.#choice();
    this.#depth--;
    if (this.#take(")")) return body;
    this.#at = opened;
    throw this.#wrong('"(" is not closed; a literal one is written \\(');
  }

  #class(): Node {
    const start = this.#at;
    const negated = this.#source[start + 1] === "^";
    let end = start + (negated ? 2 : 1);
    while (end < this.#source.length && this.#source[end] !== "]") {
      if (/^\[[:.=]/.test(this.#source.slice(end, end + 2))) {
        throw this.#wrong("POSIX classes like [:alpha:] are not supported: use [A-Za-z], \\d, \\w or \\s");
      }
      end += this.#source[end] === "\\" ? 2 : 1;
    }
    if (end >= this.#source.length) throw this.#wrong('"[" is not closed; a literal one is written \\[');
    this.#at = end + 1;
    return { kind: "char", test: this.#nativeTest(this.#source.slice(start, end + 1)) };
  }

  #escape(): Node {
    const next = this.#source[this.#at + 1];
    if (next === undefined) throw this.#wrong("it ends with a lone backslash");
    const assertion = ASSERTIONS[`\\${next}`];
    if (assertion) {
      this.#at += 2;
      return { kind: "assert", what: assertion };
    }
    if (next === "n") throw this.#wrong("files are searched line by line, so \\n never matches");
    const known = KNOWN_ESCAPE.exec(this.#source.slice(this.#at, this.#at + 80));
    if (known) {
      this.#at += known[0].length;
      return { kind: "char", test: this.#nativeTest(known[0]) };
    }
    if (/[1-9k]/.test(next)) throw this.#wrong(`back-references like \\${next} are not supported`);
    if (/[A-Za-z]/.test(next)) throw this.#wrong(`\\${next} means nothing here`);
    this.#at++;
    const char = this.#peek();
    this.#at += char.length;
    return this.#literal(char);
  }

  #literal(char: string): Node {
    const wanted = char.codePointAt(0);
    if (!this.#ignoreCase) return { kind: "char", test: (codePoint) => codePoint === wanted, text: char };
    return { kind: "char", test: this.#nativeTest(char.replace(/[\\^$.*+?()[\]{}|/]/, "\\$&")) };
  }

  /** JavaScript's own engine decides what a class or escape matches, one character at a time, which is fast. */
  #nativeTest(atom: string): CharTest {
    const flags = this.#ignoreCase ? "i" : "";
    const unicode = compiled(`^(?:${atom})$`, `u${flags}`);
    if (unicode instanceof RegExp) return (codePoint) => unicode.test(String.fromCodePoint(codePoint));
    // Outside of Unicode mode some needless escapes are allowed, and models write them.
    const loose = compiled(`^(?:${atom})$`, flags);
    if (!(loose instanceof RegExp)) throw this.#wrong(loose.message);
    return (codePoint) => loose.test(codePoint > 0xffff ? "\uFFFD" : String.fromCodePoint(codePoint));
  }

  /** The character ahead, whole. */
  #peek(): string {
    return String.fromCodePoint(this.#source.codePointAt(this.#at) ?? 0);
  }

  #ahead(char: string): boolean {
    return this.#source[this.#at] === char;
  }

  #take(char: string): boolean {
    if (!this.#ahead(char)) return false;
    this.#at++;
    return true;
  }

  #wrong(why: string): SyscallError {
    return new SyscallError(
      "INVALID",
      `The pattern ${JSON.stringify(this.#source.slice(0, 200))} can't be used: at character ${this.#at + 1}, ${why}.`,
    );
  }
}

function compiled(source: string, flags: string): RegExp | Error {
  try {
    return new RegExp(source, flags);
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return thrown;
    throw thrown;
  }
}
