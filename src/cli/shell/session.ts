/** A session of the agent shell at a terminal: reads lines with history and completion, and runs each. */

import { readdirSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { PassThrough, Writable } from "node:stream";
import { messageOf } from "../../lib/error-detail.ts";
import { flagNameOf, optionsOf } from "../../options/option-list.ts";
import { SyscallError } from "../../plugin/errors.ts";
import type { Receipt } from "../../protocol/methods.ts";
import { SessionState } from "../../shell/shell.ts";
import { EXIT } from "../exit.ts";
import type { Io, Terminal } from "../io.ts";
import { History } from "../terminal/history.ts";

/** Commands that are no programs. */
const COMMANDS = "call cat cd exit export false kill ps recall send set spawn true unset wait".split(" ");

interface SessionOptions {
  /** The folder of the runs. */
  cwd: string;
  /** The file of past lines. */
  history: string;
  /** Runs one line. In the background, nothing waits for it. */
  run(o: {
    line: string;
    /** Before the line. */
    state: SessionState | undefined;
    background: boolean;
    ended(receipt: Receipt): Promise<void>;
  }): Promise<number>;
}

/** Reads and runs lines until `exit` or Ctrl-D; returns the exit code of the last one. */
export async function session(io: Io, { cwd, history: file, run }: SessionOptions): Promise<number> {
  const history = new History(file);
  const reader = new LineReader(io);
  const typed = history.load();
  io.stderr.write(
    'spawn "…" runs an agent, any other word a program; exit leaves, rnix sh --help has the rest\n',
  );
  let state: SessionState | undefined;
  for (;;) {
    const folder = state?.folder || cwd;
    const complete = (before: string): string[] => suggestions(before, folder);
    const options = { history: typed.toReversed(), complete };
    let line = await reader.read({ ...options, prompt: `${basename(folder) || "/"} $ ` });
    while (line !== null && /(?:\\|\||&&)\s*$/.test(line)) {
      const more = await reader.read({ ...options, prompt: "> " });
      line = more === null || more === "" ? "" : `${line.replace(/\\\s*$/, "")} ${more}`;
    }
    if (line === null) {
      io.terminal()?.write("\r\n");
      return state?.status ?? EXIT.ok;
    }
    if (line.trim() === "") continue;
    typed.push(line);
    history.add(line);
    const background = /[^&]&\s*$/.test(line);
    const before = state;
    try {
      const code = await run({
        line: background ? line.replace(/&\s*$/, "") : line,
        state,
        background,
        async ended({ output }) {
          state = SessionState.safeParse(output).data ?? state;
        },
      });
      // A line that can't be read, or that was suspended, leaves the rest as it was.
      if (!background && state === before && state) state = { ...state, status: code };
    } catch (error) {
      io.stderr.write(`sh: ${messageOf(error)}\n`);
    }
    if (state?.exited) return state.status;
  }
}

/** Commands where one is expected, flags of `spawn`, else files. */
function suggestions(before: string, folder: string): string[] {
  const word = /\S*$/.exec(before)?.[0] ?? "";
  const beginning = before.slice(0, before.length - word.length);
  if (word.startsWith("-")) {
    if (!/\bspawn\b[^|;&]*$/.test(beginning)) return [];
    return optionsOf("spawn")
      .map((name) => `--${flagNameOf(name)} `)
      .filter((flag) => flag.startsWith(word));
  }
  const isFirst = /(?:^|[|;&(])\s*$/.test(beginning);
  const named = isFirst ? COMMANDS.filter((name) => name.startsWith(word)).map((name) => `${name} `) : [];
  return [...named, ...filesFor(word, folder)];
}

function filesFor(word: string, folder: string): string[] {
  const path = word.replace(/^[<>]+/, "");
  const within = path.endsWith("/") ? path : path.includes("/") ? `${dirname(path)}/` : "";
  const name = path.endsWith("/") ? "" : basename(path);
  try {
    return readdirSync(resolve(folder, within), { withFileTypes: true })
      .filter((entry) => entry.name.startsWith(name) && (name !== "" || !entry.name.startsWith(".")))
      .map((entry) => join(within, entry.name).replaceAll(" ", "\\ ") + (entry.isDirectory() ? "/" : " "));
  } catch {
    return []; // No folder, or none that may be read.
  }
}

interface LineOptions {
  prompt: string;
  /** The newest first. */
  history: readonly string[];
  /** What may stand in place of the last word of this text. */
  complete(before: string): string[];
}

/** What was typed or pasted behind a line is there for the next one. */
class LineReader {
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
    const output = new Screen(terminal);
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

  constructor(terminal: Terminal) {
    const write = (text: unknown, _encoding: BufferEncoding, done: () => void): void => {
      terminal.write(String(text));
      done();
    };
    super({ decodeStrings: false, write });
    this.columns = terminal.size().columns;
  }
}
