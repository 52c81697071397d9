/** Knows where the live region is after a resize: some terminals wrap long lines to the new width, others cut them. */

import type { Clock } from "../../lib/clock.ts";
import type { Io, Terminal, TerminalSize } from "../io.ts";
import { askTerminal, canAsk } from "./replies.ts";
import { rowsOf } from "./width.ts";

/**
 * What a terminal does with lines that are wider than its new width. `cuts`: they stay on their row. `wraps`: they take
 * more rows, and the cursor stays at its character. `xterm.js`: as `wraps`, but one line is spared, and the cursor moves
 * down for all lines, also for those below it.
 */
type Kind = "cuts" | "wraps" | "xterm.js";

/** The live region as it was drawn, and where the cursor is in it. */
export interface Region {
  lines: readonly string[];
  row: number;
  column: number;
  /** Empty rows that are known to be below it. */
  below: number;
  size: TerminalSize;
}

/** The terminal's name and version, then what kind of terminal it says it is: nearly all answer the second. */
const WHO_ARE_YOU = "\u001b[>0q\u001b[>c";
const ANSWER_MS = 250;

export class Reflow {
  readonly #terminal: Terminal;
  readonly #env: Io["env"];
  readonly #clock: Clock;
  #kind: Kind | undefined;

  constructor(terminal: Terminal, env: Io["env"], clock: Clock) {
    this.#terminal = terminal;
    this.#env = env;
    this.#clock = clock;
  }

  /** The terminal changes its screen some time before it reports the new size. */
  get sizeComesLate(): boolean {
    const { TMUX, TERM = "", TERM_PROGRAM = "" } = this.#env;
    return Boolean(TMUX) || /^(?:tmux|screen)/.test(TERM) || /^(?:tmux|vscode)$/.test(TERM_PROGRAM);
  }

  /** A promise when the terminal must be asked what it did with the region; null when `rowsAbove` is certain. */
  known(size: TerminalSize, region: Region | null): Promise<void> | null {
    if (this.#kind !== undefined || region === null) return null;
    const kinds: Kind[] = ["cuts", "wraps", "xterm.js"];
    const answers = new Set(kinds.map((kind) => rowsAbove(kind, region, size)));
    if (answers.size === 1) return null;
    if (!canAsk(this.#terminal)) {
      this.#kind = kindByEnvironment(this.#env);
      return null;
    }
    return askTerminal(this.#terminal, WHO_ARE_YOU, { clock: this.#clock, ms: ANSWER_MS }).then((reply) => {
      this.#kind = kindByReply(reply) ?? kindByEnvironment(this.#env);
    });
  }

  /**
   * Rows from the region's top to the cursor after a resize. `recent` are the frames before: each may have been the last
   * that was drawn before the terminal wrapped its lines, and the later ones are then already where they belong. The
   * least is right, or leaves rows of an old frame; more would erase lines above the region.
   */
  rowsAbove(region: Region, size: TerminalSize, recent: readonly Region[]): number {
    const kind = this.#kind ?? kindByEnvironment(this.#env);
    const extra = [region, ...recent].map((one) => rowsAbove(kind, one, size) - one.row);
    return region.row + Math.min(...extra);
  }
}

function rowsAbove(kind: Kind, region: Region, size: TerminalSize): number {
  const { lines, row, column } = region;
  const { columns } = size;
  if (kind === "cuts" || columns >= region.size.columns) return row;
  if (kind === "xterm.js") return row + insertedByXterm(region, size);
  const above = lines.slice(0, row).reduce((rows, line) => rows + rowsOf(line, columns), 0);
  return above + Math.floor(column / columns);
}

/**
 * Rows that xterm.js inserts in the region. It goes from the last line up and moves its cursor at each insertion, so the
 * line that it spares as the cursor's own is the one that the cursor has come to.
 */
function insertedByXterm(
  { lines, row, below, size: before }: Region,
  { columns, rows }: TerminalSize,
): number {
  // A lower terminal first drops rows below the cursor.
  const lost = Math.min(Math.max(0, before.rows - rows), lines.length - 1 - row + below);
  let cursor = row;
  for (let at = lines.length - 1 - Math.max(0, lost - below); at >= 0; at--) {
    if (at !== cursor) cursor += rowsOf(lines[at] ?? "", columns) - 1;
  }
  return cursor - row;
}

function kindByReply(reply: string): Kind | undefined {
  if (/\|xterm\.js/i.test(reply) || /\[>0;276;/.test(reply)) return "xterm.js";
  // xterm, GNU screen, PuTTY.
  if (/\|XTerm\(/.test(reply) || /\[>(?:41|83);/.test(reply) || /\[>0;136;/.test(reply)) return "cuts";
  return reply === "" ? undefined : "wraps";
}

/** A wrong "cuts" leaves some rows of an old frame; a wrong "wraps" would erase what is above the region. */
function kindByEnvironment(env: Io["env"]): Kind {
  if (env.TMUX) return "wraps";
  if (env.TERM === "linux" || env.STY) return "cuts";
  if (env.TERM_PROGRAM === "vscode") return "xterm.js";
  const wraps = ["VTE_VERSION", "KITTY_WINDOW_ID", "WT_SESSION", "WEZTERM_PANE", "ALACRITTY_WINDOW_ID"];
  if (wraps.some((name) => env[name])) return "wraps";
  return /^(?:iTerm|Apple_Terminal|ghostty|WezTerm)/.test(env.TERM_PROGRAM ?? "") ? "wraps" : "cuts";
}
