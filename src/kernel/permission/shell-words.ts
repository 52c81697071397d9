/** Parses a shell command line into simple commands. */

/** One word of a command as the shell passes it to the program, without quotes. */
export interface Word {
  text: string;
  /** The shell expands it to an unknown text: a variable, a glob, braces, `~`. */
  dynamic: boolean;
  /** It may expand to no argument or to several: an unquoted expansion, or `"$@"`. */
  splits: boolean;
}

/** One program that the line runs. */
export interface SimpleCommand {
  words: Word[];
  /** Begins with assignments, `FOO=x git …`: they can change what the name runs. */
  assigns: boolean;
  /** The texts of assignments, `FOO=x`. */
  assignments: string[];
  /** Its output goes to a file (`>`, `>>`, `&>`, `<>`). /dev/null and other descriptors do not count. */
  writes: boolean;
  /** It reads a file by `<`. */
  reads: boolean;
}

const MAX_LINE = 100_000;
const MAX_DEPTH = 100;

/**
 * Returns all simple commands of a line, or null when some part is not supported. It must find every command that any
 * POSIX shell would run. Lists, pipes, groups and subshells are supported. Command and process substitution,
 * here-documents, compound commands, functions and `${…}` beyond a plain name are not.
 */
export function parseCommandLine(line: string): SimpleCommand[] | null {
  if (line.length > MAX_LINE || hasControl(line)) return null;
  try {
    return new Parser(new Lexer(line)).parse();
  } catch (thrown) {
    if (thrown instanceof NotUnderstood) return null;
    throw thrown;
  }
}

/** Control characters. Only tab and newline belong in a command line; the others hide its content. */
function hasControl(line: string): boolean {
  for (let i = 0; i < line.length; i++) {
    const unit = line.charCodeAt(i);
    if ((unit < 0x20 && unit !== 0x09 && unit !== 0x0a) || unit === 0x7f) return true;
  }
  return false;
}

class NotUnderstood extends Error {}

type Token =
  | { kind: "word"; word: Word; quoted: boolean; assignment: boolean }
  | { kind: "separator" }
  /** `&` directly before `>`: bash redirects both streams, dash ends the command and redirects. */
  | { kind: "both" }
  | { kind: "open" | "close" }
  | { kind: "redirect"; operator: string }
  | { kind: "end" };

/** Words that start or continue a compound command where a command's name is expected. */
const RESERVED = new Set(
  "if then else elif fi do done case esac while until for select function coproc in [[ ]]".split(" "),
);

/** Assembles tokens into commands. */
class Parser {
  readonly #lexer: Lexer;
  readonly #commands: SimpleCommand[] = [];
  /** The closing tokens of open groups. */
  readonly #open: ("(" | "{")[] = [];

  constructor(lexer: Lexer) {
    this.#lexer = lexer;
  }

  parse(): SimpleCommand[] {
    while (this.#command()) {
      // Each call reads one command and the separator after it.
    }
    if (this.#open.length > 0) throw new NotUnderstood();
    return this.#commands;
  }

  /** Reads up to and with the next separator. False at the end of the line. */
  #command(): boolean {
    const command: SimpleCommand = {
      words: [],
      assigns: false,
      assignments: [],
      writes: false,
      reads: false,
    };
    /** After `)`, `}` or `&>`: only redirections may follow. */
    let closed = false;
    for (;;) {
      const token = this.#lexer.next();
      const empty = command.words.length === 0 && !command.assigns;
      switch (token.kind) {
        case "end":
          this.#finish(command);
          return false;
        case "separator":
          this.#finish(command);
          return true;
        case "open":
          if (!empty || closed || command.writes || command.reads) throw new NotUnderstood();
          this.#enter("(");
          break;
        case "close":
          this.#finish(command);
          this.#leave("(");
          command.words = [];
          command.assignments = [];
          command.assigns = command.writes = command.reads = false;
          closed = true;
          break;
        case "redirect":
          this.#redirect(command, token.operator);
          break;
        case "both":
          // A word after the file belongs to this command in bash, and is a command in dash.
          closed = true;
          break;
        case "word":
          if (closed) throw new NotUnderstood();
          if (command.words.length > 0) command.words.push(token.word);
          else if (token.assignment) {
            command.assigns = true;
            command.assignments.push(token.word.text);
          } else closed = this.#first(command, token);
          break;
      }
    }
  }

