/** Splits a shell command line into tokens. */

/** The names of a list that is written as one text. */
export function namesIn(text: string): ReadonlySet<string> {
  return new Set(text.split(/\s+/));
}

/** One word of a command as the shell passes it to the program, without quotes. */
export interface Word {
  text: string;
  /** The shell expands it to an unknown text: a variable, a glob, braces, `~`. */
  dynamic: boolean;
  /** It may expand to no argument or to several: an unquoted expansion, or `"$@"`. */
  splits: boolean;
}

export class NotUnderstood extends Error {}

export type Token =
  | { kind: "word"; word: Word; quoted: boolean; assignment: boolean }
  | { kind: "separator" }
  /** `&` directly before `>`: bash redirects both streams, dash ends the command and redirects. */
  | { kind: "both" }
  | { kind: "open" | "close" }
  | { kind: "redirect"; operator: string }
  | { kind: "end" };

/** Longest first. `&>` is read as two tokens, `both` and `>`. */
const OPERATORS = ["<<<", "<<-", "&&", "||", "|&", ">>", ">&", ">|", "<&", "<>", "<<"] as const;
const SEPARATORS = new Set(["&&", "||", "|&", "|", "&", ";", "\n"]);
const REDIRECTS = new Set([">>", ">&", ">|", "<>", ">", "<", "<&"]);
const META = " \t\n;&|()<>";
/** Unquoted, these may change a word, or expand it to several. */
const EXPANDS = "*?[{";
const NAME_FIRST = /[A-Za-z_]/;
const NAME = /[A-Za-z0-9_]/;
/** `$?`, `$#`, `$1` …: one letter long. */
const SPECIAL = "?#$!-@*0123456789";

/** Splits a line into tokens as a shell does. */
export class Lexer {
  readonly #line: string;
  #at = 0;

  constructor(line: string) {
    this.#line = line;
  }

  next(): Token {
    this.#skipBlanks();
    const char = this.#line[this.#at];
    if (char === undefined) return { kind: "end" };
    if (!META.includes(char)) return this.#word();
    return this.#operator(char);
  }

  #skipBlanks(): void {
    for (;;) {
      const char = this.#line[this.#at];
      if (char === " " || char === "\t") this.#at++;
      else if (char === "\\" && this.#line[this.#at + 1] === "\n") this.#at += 2;
      else if (char === "#") this.#skipComment();
      else return;
    }
  }

