/** A conversation at the terminal: its run begins with the first message, and stays as it is when the command ends. */

import { existsSync } from "node:fs";
import { isAbsolute } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import type { Receipt } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";
import type { Io } from "../io.ts";
import { oneLine, plural } from "../output/format.ts";
import { type Draft, expanded, joined } from "../terminal/draft.ts";
import type { InputLine } from "../terminal/input-line.ts";
import { type Look, plainLines, wrapTo } from "../terminal/look.ts";
import { renderMarkdown } from "../terminal/markdown.ts";
import { notify } from "../terminal/notify.ts";
import type { Screen } from "../terminal/screen.ts";
import { terminalStyleOf } from "../terminal/terminal-style.ts";
import type { ChildRun } from "../terminal/transcript.ts";
import type { ChatActions, ChatOptions, PastRun } from "./actions.ts";
import { Aside } from "./aside.ts";
import { attachedFiles } from "./attached-files.ts";
import type { BelowLine } from "./below.ts";
import { type ChatCommand, chatCommands } from "./commands.ts";
import { Link } from "./link.ts";
import type { Outgoing, When } from "./outbox.ts";
import { PastTurns } from "./past.ts";
import { type Choice, Picker } from "./picker.ts";
import {
  type CommandFolders,
  expandPrompt,
  findPromptCommands,
  type PromptCommand,
} from "./prompt-commands.ts";
import { type Begin, RunSession } from "./run-session.ts";
import { type Actor, Stage } from "./stage.ts";
import { readTyped } from "./typed.ts";

const SIGTERM = 1;
const SIGINT = 3;
const INTENT_WIDTH = 60;

type OpenPicker = Pick<Picker<never>, "key" | "lines">;

interface ChatParts {
  io: Io;
  look: Look;
  screen: Screen;
  line: InputLine;
  below: BelowLine;
  options: ChatOptions;
  folders: CommandFolders;
  /** The command that continues a run, with the flags that were given. */
  resumeCommand(uuid: string): string;
  /** Something that is drawn below has changed. */
  changed(): void;
}

export class Chat implements ChatActions {
  readonly io: Io;
  readonly look: Look;
  readonly link: Link;
  readonly options: ChatOptions;
  readonly #parts: ChatParts;
  readonly #stage: Stage;
  /** Shown while there is no live run. */
  readonly #lobby: Actor;
  readonly #commands: ChatCommand[];
  readonly #done = Promise.withResolvers<number>();
  #session: RunSession | null = null;
  /** A sub-agent that is watched. */
  #watched: RunSession | null = null;
  /** What the next message continues, while nothing is live. */
  #past: PastRun | null = null;
  #picker: OpenPicker | null = null;
  #aside: Aside | null = null;
  #interrupts = 0;
  #quitAsked = false;

  constructor(parts: ChatParts) {
    this.#parts = parts;
    this.io = parts.io;
    this.look = parts.look;
    this.options = parts.options;
    this.link = new Link(parts.io);
    this.#stage = new Stage(parts.screen);
    this.#lobby = this.#stage.newScreen();
    this.#lobby.title("rnix: ready");
    this.#lobby.show((size) => parts.below.frame(size));
    this.#stage.show(this.#lobby);
    this.#commands = chatCommands(this);
  }

  /** Resolves with the exit code when the user has left. */
  get left(): Promise<number> {
    return this.#done.promise;
  }

