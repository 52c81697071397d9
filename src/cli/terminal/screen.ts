/**
 * Draws at the terminal: finished lines are printed once and stay in the scroll-back, and below them a live region is
 * redrawn in place. Nothing above the live region is touched, and the scroll-back is never cleared.
 */

import type { Clock, Timer } from "../../lib/clock.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Io, Terminal, TerminalSize } from "../io.ts";
import { ERASE_BELOW, FrameWriter } from "./frame-writer.ts";
import { TerminalGuard } from "./guard.ts";
import { Reflow, type Region } from "./reflow.ts";
import { safeLine } from "./safe-text.ts";
import { fit, withCursor, wrap } from "./width.ts";
import { WindowTitle } from "./window-title.ts";

/** What the live region shows: styled lines, each at most `columns` wide. Without `cursor` the cursor is hidden. */
export interface Frame {
  lines: readonly string[];
  cursor?: { row: number; column: number };
}

/** What the live region shows, asked at each redraw. */
export type View = (size: TerminalSize) => Frame;

/** Shortest time between two frames: at 33 ms the view of a usual answer takes a third more of a core. */
const FRAME_MS = 50;
/** Within this time after a terminal has changed its size, the new size is usually known here. */
const REPORT_MS = 150;
/**
 * While a window is dragged, nothing is drawn until its size stays: a frame that the terminal gets after it has changed
 * its size again would be counted wrong, and the next one would erase lines above the region.
 */
const RESIZED_MS = 80;
const MAX_RESIZING_MS = 1000;
/** Longer than tmux waits before it reports a new size. */
const SETTLE_MS = 300;

/** Another screen of the terminal, without a scroll-back; the one before comes back with all it showed. */
const FULL = "\u001b[?1049h\u001b[H\u001b[2J";
const FULL_END = "\u001b[?1049l";
const TOP = "\u001b[H\u001b[2J";

const SYNC = "\u001b[?2026h";
const SYNC_END = "\u001b[?2026l";
const HIDE_CURSOR = "\u001b[?25l";
const SHOW_CURSOR = "\u001b[?25h";

const NOTHING_SHOWN = { columns: 0, lines: [], shown: [] };

export class Screen {
  readonly #terminal: Terminal;
  readonly #clock: Clock;
  readonly #reflow: Reflow;
  readonly #stop: (() => void)[];
  #view: View = () => ({ lines: [] });
  #uncommitted: string[] = [];
  /** null: the cursor is at an unknown place of a line that is not ours. */
  #drawn: Region | null = null;
  /** The frames before, with the time at which the next one replaced them. */
  #recent: { region: Region; until: number }[] = [];
  #lastCommit = Number.NEGATIVE_INFINITY;
  #cursorShown = true;
  #timer: Timer | undefined;
  #settling: Timer | undefined;
  #lastShown: { columns: number; lines: readonly string[]; shown: readonly string[] } = NOTHING_SHOWN;
  #lastFrame = Number.NEGATIVE_INFINITY;
  /** When the size began to change, and until when nothing is drawn. */
  #resizing = { since: Number.NEGATIVE_INFINITY, until: Number.NEGATIVE_INFINITY };
  /** A redraw waits for the terminal to take data, or to answer a question. */
  #waiting = false;
  #lent = false;
  #closed = false;
  #closing: Promise<void> | undefined;
  readonly #title = new WindowTitle();
  /** The live region is the whole window, on a screen of its own. */
  readonly #isFull: boolean;

