/** Opens the terminal for a conversation and brings its keys to it. */

import { type KeyId, matchesKey } from "@earendil-works/pi-tui/dist/keys.js";
import { realClock } from "../../lib/clock.ts";
import type { Io } from "../io.ts";
import { formatBytes } from "../output/format.ts";
import type { InputLine } from "../terminal/input-line.ts";
import { Keyboard } from "../terminal/keyboard.ts";
import { lookOf } from "../terminal/look.ts";
import { Screen } from "../terminal/screen.ts";
import type { ChatOptions, PastRun } from "./actions.ts";
import { AgentList } from "./agent-list.ts";
import { BelowLine } from "./below.ts";
import { Chat } from "./chat.ts";
import { ClipboardImages } from "./clipboard-image.ts";
import { editText } from "./external-editor.ts";
import { runsOn } from "./model-commands.ts";
import { ConversationNames } from "./names.ts";
import { placeOf } from "./place.ts";
import { projectLine } from "./project-line.ts";

interface ChatStart {
  options: ChatOptions;
  /** The conversation to continue, found once the connection is made. */
  past(chat: Chat): Promise<PastRun | null>;
  resumeCommand(uuid: string): string;
  /** Of the project; "folder" for one that is no project. */
  project: { dir: string; id: string; isProject: boolean };
  user: { configDir: string; dataDir: string; home: string };
}

/** How long a second Ctrl-C counts as one, and a hint about it is shown. */
const TWICE_MS = 3000;

/** Runs the conversation until the user leaves it. Returns the exit code. */
export function runChat(io: Io, start: ChatStart): Promise<number> {
  return new ChatTerminal(io, start).run();
}

class ChatTerminal {
  readonly #io: Io;
  readonly #start: ChatStart;
  readonly #screen: Screen;
  readonly #line: InputLine;
  readonly #agents: AgentList;
  readonly #clipboard: ClipboardImages;
  readonly #chat: Chat;
  #hint = "";
  /** The model and agent of a new conversation. */
  #runsOn = "";
  #hintTimer: { cancel(): void } | undefined;
  #lastCtrlC = Number.NEGATIVE_INFINITY;