  get commands(): (ChatCommand | PromptCommand)[] {
    const own = new Set(this.#commands.map(({ name }) => name));
    return [
      ...this.#commands,
      ...findPromptCommands(this.#parts.folders).filter(({ name }) => !own.has(name)),
    ];
  }

  /** The run that is visible. */
  get front(): RunSession | null {
    return this.#watched ?? this.#session;
  }

  get watched(): RunSession | null {
    return this.#watched;
  }

  get picker(): OpenPicker | null {
    return this.#picker;
  }

  get uuid(): string | null {
    return this.#session?.uuid ?? this.#past?.uuid ?? null;
  }

  get isLive(): boolean {
    return this.#session !== null && this.#session.uuid !== null;
  }

  get isWorking(): boolean {
    return this.front?.isWorking ?? false;
  }

  get columns(): number {
    return this.#parts.screen.columns;
  }

  get children(): ChildRun[] {
    return this.#watched === null ? [...(this.#session?.view.state.children.values() ?? [])] : [];
  }

  asideLines(columns: number): string[] {
    return this.#aside?.lines(columns) ?? [];
  }

  print(text: string): void {
    this.printLines(wrapTo(plainLines(text).join("\n"), this.columns));
  }

  printLines(lines: readonly string[]): void {
    const first = lines.findIndex((line) => line !== "");
    const last = lines.findLastIndex((line) => line !== "");
    if (first >= 0) this.#commit(["", ...lines.slice(first, last + 1)]);
  }

  /** Sends what is typed, or does what it commands. */
  submit(when: When): void {
    const { line } = this.#parts;
    const { draft } = line;
    const text = expanded(draft).trim();
    if (text === "") return;
    const typed = readTyped(
      text,
      this.commands.map(({ name }) => name),
      isPath,
    );
    if (typed.kind === "unknown") {
      const near = typed.nearest === undefined ? "/help lists all" : `did you mean /${typed.nearest}?`;
      this.print(`unknown command /${typed.name}; ${near}`);
      return;
    }
    line.take(true);
    const work =
      typed.kind === "command"
        ? this.#command(typed.name, typed.args, draft, when)
        : this.#message(draft, text, when);
    this.#report(work);
  }

  /** Stops the model or the command. What the model has not read returns into the line. */
  stop(): void {
    const session = this.front;
    if (session === null) return;
    if (!session.isWorking) {
      // After a failed model, nothing works and its message waits.
      this.takeBack();
      return;
    }
    const work = async (): Promise<void> => {
      const unread = await session.interrupt();
      if (unread !== null) this.#parts.line.putBefore(unread);
    };
    this.#report(work());
  }

  /** Sends what is typed and what waits at once: the model is interrupted. */
  sendNow(): void {
    const { line } = this.#parts;
    const session = this.front;
    const waits = (session?.outbox.waiting.length ?? 0) > 0;
    if (session === null || (!waits && (line.isEmpty || !session.isWorking))) {
      this.submit("next_step");
      return;
    }
    const typed = line.take(true);
    const work = async (): Promise<void> => {
      const unread = await session.interrupt();
      const all = [unread, typed].filter((draft) => draft !== null && draft.shown.trim() !== "");
      const draft = joined(all.filter((one) => one !== null));
      await this.#message(draft, expanded(draft).trim(), "next_step");
    };
    this.#report(work());
  }

  /** Takes waiting messages back into the line. */
  takeBack(): boolean {
    const outbox = this.front?.outbox;
    if (outbox === undefined || outbox.waiting.length === 0) return false;
    const work = async (): Promise<void> => {
      const draft = await outbox.takeBack();
      if (draft !== null) this.#parts.line.putBefore(draft);
    };
    this.#report(work());
    return true;
  }

  /** Ctrl-C while a run works: the first suspends it, the second kills it, the third leaves. Returns false otherwise. */
  interrupted(): boolean {
    const session = this.front;
    if (session === null || session.uuid === null || !session.isWorking) return false;
    const uuid = session.uuid;
    this.#interrupts++;
    if (this.#interrupts === 1) {
      this.print("suspending the run; ctrl-c again kills it");
      this.#report(this.link.request("suspend", { uuid }));
    } else if (this.#interrupts === 2) {
      this.print("killing the run; ctrl-c again leaves without waiting for it");
      this.#report(this.link.request("signal_tree", { uuid, signal: SIGINT }));
    } else this.leave();
    return true;
  }

  pick<T>(title: string, choices: readonly Choice<T>[]): Promise<T | null> {
    return new Promise((resolve) => {
      const picker = new Picker(title, choices, this.look, (value) => {
        this.#picker = null;
        resolve(value);
        this.#parts.changed();
      });
      this.#picker = picker;
      this.#parts.changed();
    });
  }

  async begin(): Promise<void> {
    await this.#drop();
    this.#past = null;
  }

  async change(run: PastRun): Promise<void> {
    await this.#drop();
    this.#past = run;
    const session = run.state === "live" ? this.#start({ kind: "attach", uuid: run.uuid }) : null;
    const shown = this.showPast(run.uuid);
    await (session === null ? shown : session.attach(shown));
  }

  aside(question: string): void {
    const { uuid } = this;
    if (uuid === null) throw new SyscallError("INVALID", "there is no conversation to ask about yet");
    if (this.#aside !== null) throw new SyscallError("INVALID", "the question before is not answered yet");
    const { link, look, options } = this;
    const changed = () => this.#parts.changed();
    const done = (lines: (columns: number) => string[]): void => {
      this.#aside = null;
      this.#commit(["", ...lines(this.columns)]);
    };
    this.#aside = new Aside(question, { link, look, options, changed, done });
    void this.#aside.ask(uuid);
  }

  leave(): void {
    this.#done.resolve(EXIT.ok);
  }

  /** /quit while the agent works asks once. */
  quit(): void {
    if (!this.isWorking || this.#quitAsked) {
      this.leave();
      return;
    }
    this.#quitAsked = true;
    this.print("the agent works: /quit again leaves it running, ctrl-c suspends it first");
  }

  watch(child: ChildRun): void {
    const open = async (): Promise<void> => {
      const session = this.#newSession({ kind: "attach", uuid: child.uuid });
      this.#watched = session;
      this.#commit([
        "",
        this.look.dim(
          `${this.look.mark.rule.repeat(3)} ${child.agent}: ${oneLine(child.intent, INTENT_WIDTH)}`,
        ),
      ]);
      await session.attach();
    };
    this.#report(open());
  }

  /** Returns from the sub-agent to the conversation. */
  unwatch(): boolean {
    const watched = this.#watched;
    if (watched === null) return false;
    this.#watched = null;
    this.#stage.show(this.#session?.screen ?? this.#lobby);
    this.#commit(["", this.look.dim(`${this.look.mark.rule.repeat(3)} back to the conversation`)]);
    this.#report(watched.close());
    return true;
  }

  stopChild({ uuid }: ChildRun): void {
    this.#report(this.link.request("signal_tree", { uuid, signal: SIGTERM }));
  }

  /** The end of a past conversation, in short. */
  async showPast(uuid: string): Promise<void> {
    const past = new PastTurns();
    await this.link.log(uuid, (entry) => past.take(entry));
    const style = terminalStyleOf(this.io);
    const lines = past.lines(this.columns, this.look, (text) => renderMarkdown(text, this.columns, style));
    if (!past.isEmpty) this.#commit([...lines, ""]);
  }

  /** The last words: how to come back. */
  farewell(): string {
    const { uuid } = this;
    if (uuid === null) return "";
    const state = this.#session?.isWorking ? "The agent continues. To come back:" : "To continue:";
    return `\n${this.look.dim(state)}\n${this.#parts.resumeCommand(uuid)}\n`;
  }

  async close(): Promise<void> {
    await this.#aside?.close().catch(() => undefined);
    await this.#watched?.close();
    await this.#session?.close();
    await this.link.close();
  }

  async #command(name: string, args: string, draft: Draft, when: When): Promise<void> {
    const own = this.#commands.find((command) => command.name === name);
    if (own !== undefined) return own.name === "quit" ? this.quit() : own.run(this, args);
    const prompt = findPromptCommands(this.#parts.folders).find((command) => command.name === name);
    if (prompt === undefined) return;
    const { text, note } = expandPrompt(prompt, args);
    if (note !== undefined) this.print(note);
    const mentions = prompt.of === "project" ? { text: args, inside: text } : { text: `${text}\n${args}` };
    await this.#deliver({ draft, text, files: () => this.#files(mentions) }, when);
  }

  #message(draft: Draft, text: string, when: When): Promise<void> {
    return this.#deliver({ draft, text, files: () => this.#files({ text: draft.shown }) }, when);
  }