  private constructor(terminal: Terminal, env: Io["env"], clock: Clock, isFull: boolean) {
    this.#isFull = isFull;
    this.#terminal = terminal;
    this.#clock = clock;
    this.#reflow = new Reflow(terminal, env, clock);
    const guard = TerminalGuard.of(terminal);
    this.#stop = [
      terminal.onResize(() => this.#resized()),
      guard.add({ restore: () => this.#giveBack(), renew: () => this.#takeAgain() }),
    ];
  }

  /** Fails with INVALID when stdout or stderr is not a terminal. */
  static open(
    io: Pick<Io, "terminal" | "env">,
    { clock, full = false }: { clock: Clock; full?: boolean },
  ): Screen {
    const terminal = io.terminal();
    if (terminal === null)
      throw new SyscallError("INVALID", "the screen needs stdout and stderr at a terminal");
    return new Screen(terminal, io.env, clock, full);
  }

  get columns(): number {
    return this.#terminal.size().columns;
  }

  get rows(): number {
    return this.#terminal.size().rows;
  }

  /** Prints lines once, above the live region. Lines that are too wide are wrapped. */
  commit(lines: readonly string[]): void {
    if (this.#closed || this.#terminal.closed || lines.length === 0) return;
    this.#uncommitted.push(...lines);
    this.redraw();
  }

  /** Sets what the live region shows. It is called at each redraw. */
  show(view: View): void {
    this.#view = view;
    this.redraw();
  }

  /** Draws soon: at once, but at most every 50 ms. */
  redraw(): void {
    if (this.#closed || this.#lent || this.#timer !== undefined) return;
    const next = Math.max(this.#lastFrame + FRAME_MS, this.#resizing.until);
    const wait = Math.max(0, next - this.#clock.monotonic());
    if (wait === 0) this.#drawNext();
    else this.#timer = this.#clock.timer(wait, () => this.#timed());
  }

  #resized(): void {
    const now = this.#clock.monotonic();
    const since = now > this.#resizing.until ? now : this.#resizing.since;
    this.#resizing = { since, until: Math.min(now + RESIZED_MS, since + MAX_RESIZING_MS) };
    this.#cancelTimers();
    this.redraw();
  }

  /** After what runs now, but before the command loads anything else. */
  #drawNext(): void {
    const timer = { cancel: () => undefined };
    this.#timer = timer;
    queueMicrotask(() => {
      // Cancelled timers are forgotten.
      if (this.#timer === timer) this.#timed();
    });
  }

  #timed(): void {
    this.#timer = undefined;
    this.#draw();
  }

  /** Sets the window's title, with the next frame; null restores the one before. */
  title(text: string | null): void {
    if (this.#title.want(text)) this.redraw();
  }

  /** Gives the terminal to another program, such as an editor, while `work` runs. */
  suspendFor<T>(work: () => Promise<T>): Promise<T> {
    return TerminalGuard.of(this.#terminal).lend(work);
  }

  /** Erases the live region, commits `last` and restores the terminal. Safe twice. */
  close(last: readonly string[] = []): Promise<void> {
    this.#closing ??= this.#close(last);
    return this.#closing;
  }

  async #close(last: readonly string[]): Promise<void> {
    this.#uncommitted.push(...last);
    this.#view = () => ({ lines: [] });
    if (!this.#lent) {
      if (!this.#isFull) await this.#reflow.known(this.#terminal.size(), this.#drawn);
      this.#draw({ must: true });
      this.#terminal.write(this.#modesEnd());
    }
    this.#end();
    await this.#terminal.drained();
  }

  #end(): void {
    this.#closed = true;
    this.#cancelTimers();
    for (const stop of this.#stop) stop();
  }

  #cancelTimers(): void {
    this.#settling?.cancel();
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** For the guard: erases the live region and restores the terminal. */
  #giveBack(): string {
    this.#lent = true;
    this.#cancelTimers();
    const frame = new FrameWriter();
    if (this.#isFull) {
      const text = this.#modesEnd();
      this.#drawn = null;
      return text;
    }
    if (this.#drawn !== null) frame.toTop(this.#rowsAbove(this.#drawn, this.#terminal.size()));
    this.#takeUncommitted(frame, this.#terminal.size());
    if (this.#drawn !== null) frame.add(ERASE_BELOW);
    this.#drawn = null;
    return frame.text() + this.#modesEnd();
  }

  #takeAgain(): void {
    this.#lent = false;
    this.#drawn = null;
    this.redraw();
  }

  #modesEnd(): string {
    const cursor = this.#cursorShown ? "" : SHOW_CURSOR;
    this.#cursorShown = true;
    return cursor + this.#title.restore() + (this.#isFull && this.#drawn !== null ? FULL_END : "");
  }

  #draw({ must = false, settle = false } = {}): void {
    if (this.#lent || this.#terminal.closed) return;
    if (!must && this.#mustWait()) return;
    const size = this.#terminal.size();
    const { lines, cursor } = this.#withCursor(this.#frame(size), settle);
    const frame = new FrameWriter();
    const before = this.#regionTop(frame, size);
    const commits = this.#takeUncommitted(frame, size);
    if (commits) this.#lastCommit = this.#clock.monotonic();
    const left = commits ? [] : before;
    frame.region(left, lines);
    this.#terminal.write(this.#title.change());
    if (frame.isEmpty && this.#isCursorAt(cursor)) return;
    frame.park(cursor);
    this.#write(frame.text(), cursor !== undefined);
    const { row, column } = cursor ?? { row: 0, column: 0 };
    const now = this.#clock.monotonic();
    this.#recent = this.#recent.filter(({ until }) => until > now - REPORT_MS);
    if (this.#drawn !== null) this.#recent.push({ region: this.#drawn, until: now });
    this.#drawn = { lines, row, column, below: frame.exist - Math.max(1, lines.length), size };
    this.#lastFrame = this.#clock.monotonic();
  }

  /**
   * Where the size comes late, a frame may be drawn on rows that the terminal has already wrapped again. It does no harm
   * if the cursor is at the region's top. So the region shows a cursor of its own there, until nothing changes for a
   * moment; then the terminal's takes its place, which input methods need.
   */
  #withCursor({ lines, cursor }: Frame, settle: boolean): Frame {
    this.#settling?.cancel();
    if (cursor === undefined || this.#isFull || !this.#reflow.sizeComesLate || settle)
      return { lines, cursor };
    if (this.#isCursorAt(cursor) && sameLines(lines, this.#drawn?.lines)) return { lines, cursor };
    this.#settling = this.#clock.timer(SETTLE_MS, () => this.#draw({ settle: true }));
    return { lines: lines.map((line, row) => (row === cursor.row ? withCursor(line, cursor.column) : line)) };
  }

  /** A stopped terminal gets no frames, and a resized one may have to say how it wraps lines. */
  #mustWait(): boolean {
    if (this.#waiting) return true;
    const until = this.#terminal.isBehind
      ? this.#terminal.drained()
      : this.#isFull
        ? null
        : this.#reflow.known(this.#terminal.size(), this.#drawn);
    if (until === null) return false;
    this.#waiting = true;
    until.then(() => {
      this.#waiting = false;
      this.redraw();
    });
    return true;
  }

  /** The view's frame, made safe and cut to the size. */
  #frame(size: TerminalSize): Frame {
    const { lines, cursor } = this.#view(size);
    const most = Math.max(1, this.#isFull ? size.rows : size.rows - 1);
    const skipped = Math.max(0, lines.length - most);
    const shown = this.#shown(lines.slice(skipped), size.columns);
    const row = (cursor?.row ?? -1) - skipped;
    if (cursor === undefined || row < 0 || row >= shown.length) return { lines: shown };
    const column = Math.max(0, Math.min(cursor.column, size.columns - 1));
    return { lines: shown, cursor: { row, column } };
  }

  /** The lines made safe and cut. Most are those of the last frame. */
  #shown(lines: readonly string[], columns: number): string[] {
    const last = this.#lastShown;
    const shown = lines.map((line, row) =>
      last.columns === columns && last.lines[row] === line
        ? (last.shown[row] ?? "")
        : fit(safeLine(line), columns),
    );
    this.#lastShown = { columns, lines, shown };
    return shown;
  }

  /** Moves to the top of the region. Returns what is drawn there now. */
  #regionTop(frame: FrameWriter, size: TerminalSize): readonly string[] {
    const drawn = this.#drawn;
    if (this.#isFull && (drawn === null || isResized(drawn, size))) {
      frame.add(drawn === null ? FULL : TOP);
      return [];
    }
    if (drawn === null) {
      frame.startLine(size.columns);
      return [];
    }
    if (!isResized(drawn, size)) {
      frame.at(drawn.row, Math.max(1, drawn.lines.length) + drawn.below);
      return drawn.lines;
    }
    frame.toTop(this.#rowsAbove(drawn, size));
    frame.add(ERASE_BELOW);
    return [];
  }

  #rowsAbove(drawn: Region, size: TerminalSize): number {
    const { since: reported } = this.#resizing;
    const since = (this.#lastFrame < reported ? reported : this.#clock.monotonic()) - REPORT_MS;
    // Behind committed lines there is no old frame that could be erased instead of them.
    if (this.#lastCommit > since) return drawn.row;
    const recent = this.#recent.filter(({ until }) => until > since).map(({ region }) => region);
    return this.#reflow.rowsAbove(drawn, size, recent);
  }

  /** Prints the committed lines from the region's top on. Returns false when there are none. */
  #takeUncommitted(frame: FrameWriter, size: TerminalSize): boolean {
    const lines = this.#uncommitted;
    if (lines.length === 0) return false;
    this.#uncommitted = [];
    frame.commit(
      lines.flatMap((line) => line.split("\n")).flatMap((line) => wrap(safeLine(line), size.columns)),
    );
    return true;
  }

  #isCursorAt(cursor: Frame["cursor"]): boolean {
    const drawn = this.#drawn;
    if (drawn === null || this.#cursorShown !== (cursor !== undefined)) return false;
    return drawn.row === (cursor?.row ?? 0) && drawn.column === (cursor?.column ?? 0);
  }

  #write(text: string, cursor: boolean): void {
    const before = this.#cursorShown ? HIDE_CURSOR : "";
    this.#cursorShown = cursor;
    this.#terminal.write(SYNC + before + text + (cursor ? SHOW_CURSOR : "") + SYNC_END);
  }
}

function isResized({ size: before }: Region, size: TerminalSize): boolean {
  return before.columns !== size.columns || before.rows !== size.rows;
}

function sameLines(one: readonly string[], other: readonly string[] | undefined): boolean {
  return one.length === other?.length && one.every((line, at) => line === other[at]);
}