  constructor(io: Io, start: ChatStart) {
    this.#io = io;
    this.#start = start;
    const { project, user, options } = start;
    const look = lookOf(io);
    this.#screen = Screen.open(io, { clock: realClock });
    this.#clipboard = new ClipboardImages(io);
    const redraw = (): void => this.#screen.redraw();
    this.#line = projectLine({
      cwd: options.cwd ?? io.cwd,
      dataDir: user.dataDir,
      projectId: project.id,
      style: look,
      commands: () => this.#chat.commands,
      rows: () => this.#screen.rows,
      redraw,
    });
    const below = new BelowLine(
      {
        line: this.#line,
        list: (columns) => this.#chat.picker?.lines(columns) ?? null,
        waiting: () => this.#chat.front?.outbox.waiting ?? [],
        agents: (columns) =>
          this.#agents.lines(this.#chat.conversation.children, { columns, now: Date.now() }, look),
        aside: (columns) => this.#chat.asideLines(columns),
        mode: () => `mode ${this.#chat.mode} (shift-tab)`,
        hint: () => {
          const units = this.#chat.front?.view.state.units.size ? "ctrl-t: units" : "";
          const move = this.#chat.hasCommand ? "ctrl-b: to the background" : "";
          return [this.#hintNow(), move, units].filter(Boolean).join("  ");
        },
        placeholder: () => (this.#chat.uuid === null ? "a message, / for commands, @ for files" : ""),
      },
      look,
    );
    this.#chat = new Chat({
      place: () => this.#place(),
      io,
      look,
      screen: this.#screen,
      line: this.#line,
      below,
      options,
      names: new ConversationNames(user.dataDir, project.id),
      folders: { project: project.isProject ? project.dir : null, ...user },
      resumeCommand: start.resumeCommand,
      changed: redraw,
    });
    this.#agents = new AgentList({
      open: (child) => this.#chat.conversation.watch(child),
      stop: (child) => this.#chat.stopChild(child),
    });
  }

  async run(): Promise<number> {
    const chat = this.#chat;
    const keyboard = Keyboard.open(
      this.#io,
      {
        key: (data) => this.#key(data),
        paste: (text) => {
          this.#showHint("");
          this.#paste(text);
        },
        pasting: (length) => this.#showHint(`pasting: ${formatBytes(length)}`),
        interrupt: () => this.#ctrlC(),
      },
      { extended: true },
    );
    const off = this.#io.onSignal("SIGINT", () => this.#ctrlC());
    this.#describe();
    // Reads the names of MCP servers, which are known a moment later.
    void chat.commands;
    try {
      const past = await this.#start.past(chat);
      const mode = this.#start.options.ask_mode;
      if (past !== null) await chat.change(past);
      if (past !== null && mode !== undefined) await chat.setMode(mode);
      return await chat.left;
    } finally {
      off();
      keyboard?.close();
      const last = chat.farewell();
      this.#hintTimer?.cancel();
      this.#line.close();
      await chat.close();
      this.#clipboard.close();
      await this.#screen.close();
      // Not by the screen, which would break a long command into lines.
      this.#io.stderr.write(last);
    }
  }

  /** Shows what a new conversation will run on. */
  #describe(): void {
    const work = async (): Promise<void> => {
      const { usualMode } = await import("../../server/offline-commands.ts");
      const { options, io } = this.#chat;
      this.#chat.usualMode = await usualMode({ cwd: io.cwd, env: options.env ?? {} });
      this.#runsOn = await runsOn(this.#chat);
      this.#screen.redraw();
    };
    // The first message says it, too.
    work().catch(() => undefined);
  }

  #paste(text: string): void {
    this.#agents.leave();
    if (this.#chat.picker !== null || this.#chat.front?.view.questionPaste(text)) return;
    // Some terminals paste nothing when the clipboard has a picture.
    if (text === "") this.#attachClipboard();
    else this.#line.paste(text);
  }

  #key(data: string): void {
    this.#dispatch(data);
    this.#screen.redraw();
  }

  #dispatch(data: string): void {
    const chat = this.#chat;
    if (chat.picker !== null) return void chat.picker.key(data);
    if (chat.front?.view.questionKey(data)) return;
    if (this.#agents.hasFocus && this.#agents.key(data, chat.conversation.children)) return;
    if (!this.#line.hasMenu && this.#chatKey(data)) return;
    const outcome = this.#line.key(data);
    if (outcome === "submit") chat.submit("next_step");
    else if (outcome === "unused") this.#chatKey(data);
  }

  /** Keys that act on the conversation. Returns whether it was one. */
  #chatKey(data: string): boolean {
    const chat = this.#chat;
    const line = this.#line;
    const is = (...keys: KeyId[]): boolean => keys.some((key) => matchesKey(data, key));
    const isLater = is("alt+enter", "tab") || data === "\x1b\r";
    if (is("alt+up") || (is("up") && line.isEmpty)) return chat.takeBack();
    if (is("down") && line.isEmpty) return this.#agents.enter(chat.conversation.children);
    if (is("escape")) {
      if (!chat.endShell() && !chat.conversation.unwatch()) chat.stop();
    } else if (is("ctrl+o")) chat.front?.view.key(data);
    else if (is("ctrl+d") && line.isEmpty) chat.leave();
    else if (is("ctrl+b") && chat.hasCommand) chat.moveCommand();
    else if (isLater && chat.isWorking && !line.isEmpty) chat.submit("after_answer");
    else if (is("shift+tab")) chat.nextMode();
    else if (is("ctrl+t")) chat.listUnits();
    else if (is("ctrl+s")) chat.sendNow();
    else if (is("ctrl+g")) this.#edit();
    else if (is("ctrl+v")) this.#attachClipboard();
    else return false;
    return true;
  }

  #ctrlC(): void {
    const chat = this.#chat;
    if (chat.picker !== null) return void chat.picker.key("\x1b");
    if (this.#line.endSearch() || chat.endShell() || chat.interrupted()) return;
    const now = realClock.monotonic();
    if (!this.#line.isEmpty) this.#line.take(true);
    else if (now - this.#lastCtrlC < TWICE_MS) chat.leave();
    else {
      this.#lastCtrlC = now;
      this.#showHint("ctrl-c again leaves; the conversation can be resumed");
    }
  }

  #edit(): void {
    const work = async (): Promise<void> => {
      const edited = await this.#screen.suspendFor(() => editText(this.#io, this.#line.text));
      if (edited === null) this.#chat.print("the editor failed: the text is as it was");
      else this.#line.setText(edited);
    };
    this.#chat.report(work());
  }

  #attachClipboard(): void {
    const taking = this.#clipboard.take().then((path) => {
      if (path === null) this.#showHint("the clipboard has no picture that can be read here");
      else this.#line.paste(path);
    });
    this.#chat.report(taking);
  }

  #showHint(text: string): void {
    this.#hint = text;
    this.#hintTimer?.cancel();
    this.#hintTimer = realClock.timer(TWICE_MS, () => {
      this.#hint = "";
      this.#screen.redraw();
    });
    this.#screen.redraw();
  }

  #hintNow(): string {
    if (this.#hint !== "") return this.#hint;
    const chat = this.#chat;
    if (chat.front?.outbox.waiting.length) {
      return chat.isWorking
        ? "alt-up: edit  ctrl-s: send now  esc: stop"
        : "the model has not read it  ctrl-s: send again  alt-up: edit";
    }
    if (chat.isWorking && !this.#line.isEmpty)
      return "enter: for its next step  alt-enter: after its answer  ctrl-s: now";
    if (chat.uuid === null) return [this.#place(), this.#runsOn].filter((part) => part !== "").join(", ");
    if (chat.conversation.watched !== null) return "you watch a sub-agent; esc returns to the conversation";
    return "";
  }

  #place(): string {
    const { options, user } = this.#start;
    return placeOf(options.cwd ?? this.#io.cwd, user.home);
  }
}