  /** `inside`: text of another author, which attaches files of the project only. */
  async #files({ text, inside = "" }: { text: string; inside?: string }): Promise<string[]> {
    const cwd = this.options.cwd ?? this.io.cwd;
    const own = await attachedFiles(text, cwd);
    const others = await attachedFiles(inside, cwd, this.#parts.folders.project ?? cwd);
    for (const note of [...own.notes, ...others.notes]) this.print(note);
    return [...new Set([...own.files, ...others.files])];
  }

  async #deliver(message: Outgoing, when: When): Promise<void> {
    this.#quitAsked = false;
    const session = this.front ?? this.#start(this.#beginning());
    try {
      await session.outbox.send(message, when);
    } catch (error) {
      const isUnborn = session === this.#session && session.uuid === null;
      if (isUnborn) await this.#drop();
      // Where the offer fails, too, the first failure is the one to report.
      const offer = () => this.link.offerSetup(error).catch(() => false);
      if (isUnborn && (await this.#parts.screen.suspendFor(offer))) return this.#deliver(message, when);
      this.#parts.line.putBefore(message.draft);
      throw error;
    }
  }

  #beginning(): Begin {
    const past = this.#past;
    if (past === null) return { kind: "spawn", options: { ...this.options, chat: true } };
    return { kind: "resume", uuid: past.uuid, hasEnded: past.state === "ended" };
  }

