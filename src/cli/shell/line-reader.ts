/** Reads one line at the terminal, with editing, history and completion. */

import { PassThrough, Writable } from "node:stream";
import { SyscallError } from "../../plugin/errors.ts";
import type { Io, Terminal } from "../io.ts";

interface LineOptions {
  prompt: string;
  /** The newest first. */
  history: readonly string[];
  /** What may stand in place of the last word of this text. */
  complete(before: string): string[];
}

/** What was typed or pasted behind a line is there for the next one. */
export class LineReader {
  readonly #io: Io;
  /** Whole lines, and the beginning of one. */
  #lines: string[] = [];
  #rest = "";
  #hasEnded = false;

  constructor(io: Io) {
    this.#io = io;
  }

  /** null: the end of the input, Ctrl-D on an empty line. Ctrl-C gives an empty line. */
  async read(o: LineOptions): Promise<string | null> {
    const terminal = this.#io.terminal();
    if (!terminal) throw new SyscallError("UNAVAILABLE", "the terminal can't be read");
    if (this.#lines.length === 0 && !this.#hasEnded) await this.#type(terminal, o);
    else terminal.write(`${o.prompt}${this.#lines[0] ?? ""}\r\n`);
    return this.#lines.shift() ?? null;
  }

  /** Reads keys until there is a line, or the end. */
  async #type(terminal: Terminal, o: LineOptions): Promise<void> {
    const { createInterface } = await import("node:readline");
    const input = new PassThrough();
    const keys = terminal.readKeys((bytes) => input.write(bytes));
    const output = new Screen((text) => terminal.write(text), terminal.size().columns);
    const completer = (before: string): [string[], string] => [
      o.complete(before),
      /\S*$/.exec(before)?.[0] ?? "",
    ];
    const given = { prompt: o.prompt, history: [...o.history], completer };
    const lines = createInterface({ input, output, terminal: true, ...given });
    const done = Promise.withResolvers<void>();
    const add = (line: string): void => {
      this.#lines.push(line);
      done.resolve();
    };
    lines.on("line", add);
    lines.on("close", () => {
      this.#hasEnded = true;
      done.resolve();
    });
    lines.on("SIGINT", () => {
      lines.write(null, { ctrl: true, name: "e" });
      lines.write(null, { ctrl: true, name: "u" });
      terminal.write("^C\r\n");
      add("");
    });
    const forget = terminal.onResize(() => {
      output.columns = terminal.size().columns;
    });
    try {
      if (keys === null) return lines.close();
      lines.prompt();
      lines.write(this.#rest);
      await done.promise;
    } finally {
      forget();
      this.#rest = lines.line;
      lines.removeAllListeners("close");
      lines.close();
      keys?.close();
    }
  }
}

/** The terminal, as the library wants it. */
class Screen extends Writable {
  readonly isTTY = true;
  columns: number;
  readonly #write: (text: string) => void;

  constructor(write: (text: string) => void, columns: number) {
    super({ decodeStrings: false });
    this.columns = columns;
    this.#write = write;
  }

  override _write(text: unknown, _encoding: BufferEncoding, done: () => void): void {
    this.#write(String(text));
    done();
  }
}
