/** The live view of a run at a terminal: finished parts stay above, and what happens now is redrawn below them. */

import { matchesKey } from "@earendil-works/pi-tui/dist/keys.js";
import { realClock } from "../../lib/clock.ts";
import type { AskUser, Receipt, StreamEvent } from "../../protocol/methods.ts";
import type { Io, Output, TerminalSize } from "../io.ts";
import { oneLine } from "../output/format.ts";
import type { InputSlot, RunOutput, SendAnswer } from "../output/run-output.ts";
import { closedLine, unansweredText } from "../questions/question-text.ts";
import { RunState } from "../transcript/run-state.ts";
import type { Change } from "../transcript/transcript.ts";
import { endLines, resumeLine } from "./blocks/end.ts";
import { liveLines } from "./blocks/live.ts";
import { Keyboard } from "./keyboard.ts";
import { type Look, lookOf } from "./look.ts";
import { QuestionPanel } from "./questions/question-panel.ts";
import { ReadingPace } from "./reading-pace.ts";
import { type Frame, Screen } from "./screen.ts";
import { TranscriptPrinter } from "./transcript-printer.ts";

const FRAME_MS = 100;
const TITLE_WIDTH = 60;

export interface LiveOptions {
  /** The command that resumes a run, as the user would type it here. undefined: it is not resumed. */
  resume?(uuid: string, exitCode: number): string | undefined;
  /** What the status line says of keys, the most important first. */
  keys: readonly string[];
  /** Ctrl-D leaves the run: it continues in the daemon. */
  canLeave?: boolean;
  /** The folder and the branch, for the footer. */
  place?(): string;
  /** Any key shows the rest at once. */
  atReadingPace?: boolean;
}

export function openLiveView(io: Io, o: LiveOptions): LiveView {
  return new LiveView(io, Screen.open(io, { clock: realClock }), o);
}

/** The part of a screen that one view uses. */
export type RunScreen = Pick<
  Screen,
  "columns" | "rows" | "commit" | "show" | "redraw" | "title" | "suspendFor" | "close"
>;

export class LiveView implements RunOutput, InputSlot {
  readonly io: Io;
  readonly state: RunState;
  readonly look: Look;
  below: InputSlot["below"] = null;
  /** Takes the keys that are not the view's. */
  unused: InputSlot["unused"] = null;
  filter: InputSlot["filter"] = null;
  /** Esc at a question: it is refused, and the user wants to say something else. */
  onInterrupt: (() => void) | null = null;
  #asks: QuestionPanel | null = null;
  /** The id of the terminal's own question. */
  #own = "";
  readonly #screen: RunScreen;
  readonly #transcript: TranscriptPrinter;
  readonly #o: LiveOptions;
  readonly #pace: ReadingPace | null;
  readonly #stopListening: () => void;
  readonly #left = Promise.withResolvers<null>();
  #keyboard: Keyboard | null = null;
  #timer: { cancel(): void } | null = null;
  #closed = false;
  readonly #stderr: Output;
  /** Printed last. */
  #resumeLine = "";

  constructor(io: Io, screen: RunScreen, o: LiveOptions) {
    this.io = { ...io, stderr: this.#above(io.stderr) };
    this.#stderr = io.stderr;
    this.#screen = screen;
    this.#o = o;
    this.#pace = o.atReadingPace ? new ReadingPace(realClock) : null;
    this.#stopListening = io.onSignal("SIGINT", () => this.#pace?.hurry());
    this.look = lookOf(io);
    this.#transcript = new TranscriptPrinter(screen, this.look);
    this.state = new RunState(realClock.now(), { isPlayed: o.atReadingPace === true });
    screen.show((size) => this.#frame(size));
    screen.title(this.#title());
    this.#tick();
  }

  /** stderr while the view is open: its lines go above the live region. */
  #above(output: Output): Output {
    return {
      isTTY: true,
      get columns() {
        return output.columns;
      },
      get closed() {
        return output.closed;
      },
      write: (text) => this.say(text.replace(/\n$/, "")),
      writeBytes: (bytes) => output.writeBytes(bytes),
      drained: () => output.drained(),
    };
  }

  get slot(): InputSlot {
    return this;
  }

  get rows(): number {
    return this.#screen.rows;
  }

  redraw(): void {
    this.#screen.redraw();
  }

  get left(): Promise<null> {
    return this.#left.promise;
  }

  lend<T>(work: () => Promise<T>): Promise<T> {
    return this.#screen.suspendFor(work);
  }

  paced(events: AsyncIterable<StreamEvent>): AsyncIterable<StreamEvent> {
    return this.#pace?.play(events) ?? events;
  }

  listen(): void {
    const paste = (text: string): void => {
      if (!this.questionPaste(text)) this.unused?.paste(text);
    };
    const key = (data: string): void => {
      if (!this.questionKey(data) && !this.key(data)) this.unused?.key(data);
    };
    this.#keyboard ??= Keyboard.open(this.io, { key, paste });
  }

  /** Asks the run's questions in the place of the input line. */
  answerWith(send: SendAnswer): void {
    this.#asks = new QuestionPanel({
      send,
      now: () => realClock.now(),
      say: (line) => this.say(line),
      interrupt: () => this.onInterrupt?.(),
      holdsText: () => this.unused?.isEmpty === false,
      type: (key) => this.unused?.key(key),
    });
  }

