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
  /** Its text with a mark for each expansion: see MARK. */
  form: string;
  /** The commands of its substitutions, one list for each. */
  runs?: readonly (readonly SimpleCommand[])[];
  /** What it is made of, in order, of a word that was read. */
  parts?: Part[];
}

/** A part of a word: plain text, a parameter (`rest`: what follows its name in braces), commands whose output it is. */
export type Part = { quoted: boolean } & (
  | { text: string }
  | { name: string; rest: string }
  | { commands: string }
);

/** What stands in a word's form for an expansion. No line may contain these characters. */
export const MARK = {
  /** On both sides of a variable's name. */
  variable: "\u0001",
  /** Anything. */
  unknown: "\u0002",
  /** A number. */
  number: "\u0005",
  /** Before a character that matches files, or that begins several words. */
  glob: "\u0003",
  /** On both sides of the index of a substitution in `runs`. */
  substitution: "\u0004",
} as const;

const MARKS = Object.values(MARK).join("");
const MARKED = new RegExp(`[${MARKS}]`);
const OPTION_START = new RegExp(`^[-${MARKS}]`);

/** Whether the shell expands some part of the form. */
export function isExpanded(form: string): boolean {
  return MARKED.test(form);
}

/** Whether the form begins with "-", or with what the shell expands. */
export function beginsAsOption(form: string): boolean {
  return OPTION_START.test(form);
}

/** One program that the line runs. */
export interface SimpleCommand {
  words: Word[];
  /** Begins with assignments, `FOO=x git …`, which can change what the name runs; or the variable of a loop. */
  assigns: boolean;
  /** Assignments, `FOO=x`. */
  assigned: Word[];
  /** Files of redirections. /dev/null and other descriptors do not count. */
  files: { word: Word; access: "read" | "write" }[];
  /** The operator before it; `|` only when it reads what the one command before it prints. `||`: it may not run. */
  after: string;
  /** In how many substitutions it is. */
  inner: number;
  /** It is part of a loop or a condition, or has a here-document. */
  compound: boolean;
  /** Its standard input may be another than what the command before it prints: `<`, `<<`, `<&`. */
  hasInput?: true;
}

export class NotUnderstood extends Error {}

export type Token =
  | { kind: "word"; word: Word; quoted: boolean; assignment: boolean }
  | { kind: "separator"; operator: string }
  /** `&` directly before `>`: bash redirects both streams, dash ends the command and redirects. */
  | { kind: "both" }
  | { kind: "open" | "close" }
  /** `fd`: the descriptor before the operator. */
  | { kind: "redirect"; operator: string; fd?: number }
  /** The text after `<<` or `<<<` names no file. */
  | { kind: "text" }
  | { kind: "end" };