  /** Skips to the newline, which ends the command. */
  #skipComment(): void {
    const end = this.#line.indexOf("\n", this.#at);
    this.#at = end < 0 ? this.#line.length : end;
  }

  #operator(char: string): Token {
    const operator = OPERATORS.find((known) => this.#line.startsWith(known, this.#at)) ?? char;
    this.#at += operator.length;
    this.#skipContinuations(); // `(\<newline>(` is `((` to a shell.
    const next = this.#line[this.#at];
    if (operator === "&" && next === ">") return { kind: "both" };
    if (operator === "(") {
      if (next === "(") throw new NotUnderstood(); // ((arithmetic)), or similar.
      return { kind: "open" };
    }
    if (operator === ")") return { kind: "close" };
    if (operator === ";" && (next === ";" || next === "&")) throw new NotUnderstood(); // of `case`
    if (SEPARATORS.has(operator)) return { kind: "separator" };
    if (!REDIRECTS.has(operator)) throw new NotUnderstood(); // Here-documents and here-strings.
    if (next === "(") throw new NotUnderstood(); // Process substitution.
    return { kind: "redirect", operator };
  }

  #word(): Token {
    const word: Word = { text: "", dynamic: false, splits: false };
    let quoted = false;
    const start = this.#at;
    for (;;) {
      const char = this.#line[this.#at];
      if (char === undefined || META.includes(char)) break;
      this.#at++;
      if (char === "'") {
        quoted = true;
        word.text += this.#singleQuoted();
      } else if (char === '"') {
        quoted = true;
        append(word, this.#doubleQuoted());
      } else if (char === "\\") {
        const next = this.#take();
        if (next !== "\n") {
          quoted = true;
          word.text += next;
        }
      } else if (char === "`") {
        throw new NotUnderstood();
      } else if (char === "$") {
        append(word, this.#dollar(false));
      } else {
        const expands = (EXPANDS.includes(char) && !this.#isAlone(start)) || isTilde(char, word.text);
        append(word, { text: char, dynamic: expands, splits: expands });
      }
    }
    return this.#finishWord(start, word, quoted);
  }

  #finishWord(start: number, word: Word, quoted: boolean): Token {
    const raw = this.#line.slice(start, this.#at).replaceAll("\\\n", "");
    const next = this.#line[this.#at];
    if (next === "<" || next === ">") {
      // `2>`: the digits belong to the redirection.
      if (/^[0-9]+$/.test(raw)) return this.next();
      // bash sets the variable of `{PATH}>x`, and evaluates the subscript of `{a[…]}>x`.
      if (raw.startsWith("{") && raw.endsWith("}")) throw new NotUnderstood();
    }
    if (next === "(") throw new NotUnderstood(); // A function, an array, an extended glob.
    const assignment = /^[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=/.test(raw);
    return { kind: "word", word, quoted, assignment };
  }

  /** `{` alone is a group and `[` a command. */
  #isAlone(start: number): boolean {
    const char = this.#line[start];
    if (this.#at !== start + 1 || (char !== "{" && char !== "[")) return false;
    const next = this.#line[this.#at];
    return next === undefined || META.includes(next);
  }

  #singleQuoted(): string {
    const end = this.#line.indexOf("'", this.#at);
    if (end < 0) throw new NotUnderstood();
    const text = this.#line.slice(this.#at, end);
    this.#at = end + 1;
    return text;
  }

  #doubleQuoted(): Word {
    const word: Word = { text: "", dynamic: false, splits: false };
    for (;;) {
      const char = this.#take();
      if (char === '"') return word;
      if (char === "`") throw new NotUnderstood();
      if (char === "\\") {
        const next = this.#take();
        if (next !== "\n") word.text += '$`"\\'.includes(next) ? next : `\\${next}`;
      } else if (char === "$") append(word, this.#dollar(true));
      else word.text += char;
    }
  }

  /** Reads what follows a `$`: a plain variable, or the character itself. */
  #dollar(inQuotes: boolean): Word {
    this.#skipContinuations();
    const next = this.#line[this.#at];
    if (next === undefined) return { text: "$", dynamic: false, splits: false };
    if (next === "(" || next === "[") throw new NotUnderstood();
    if (next === "{") return this.#braced(inQuotes);
    if (!inQuotes && (next === "'" || next === '"')) throw new NotUnderstood();
    if (NAME_FIRST.test(next)) {
      this.#skipName();
      return { text: "", dynamic: true, splits: !inQuotes };
    }
    if (SPECIAL.includes(next)) {
      this.#at++;
      return { text: "", dynamic: true, splits: !inQuotes || next === "@" };
    }
    return { text: "$", dynamic: false, splits: false };
  }

  /** Reads `${name}`; anything else in braces can run commands. */
  #braced(inQuotes: boolean): Word {
    this.#at++;
    const first = this.#line[this.#at] ?? "";
    if (NAME_FIRST.test(first)) this.#skipName();
    else if (/[0-9]/.test(first)) this.#at++;
    if (this.#take() !== "}") throw new NotUnderstood();
    return { text: "", dynamic: true, splits: !inQuotes };
  }

  #skipName(): void {
    while (NAME.test(this.#line[this.#at] ?? "")) this.#at++;
  }

  /** `$\<newline>(` is `$(` to a shell. */
  #skipContinuations(): void {
    while (this.#line.startsWith("\\\n", this.#at)) this.#at += 2;
  }

  #take(): string {
    const char = this.#line[this.#at];
    if (char === undefined) throw new NotUnderstood();
    this.#at++;
    return char;
  }
}

function append(word: Word, part: Word): void {
  word.text += part.text;
  word.dynamic ||= part.dynamic;
  word.splits ||= part.splits;
}

/** A home folder: at the start of a word, or of a part of an assignment. */
function isTilde(char: string, before: string): boolean {
  return char === "~" && (before === "" || before.endsWith("=") || before.endsWith(":"));
}
