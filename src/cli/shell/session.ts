/** A session of the agent shell at a terminal: reads lines with history and completion, and runs each. */

import { readdirSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { messageOf } from "../../lib/error-detail.ts";
import { flagNameOf, optionsOf } from "../../options/option-list.ts";
import type { Receipt } from "../../protocol/methods.ts";
import { SessionState } from "../../shell/shell.ts";
import { EXIT } from "../exit.ts";
import type { Io } from "../io.ts";
import { History } from "../terminal/history.ts";
import { LineReader } from "./line-reader.ts";

/** Commands that are no programs. */
const COMMANDS = "call cat cd exit export false kill ps recall send set spawn true unset wait".split(" ");

/** One line, the state before it, and what gets its end; in the background, nothing waits for it. */
export interface SessionLine {
  line: string;
  state: SessionState | undefined;
  background: boolean;
  ended(receipt: Receipt): Promise<void>;
}

interface SessionOptions {
  /** The folder of the runs. */
  cwd: string;
  /** The file of past lines. */
  history: string;
  run(line: SessionLine): Promise<number>;
}

/** Reads and runs lines until `exit` or Ctrl-D; returns the exit code of the last one. */
export async function session(io: Io, { cwd, history: file, run }: SessionOptions): Promise<number> {
  const history = new History(file);
  const reader = new LineReader(io);
  const typed = history.load();
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