/** `${x%.ts}` and others whose word is plain text. */
const PLAIN_BRACES = /^\{#?([A-Za-z_][A-Za-z0-9_]*|[0-9])(?:(?::?[-+]|%%?|##?)[\w.,:/*? -]*)?\}/;
/** Arithmetic without names, which the shell would evaluate. */
const PLAIN_ARITHMETIC = /^\(\([0-9\s+*/%-]+\)\)/;

/** Longest first. `&>` is read as two tokens, `both` and `>`. */
const OPERATORS = ["<<<", "<<-", "&&", "||", "|&", ">>", ">&", ">|", "<&", "<>", "<<"] as const;
const SEPARATORS = new Set(["&&", "||", "|&", "|", "&", ";", "\n"]);
const REDIRECTS = new Set([">>", ">&", ">|", "<>", ">", "<", "<&"]);
/** `{` alone is a group, `[` and `[[` are commands. */
const ALONE = /(?:\{|\[\[?)(?=[ \t\n;&|()<>]|$)/y;
/** No shell expands them, when no more follows in the word than a path. */
const EMPTY_BRACES = /\{\}(?:[/.][\w/.-]*)?(?=[ \t\n;&|()<>]|$)/y;
const META = " \t\n;&|()<>";
/** Unquoted, these may change a word, or expand it to several. */
const EXPANDS = "*?[{";
const NAME_FIRST = /[A-Za-z_]/;
const NAME = /[A-Za-z0-9_]/;
/** Maximum characters of an expansion in braces, and of arithmetic. */
const MAX_BRACES = 200;
const SUBSTITUTION = new RegExp(`${MARK.substitution}(\\d+)${MARK.substitution}`, "g");
/** `$?`, `$#`, `$1` …: one letter long. */
const SPECIAL = "?#$!-@*0123456789";

/** Parses the commands of a substitution, up to its end. */
export type Substitute = (lexer: Lexer, end: "close" | "end") => readonly SimpleCommand[];

/** Splits a line into tokens as a shell does. */
export class Lexer {
  readonly #line: string;
  readonly #substitute: Substitute;
  #at = 0;
  /** Here-documents whose lines have not been read. */
  #documents: { end: string; isLiteral: boolean; stripsTabs: boolean }[] = [];

  constructor(line: string, substitute: Substitute) {
    this.#line = line;
    this.#substitute = substitute;
  }

  /** The number of the line that is read. */
  get line(): number {
    return this.#line.slice(0, this.#at).split("\n").length;
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
    if (operator === "\n") this.#readDocuments();
    if (SEPARATORS.has(operator)) return { kind: "separator", operator };
    if (operator.startsWith("<<")) return this.#text(operator);
    if (!REDIRECTS.has(operator)) throw new NotUnderstood();
    if (next === "(") throw new NotUnderstood(); // Process substitution.
    return { kind: "redirect", operator };
  }

  /** Reads the word after `<<<`, or the end of a here-document, whose lines follow the line. */
  #text(operator: string): Token {
    const start = this.#at;
    const token = this.next();
    if (token.kind !== "word") throw new NotUnderstood();
    if (operator === "<<<") {
      if (token.word.runs) throw new NotUnderstood();
      return { kind: "text" };
    }
    const { text: end, dynamic } = token.word;
    if (dynamic || end === "" || /[\n\\$`]/.test(this.#line.slice(start, this.#at)))
      throw new NotUnderstood();
    this.#documents.push({ end, isLiteral: token.quoted, stripsTabs: operator === "<<-" });
    return { kind: "text" };
  }

  /** Skips the lines of here-documents. Of one whose end is not quoted, the shell expands the lines. */
  #readDocuments(): void {
    for (const { end, isLiteral, stripsTabs } of this.#documents.splice(0)) {
      for (;;) {
        if (this.#at >= this.#line.length) throw new NotUnderstood();
        const newline = this.#line.indexOf("\n", this.#at);
        const stop = newline < 0 ? this.#line.length : newline;
        const text = this.#line.slice(this.#at, stop);
        this.#at = Math.min(stop + 1, this.#line.length);
        if ((stripsTabs ? text.replace(/^\t+/, "") : text) === end) break;
        if (!isLiteral && /\\$|`|\$[({[]/.test(text)) throw new NotUnderstood();
      }
    }
  }

  /** The end of the line, or of a substitution: no here-document may be open. */
  finish(): void {
    if (this.#documents.length > 0) throw new NotUnderstood();
  }

  #word(): Token {
    const word = plainWord("");
    let quoted = false;
    const start = this.#at;
    for (;;) {
      const char = this.#line[this.#at];
      if (char === undefined || META.includes(char)) break;
      this.#at++;
      if (char === "'") {
        quoted = true;
        append(word, plainWord(this.#singleQuoted(), true));
      } else if (char === '"') {
        quoted = true;
        append(word, this.#doubleQuoted());
      } else if (char === "\\") {
        const next = this.#take();
        if (next !== "\n") {
          quoted = true;
          append(word, plainWord(next, true));
        }
      } else if (char === "`") {
        append(word, this.#backticks(false));
      } else if (char === "$") {
        append(word, this.#dollar(false));
      } else {
        const isPlain = this.#matches(ALONE, start) || this.#matches(EMPTY_BRACES, this.#at - 1);
        const expands = (EXPANDS.includes(char) && !isPlain) || isTilde(char, word.text);
        const form = char === "~" ? MARK.unknown : `${MARK.glob}${char}`;
        append(word, expands ? { ...plainWord(char), dynamic: true, splits: true, form } : plainWord(char));
      }
    }
    return this.#finishWord(start, word, quoted);
  }

  #finishWord(start: number, word: Word, quoted: boolean): Token {
    const raw = this.#line.slice(start, this.#at).replaceAll("\\\n", "");
    const next = this.#line[this.#at];
    if (next === "<" || next === ">") {
      // `2>`: the digits belong to the redirection.
      if (/^[0-9]+$/.test(raw)) {
        const token = this.next();
        return token.kind === "redirect" ? { ...token, fd: Number(raw) } : token;
      }
      // bash sets the variable of `{PATH}>x`, and evaluates the subscript of `{a[…]}>x`.
      if (raw.startsWith("{") && raw.endsWith("}")) throw new NotUnderstood();
    }
    if (next === "(") throw new NotUnderstood(); // A function, an array, an extended glob.
    const assignment = /^[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=/.test(raw);
    return { kind: "word", word, quoted, assignment };
  }

  #matches(pattern: RegExp, start: number): boolean {
    pattern.lastIndex = start;
    return pattern.test(this.#line);
  }

  #singleQuoted(): string {
    const end = this.#line.indexOf("'", this.#at);
    if (end < 0) throw new NotUnderstood();
    const text = this.#line.slice(this.#at, end);
    this.#at = end + 1;
    return text;
  }

  #doubleQuoted(): Word {
    const word = plainWord("", true);
    for (;;) {
      const char = this.#take();
      if (char === '"') return word;
      if (char === "`") append(word, this.#backticks(true));
      else if (char === "\\") {
        const next = this.#take();
        if (next !== "\n") append(word, plainWord('$`"\\'.includes(next) ? next : `\\${next}`, true));
      } else if (char === "$") append(word, this.#dollar(true));
      else append(word, plainWord(char, true));
    }
  }

  /** Reads what follows a `$`: a plain variable, or the character itself. */
  #dollar(inQuotes: boolean): Word {
    this.#skipContinuations();
    const next = this.#line[this.#at];
    if (next === undefined) return plainWord("$", inQuotes);
    if (next === "[") throw new NotUnderstood();
    if (next === "(") return this.#parentheses(inQuotes);
    if (next === "{") return this.#braced(inQuotes);
    if (!inQuotes && (next === "'" || next === '"')) throw new NotUnderstood();
    if (NAME_FIRST.test(next)) {
      const start = this.#at;
      while (NAME.test(this.#line[this.#at] ?? "")) this.#at++;
      const name = this.#line.slice(start, this.#at);
      return expansion(!inQuotes, variableMark(name), { name, rest: "", quoted: inQuotes });
    }
    if (SPECIAL.includes(next)) {
      this.#at++;
      const form = "?#$!".includes(next) ? MARK.number : MARK.unknown;
      return expansion(!inQuotes || next === "@", form, { name: next, rest: "", quoted: inQuotes });
    }
    return plainWord("$", inQuotes);
  }

  /** Reads `${name}`, or what removes or replaces a part by plain text; anything else in braces can run commands. */
  #braced(inQuotes: boolean): Word {
    const [whole, name] = PLAIN_BRACES.exec(this.#line.slice(this.#at, this.#at + MAX_BRACES)) ?? [];
    if (whole === undefined || name === undefined) throw new NotUnderstood();
    this.#at += whole.length;
    const inside = whole.slice(1, -1);
    const part = inside.startsWith("#")
      ? { name: inside, rest: "", quoted: inQuotes }
      : { name, rest: inside.slice(name.length), quoted: inQuotes };
    return expansion(!inQuotes, whole === `{${name}}` ? variableMark(name) : MARK.unknown, part);
  }

  /** Reads the commands of `$(…)`, or plain arithmetic. */
  #parentheses(inQuotes: boolean): Word {
    if (/^\((?:\\\n)*\(/.test(this.#line.slice(this.#at, this.#at + MAX_BRACES))) {
      const [whole] = PLAIN_ARITHMETIC.exec(this.#line.slice(this.#at, this.#at + MAX_BRACES)) ?? [];
      if (whole === undefined) throw new NotUnderstood();
      this.#at += whole.length;
      return expansion(!inQuotes, MARK.number, { name: whole, rest: "", quoted: inQuotes });
    }
    const start = ++this.#at;
    const commands = this.#substitute(this, "close");
    return substitution(commands, this.#line.slice(start, this.#at - 1), inQuotes);
  }

  #backticks(inQuotes: boolean): Word {
    const end = this.#line.indexOf("`", this.#at);
    const text = this.#line.slice(this.#at, end);
    if (end < 0 || text.includes("\\")) throw new NotUnderstood();
    this.#at = end + 1;
    return substitution(this.#substitute(new Lexer(text, this.#substitute), "end"), text, inQuotes);
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

export function plainWord(text: string, quoted = false): Word {
  const parts = text !== "" || quoted ? [{ text, quoted }] : [];
  return { text, dynamic: false, splits: false, form: text, parts };
}

function expansion(splits: boolean, form: string, part: Part): Word {
  return { text: "", dynamic: true, splits, form, parts: [part] };
}

function variableMark(name: string): string {
  return `${MARK.variable}${name}${MARK.variable}`;
}

function substitution(runs: readonly SimpleCommand[], commands: string, quoted: boolean): Word {
  const form = `${MARK.substitution}0${MARK.substitution}`;
  return { ...expansion(!quoted, form, { commands, quoted }), runs: [runs] };
}

function append(word: Word, part: Word): void {
  const { runs = [] } = word;
  word.text += part.text;
  word.dynamic ||= part.dynamic;
  word.splits ||= part.splits;
  // A part has at most one substitution, or is a whole quoted text.
  word.form += part.form.replace(
    SUBSTITUTION,
    (_, index: string) => `${MARK.substitution}${Number(index) + runs.length}${MARK.substitution}`,
  );
  word.parts ??= [];
  for (const one of part.parts ?? []) addPart(word.parts, one);
  if (part.runs) word.runs = [...runs, ...part.runs];
}

function addPart(parts: Part[], part: Part): void {
  const last = parts.at(-1);
  if (last && "text" in last && "text" in part && last.quoted === part.quoted) last.text += part.text;
  else parts.push({ ...part });
}

/** A home folder: at the start of a word, or of a part of an assignment. */
function isTilde(char: string, before: string): boolean {
  return char === "~" && (before === "" || before.endsWith("=") || before.endsWith(":"));
}