  /** Asks a question of the terminal itself in the same place; null: no longer. */
  ownQuestion(question: AskUser | null): void {
    if (question !== null) this.#asks?.ask(question);
    else this.#asks?.over({ pid: 0, uuid: "", request_id: this.#own, verdict: null, by: null });
    this.#own = question?.request_id ?? "";
    this.#screen.redraw();
  }

  /** Gives a key to the question that is shown, if it takes one. Call it first with every key. */
  questionKey(data: string): boolean {
    return this.#taken(this.#asks?.key(data));
  }

  questionPaste(text: string): boolean {
    return this.#taken(this.#asks?.paste(text));
  }

  #taken(isTaken = false): boolean {
    if (isTaken) this.#screen.redraw();
    return isTaken;
  }

  /** Handles a key of the view. Returns whether it was one. */
  key(data: string): boolean {
    this.#pace?.hurry();
    if (matchesKey(data, "ctrl+o")) {
      this.#transcript.toggleFull();
      this.#screen.redraw();
    } else if (matchesKey(data, "ctrl+d") && this.#o.canLeave && this.unused?.isEmpty !== false)
      this.#left.resolve(null);
    else return false;
    return true;
  }

  show(event: StreamEvent): void {
    this.#question(event);
    for (const shown of this.filter?.(event) ?? [event])
      for (const change of this.state.apply(shown, realClock.now())) this.#add(change);
    this.#screen.title(this.#title());
    this.#screen.redraw();
  }

  #question(event: StreamEvent): void {
    if (event.type === "ask_closed") {
      const isShown = this.#asks?.over(event.payload) ?? false;
      if (!isShown) this.say(closedLine(event.payload, this.look));
    }
    if (event.type !== "ask_user") return;
    if (this.#asks) this.#asks.ask(event.payload);
    else this.say(unansweredText(event.payload, this.#screen.columns));
  }

  say(line: string): void {
    this.#transcript.say(line);
  }

  notice(text: string): void {
    for (const change of this.state.notice(text, realClock.now())) this.#add(change);
  }

  warn(text: string): void {
    this.notice(text);
    this.state.known(text);
  }

  /** Ends the live region. What was shown stays. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#timer?.cancel();
    this.#stopListening();
    this.#transcript.endAnswer();
    this.#keyboard?.close();
    this.#screen.title(null);
    await this.#screen.close();
    // Not by the screen, which would break a long command into lines.
    this.#stderr.write(this.#resumeLine);
  }

  #tick(): void {
    this.#timer = realClock.timer(FRAME_MS, () => {
      // Nothing moves while the run waits for the user.
      if (this.state.activity?.kind !== "input") this.#screen.redraw();
      this.#tick();
    });
  }

  #add(change: Change): void {
    if (change.type !== "block") this.#transcript.add(change);
    else if (change.block.kind === "end") this.#end(change.block.receipt);
    else this.#transcript.add({ type: "block", block: change.block });
  }

  #end(receipt: Receipt): void {
    const { columns } = this.#screen;
    const command = this.#o.resume?.(receipt.uuid, receipt.exit_code);
    // In a conversation the next message resumes it.
    if (command === undefined && this.below !== null && receipt.exit_reason === "suspended") return;
    this.#transcript.print(endLines(receipt, columns, this.look), { isBrief: false });
    if (command !== undefined) this.#resumeLine = `${resumeLine(receipt, command, columns, this.look)}\n`;
  }

  #frame({ columns, rows }: TerminalSize): Frame {
    const room = { columns, rows: Math.max(1, rows - 3) };
    const asked = this.#asks?.lines(room, this.look) ?? [];
    const input = this.#asks?.takesInput
      ? { lines: this.below?.foot?.(columns) ?? [] }
      : this.below?.frame({ ...room, rows: Math.max(1, room.rows - asked.length) });
    const below = asked.length === 0 ? input : under(asked, input);
    const lines = liveLines(
      this.state,
      {
        columns,
        // The screen shows one line less than it has rows: it would cut the status line.
        rows: rows - 1 - (below?.lines.length ?? 0),
        now: realClock.now(),
        full: this.#transcript.isFull,
        isReady: below !== undefined && this.state.activity?.kind === "input",
        hints: [
          ...this.#o.keys,
          ...(this.#transcript.isFull ? ["ctrl-o: short"] : this.#transcript.hasMore ? ["ctrl-o: more"] : []),
        ],
        place: this.#o.place?.(),
        isBelowText: this.#transcript.needsGap(this.state.thought !== null),
        answer: (most) => this.#transcript.answerRest(columns, most),
      },
      this.look,
    );
    if (below === undefined) return { lines };
    const cursor = below.cursor && { ...below.cursor, row: below.cursor.row + lines.length };
    return { lines: [...lines, ...below.lines], cursor };
  }

  /** What a tab of the terminal shows: the state first, because a tab is narrow. */
  #title(): string {
    const { head, activity, receipt } = this.state;
    const isReady = receipt !== null || activity?.kind === "input";
    const asks = activity?.kind === "ask" || (this.#asks?.size ?? 0) > 0;
    const state = isReady ? "ready" : asks ? "action required" : "working";
    const intent = oneLine(head?.intent ?? "", TITLE_WIDTH);
    return intent === "" ? `rnix: ${state}` : `rnix: ${state} - ${intent}`;
  }
}

/** A question above the input line, which stays while the person types. */
function under(asked: readonly string[], input: Frame | undefined): Frame {
  if (input === undefined) return { lines: asked };
  const cursor = input.cursor && { ...input.cursor, row: input.cursor.row + asked.length };
  return { lines: [...asked, ...input.lines], cursor };
}