  /** Reads a word where a command's name is expected. Returns true when it closed a group. */
  #first(command: SimpleCommand, token: Token & { kind: "word" }): boolean {
    const { text } = token.word;
    if (token.quoted) {
      command.words.push(token.word);
      return false;
    }
    if (text === "!" && !command.assigns) return false; // Only negates the exit status.
    if (text === "{" && !command.assigns) {
      this.#enter("{");
      return false;
    }
    if (text === "}" && !command.assigns) {
      this.#leave("{");
      return true;
    }
    if (RESERVED.has(text)) throw new NotUnderstood();
    command.words.push(token.word);
    return false;
  }

  #redirect(command: SimpleCommand, operator: string): void {
    const target = this.#lexer.next();
    if (target.kind !== "word") throw new NotUnderstood();
    const { text, dynamic } = target.word;
    if (/^\/dev\/(?:tcp|udp)\b/.test(text)) throw new NotUnderstood(); // bash opens a connection.
    const known = !dynamic && !target.quoted;
    if (known && text === "/dev/null") return;
    const duplicates = operator === ">&" || operator === "<&";
    if (duplicates && known && /^(?:[0-9]+|-)$/.test(text)) return;
    if (duplicates && (dynamic || /[$`]/.test(text))) throw new NotUnderstood(); // bash expands it twice, quoted or not.
    if (operator === "<") command.reads = true;
    else command.writes = true;
  }

  #finish(command: SimpleCommand): void {
    const { words, assigns, writes, reads } = command;
    if (words.length > 0 || assigns || writes || reads) this.#commands.push({ ...command });
  }

  #enter(bracket: "(" | "{"): void {
    this.#open.push(bracket);
    if (this.#open.length > MAX_DEPTH) throw new NotUnderstood();
  }

  #leave(bracket: "(" | "{"): void {
    if (this.#open.pop() !== bracket) throw new NotUnderstood();
  }
}

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
class Lexer {
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
    let text = "";
    let dynamic = false;
    let splits = false;
    let quoted = false;
    const start = this.#at;
    for (;;) {
      const char = this.#line[this.#at];
      if (char === undefined || META.includes(char)) break;
      this.#at++;
      if (char === "'") {
        quoted = true;
        text += this.#singleQuoted();
      } else if (char === '"') {
        quoted = true;
        const part = this.#doubleQuoted();
        text += part.text;
        dynamic ||= part.dynamic;
        splits ||= part.splits;
      } else if (char === "\\") {
        const next = this.#take();
        if (next !== "\n") {
          quoted = true;
          text += next;
        }
      } else if (char === "`") {
        throw new NotUnderstood();
      } else if (char === "$") {
        const part = this.#dollar(false);
        text += part.text;
        dynamic ||= part.dynamic;
        splits ||= part.splits;
      } else {
        const expands = (EXPANDS.includes(char) && !this.#isAlone(start)) || isTilde(char, text);
        dynamic ||= expands;
        splits ||= expands;
        text += char;
      }
    }
    return this.#finishWord(start, { text, dynamic, splits }, quoted);
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
    let text = "";
    let dynamic = false;
    let splits = false;
    for (;;) {
      const char = this.#take();
      if (char === '"') return { text, dynamic, splits };
      if (char === "`") throw new NotUnderstood();
      if (char === "\\") {
        const next = this.#take();
        if (next !== "\n") text += '$`"\\'.includes(next) ? next : `\\${next}`;
      } else if (char === "$") {
        const part = this.#dollar(true);
        text += part.text;
        dynamic ||= part.dynamic;
        splits ||= part.splits;
      } else {
        text += char;
      }
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

/** A home folder: at the start of a word, or of a part of an assignment. */
function isTilde(char: string, before: string): boolean {
  return char === "~" && (before === "" || before.endsWith("=") || before.endsWith(":"));
}
