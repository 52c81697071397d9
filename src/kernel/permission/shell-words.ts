/** Parses a shell command line into simple commands. */

import { Lexer, NotUnderstood, type Token, type Word } from "./shell-lexer.ts";

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
