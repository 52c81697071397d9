/** Finds the first error in invalid JSON and explains it. */

interface JsonProblem {
  line: number;
  column: number;
  message: string;
}

/** Levels of brackets. A file that people write has a few. */
const MAX_LEVELS = 200;

/** null when the text is JSON. */
export function findJsonProblem(text: string): JsonProblem | null {
  try {
    JSON.parse(text);
    return null;
  } catch {
    const { at, message } = new Scanner(text).problem();
    const column = at - text.lastIndexOf("\n", at - 1);
    return { line: lineOf(text, at), column, message };
  }
}

class Mistake extends Error {
  readonly at: number;

  constructor(at: number, message: string) {
    super(message);
    this.at = at;
  }
}

/** A parser that builds no values. */
class Scanner {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  problem(): { at: number; message: string } {
    try {
      this.#space();
      this.#value(0);
      this.#space();
      this.#fail("nothing may follow the end of the JSON value");
    } catch (error) {
      if (error instanceof Mistake) return error;
      throw error;
    }
  }

  #value(level: number): void {
    const open = this.#at;
    const char = this.#text[open];
    if (level > MAX_LEVELS) this.#fail(`more than ${MAX_LEVELS} levels of brackets`);
    if (char === "{") this.#list(open, "}", level, () => this.#key());
    else if (char === "[") this.#list(open, "]", level, () => {});
    else if (char === '"') this.#string();
    else this.#word(/(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])/y);
  }

  #list(open: number, close: string, level: number, key: () => void): void {
    this.#at++;
    this.#space();
    if (this.#take(close)) return;
    const missing = `the "${this.#text[open]}" of line ${lineOf(this.#text, open)} is not closed: expected "${close}"`;
    for (;;) {
      if (this.#isEnd()) this.#fail(missing);
      key();
      this.#value(level + 1);
      this.#space();
      if (this.#take(close)) return;
      const comma = this.#at;
      if (!this.#take(","))
        this.#fail(this.#isEnd() ? missing : `expected "," or "${close}", found ${this.#found()}`);
      this.#space();
      if (this.#text[this.#at] === close) this.#fail(`remove the "," before "${close}"`, comma);
    }
  }

  #key(): void {
    if (this.#text[this.#at] !== '"') this.#fail(`expected a key in double quotes, found ${this.#found()}`);
    this.#string();
    this.#space();
    if (!this.#take(":")) this.#fail(`expected ":" after the key, found ${this.#found()}`);
    this.#space();
  }

  #string(): void {
    const open = this.#at;
    this.#at++;
    for (;;) {
      const char = this.#text[this.#at];
      if (char === undefined || char === "\n")
        this.#fail("this text has no closing double quote in its line", open);
      if (char < " ") this.#fail("a control character in a text must be escaped, such as \\t");
      if (char === '"') break;
      if (char === "\\") this.#word(/\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y, 'write a backslash as "\\\\"');
      else this.#at++;
    }
    this.#at++;
  }

  #word(pattern: RegExp, message?: string): void {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text);
    if (!match) this.#fail(message ?? `expected a value, found ${this.#found()}`);
    else this.#at += match[0].length;
  }

  #space(): void {
    while (/[ \t\r\n]/.test(this.#text[this.#at] ?? "")) this.#at++;
    if (this.#text.startsWith("//", this.#at) || this.#text.startsWith("/*", this.#at)) {
      this.#fail("JSON has no comments: remove it");
    }
  }

  #take(char: string): boolean {
    if (this.#text[this.#at] !== char) return false;
    this.#at++;
    return true;
  }

  #isEnd(): boolean {
    return this.#at >= this.#text.length;
  }

  #found(): string {
    if (this.#isEnd()) return "the end of the file";
    if (this.#text[this.#at] === "'") return "a single quote: JSON takes double quotes only";
    const word = /[\w$-]+/y;
    word.lastIndex = this.#at;
    return JSON.stringify(word.exec(this.#text)?.[0].slice(0, 40) ?? this.#text[this.#at]);
  }

  #fail(message: string, at = this.#at): never {
    throw new Mistake(at, message);
  }
}

function lineOf(text: string, at: number): number {
  return text.slice(0, at).split("\n").length;
}