  #start(begin: Begin): RunSession {
    this.#interrupts = 0;
    this.#session = this.#newSession(begin);
    return this.#session;
  }

  #newSession(begin: Begin): RunSession {
    const session = new RunSession(
      {
        io: this.io,
        link: this.link,
        screen: this.#stage.newScreen(),
        below: this.#parts.below,
        changed: this.#parts.changed,
        stop: () => this.stop(),
        holdsText: () => !this.#parts.line.isEmpty,
        turnEnded: (ended, o) => this.#turnEnded(ended, o),
        over: (ended, end) => this.#report(this.#over(ended, end)),
      },
      begin,
    );
    this.#stage.show(session.screen);
    return session;
  }

  #turnEnded(session: RunSession, { waitedMs, asks }: { waitedMs: number; asks: boolean }): void {
    if (session !== this.#session) return;
    this.#interrupts = 0;
    const what = asks ? "asks" : "has answered";
    const intent = oneLine(session.view.state.head?.intent ?? "", INTENT_WIDTH);
    this.#report(notify(this.io, { text: `rnix ${what}: ${intent}`, waitedMs }));
  }

  async #over(session: RunSession, end: { receipt: Receipt } | { error: unknown }): Promise<void> {
    const isEnded = "receipt" in end && end.receipt.exit_reason !== "suspended";
    const { unread, kept } = session.outbox.clear({ hasEnded: isEnded });
    if (unread !== null) this.#parts.line.putBefore(unread);
    if (session === this.#watched) {
      this.unwatch();
      return;
    }
    if (session !== this.#session || session.uuid === null) return;
    this.#interrupts = 0;
    this.#past = { uuid: session.uuid, state: isEnded ? "ended" : "suspended" };
    this.#session = null;
    await session.close();
    this.#stage.show(this.#lobby);
    const waits = kept === 0 ? "" : `; ${plural(kept, "message")} not read yet`;
    if ("error" in end)
      this.print(`the daemon has gone; your next message continues the conversation${waits}`);
    else if (!isEnded) this.print(`your next message resumes it${waits}`);
  }

  /** Stops following the present run, which stays as it is. */
  async #drop(): Promise<void> {
    const session = this.#session;
    if (this.#watched !== null) this.unwatch();
    this.#session = null;
    this.#stage.show(this.#lobby);
    await session?.close();
  }

  #commit(lines: readonly string[]): void {
    (this.#stage.front ?? this.#lobby).commit(lines);
  }

  /** Prints why something did not work. */
  #report(work: Promise<unknown>): void {
    work.catch((error: unknown) => {
      this.print(error instanceof Error ? error.message : String(error));
      if (!(error instanceof SyscallError)) this.print("this is a bug in rnix");
    });
  }
}

function isPath(word: string): boolean {
  return isAbsolute(word) && existsSync(word);
}
