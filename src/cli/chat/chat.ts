/** A conversation at the terminal: its run begins with the first message, and stays as it is when the command ends. */

import { existsSync } from "node:fs";
import { isAbsolute } from "node:path";
import { ASK_MODES, type AskMode } from "../../lib/ask-modes.ts";
import { errnoOf, messageOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { AskAnswer } from "../../protocol/methods.ts";
import { EXIT, usageError } from "../exit.ts";
import type { Io } from "../io.ts";
import type { CompletableCommand } from "../terminal/completion.ts";
import { type Draft, expanded, joined } from "../terminal/draft.ts";
import { type Look, plainLines, wrapTo } from "../terminal/look.ts";
import type { ChildRun } from "../transcript/transcript.ts";
import type { ChatActions, ChatOptions, PastRun, TerminalParts } from "./actions.ts";
import { Aside } from "./aside.ts";
import { type ChatCommand, chatCommands } from "./commands.ts";
import { Composer, readTyped } from "./composer.ts";
import { Conversation } from "./conversation.ts";
import { Link } from "./link.ts";
import { McpPrompts } from "./mcp-prompts.ts";
import { CARRY_OUT, changeMode, modeAfter } from "./modes.ts";
import type { ConversationNames } from "./names.ts";
import type { Outgoing, When } from "./outbox.ts";
import { PastTurns } from "./past-turns.ts";
import { type Choice, Picker } from "./picker.ts";
import type { CommandFolders } from "./prompt-commands.ts";
import type { RunSession } from "./run-session.ts";
import { units } from "./unit-commands.ts";
import { shellLine, UserShell } from "./user-shell.ts";

const SIGTERM = 1;
const SIGINT = 3;

type OpenPicker = Pick<Picker<never>, "key" | "lines">;

interface ChatParts extends TerminalParts {
  folders: CommandFolders;
  names: ConversationNames;
  /** The command that continues a run, with the flags that were given. */
  resumeCommand(uuid: string): string;
}

export class Chat implements ChatActions {
  readonly io: Io;
  readonly look: Look;
  readonly names: ConversationNames;
  /** The mode of a new conversation without a flag. */
  usualMode: AskMode = "outside";
  readonly link: Link;
  readonly options: ChatOptions;
  readonly conversation: Conversation;
  readonly #parts: ChatParts;
  readonly #mcp: McpPrompts;
  readonly #composer: Composer;
  readonly #shell: UserShell;
  readonly #commands: ChatCommand[];
  readonly #done = Promise.withResolvers<number>();
  #picker: OpenPicker | null = null;
  #aside: Aside | null = null;
  #quitAsked = false;

  constructor(parts: ChatParts) {
    this.#parts = parts;
    this.io = parts.io;
    this.look = parts.look;
    this.names = parts.names;
    this.options = parts.options;
    this.link = new Link(parts.io, (work) => parts.screen.suspendFor(work));
    const print = (text: string): void => this.print(text);
    const { folders } = parts;
    const { cwd = this.io.cwd, trust } = this.options;
    this.#mcp = new McpPrompts({ io: this.io, link: this.link, trust });
    this.#composer = new Composer({ cwd, folders, mcp: this.#mcp, print });
    this.conversation = new Conversation({
      ...parts,
      link: this.link,
      stop: () => this.stop(),
      print,
      planAnswered: (answer) => this.#planAnswered(answer),
      showPast: (uuid) => this.#showPast(uuid),
      report: (work) => this.report(work),
    });
    this.#shell = new UserShell({
      ...parts,
      cwd: this.options.cwd ?? this.io.cwd,
      print: (lines) => this.conversation.commit(["", ...lines(this.columns)]),
    });
    this.#commands = chatCommands(this);
  }

  /** Resolves with the exit code when the user has left. */
  get left(): Promise<number> {
    return this.#done.promise;
  }

  get commands(): CompletableCommand[] {
    const own = new Set(this.#commands.map(({ name }) => name));
    const prompts = this.#composer.prompts.filter(({ name }) => !own.has(name));
    const files = prompts.map((one) => ({ ...one, about: `${one.about} (${one.of})` }));
    return [...this.#commands, ...files, ...this.#mcp.commands];
  }

  get front(): RunSession | null {
    return this.conversation.front;
  }

  get picker(): OpenPicker | null {
    return this.#picker;
  }

  get uuid(): string | null {
    return this.conversation.uuid;
  }

  get isLive(): boolean {
    const { session } = this.conversation;
    return session !== null && session.uuid !== null;
  }

  get isWorking(): boolean {
    return this.front?.isWorking ?? false;
  }

  get mode(): AskMode {
    return this.front?.view.state.mode ?? this.options.ask_mode ?? this.usualMode;
  }

  async setMode(mode: AskMode): Promise<AskMode> {
    const { uuid = null, view } = this.front ?? {};
    if (uuid !== null && view !== undefined) return changeMode({ uuid, state: view.state }, this.link, mode);
    this.options.ask_mode = mode;
    return mode;
  }

  /** Shift+Tab. */
  nextMode(): void {
    this.report(this.setMode(modeAfter(this.mode)));
  }

  get columns(): number {
    return this.#parts.screen.columns;
  }

  asideLines(columns: number): string[] {
    return [...(this.#aside?.lines(columns) ?? []), ...this.#shell.lines(columns)];
  }

  /** Ends the user's own command. Returns false when none runs. */
  endShell(): boolean {
    return this.#shell.end();
  }

  print(text: string): void {
    this.printLines(wrapTo(plainLines(text).join("\n"), this.columns));
  }

  printLines(lines: readonly string[]): void {
    const first = lines.findIndex((line) => line !== "");
    const last = lines.findLastIndex((line) => line !== "");
    if (first >= 0) this.conversation.commit(["", ...lines.slice(first, last + 1)]);
  }

  /** Sends what is typed, or does what it commands. */
  submit(when: When): void {
    const { line } = this.#parts;
    const { draft } = line;
    const text = expanded(draft).trim();
    if (text === "") return;
    const names = [...this.commands.map(({ name }) => name), ...mcpPromptOf(text)];
    const typed = readTyped(text, names, (word) => isAbsolute(word) && existsSync(word));
    line.take(true);
    const shell = typed.kind === "message" ? shellLine(text) : null;
    if (shell !== null) return void this.report(this.#shell.run(shell));
    if (typed.kind === "unknown") {
      const near = typed.nearest === undefined ? "/help lists all" : `did you mean /${typed.nearest}?`;
      this.print(`unknown command /${typed.name}; ${near}`);
      return;
    }
    const work =
      typed.kind === "command"
        ? this.#command(typed.name, typed.args, draft, when)
        : this.#deliver(this.#composer.message(draft, text), when);
    this.report(work);
  }

  /** Stops the model or the command. What the model has not read returns into the line. */
  stop(): void {
    const session = this.front;
    if (session?.isWorking)
      this.report(session.interrupt().then((unread) => this.#parts.line.putBefore(unread)));
    // After a failed model, nothing works and its message waits.
    else this.takeBack();
  }

  /** Whether a command of the agent in front runs in the foreground. */
  get hasCommand(): boolean {
    const calls = this.front?.view.state.calls.values() ?? [];
    return [...calls].some(({ name, askedMs }) => name === "Bash" && askedMs === null);
  }

  /** Ctrl+B. */
  moveCommand(): void {
    const uuid = this.front?.uuid;
    if (!uuid) return;
    const moving = this.link.request("background_call", { uuid }).then(({ moved }) => {
      if (moved === 0) this.print("no command of the agent runs in the foreground");
    });
    this.report(moving);
  }

  /** Ctrl+T. */
  listUnits(): void {
    this.report(units(this));
  }

  /** Sends what is typed and what waits at once: the model is interrupted. */
  sendNow(): void {
    const { line } = this.#parts;
    const session = this.front;
    const waits = (session?.outbox.waiting.length ?? 0) > 0;
    if (session === null || (!waits && (line.isEmpty || !session.isWorking)))
      return void this.submit("next_step");
    const typed = line.take(true);
    const work = async (): Promise<void> => {
      const unread = await session.interrupt();
      const draft = joined([unread, typed].filter((one) => one?.shown.trim())) ?? typed;
      await this.#deliver(this.#composer.message(draft, expanded(draft).trim()), "next_step");
    };
    this.report(work());
  }

  takeBack(): boolean {
    const outbox = this.front?.outbox;
    if (outbox === undefined || outbox.waiting.length === 0) return false;
    this.report(outbox.takeBack().then((draft) => this.#parts.line.putBefore(draft)));
    return true;
  }

  /** Ctrl-C while a run works: the first suspends it, the second kills it, the third leaves. Returns false otherwise. */
  interrupted(): boolean {
    const session = this.front;
    if (session === null || session.uuid === null || !session.isWorking) return false;
    const uuid = session.uuid;
    const times = ++this.conversation.interrupts;
    if (times === 1) {
      this.print("suspending the run; ctrl-c again kills it");
      this.report(this.link.request("suspend", { uuid }));
    } else if (times === 2) {
      this.print("killing the run; ctrl-c again leaves without waiting for it");
      this.report(this.link.request("signal_tree", { uuid, signal: SIGINT }));
    } else this.leave();
    return true;
  }

  pick<T>(title: string, choices: readonly Choice<T>[]): Promise<T | null> {
    return new Promise((resolve) => {
      const done = (value: T | null, words = ""): void => {
        this.#picker = null;
        for (const key of words) this.#parts.line.key(key);
        resolve(value);
        this.#parts.changed();
      };
      this.#picker = new Picker({ title, choices, style: this.look, done });
      this.#parts.changed();
    });
  }

  begin(): Promise<void> {
    return this.conversation.begin();
  }

  change(run: PastRun): Promise<void> {
    return this.conversation.change(run);
  }

  aside(question: string): void {
    const { uuid } = this;
    if (uuid === null) throw usageError("there is no conversation to ask about yet");
    if (this.#aside !== null) throw usageError("the question before is not answered yet");
    const { link, look, options } = this;
    const changed = () => this.#parts.changed();
    const done = (lines: (columns: number) => string[]): void => {
      this.#aside = null;
      this.conversation.commit(["", ...lines(this.columns)]);
    };
    this.#aside = new Aside(question, { link, look, options, changed, done });
    void this.#aside.ask(uuid);
  }

  leave(): void {
    this.#done.resolve(EXIT.ok);
  }

  /** /quit while the agent works asks once. */
  quit(): void {
    if (!this.isWorking || this.#quitAsked) return void this.leave();
    this.#quitAsked = true;
    this.print("the agent works: /quit again leaves it running, ctrl-c suspends it first");
  }

  stopChild({ uuid }: ChildRun): void {
    this.report(this.link.request("signal_tree", { uuid, signal: SIGTERM }));
  }

  /** The last words: how to come back. */
  farewell(): string {
    const { uuid } = this;
    if (uuid === null) return "";
    const state = this.conversation.session?.isWorking
      ? "The agent continues. To come back:"
      : "To continue:";
    return `\n${this.look.dim(state)}\n${this.#parts.resumeCommand(uuid)}\n`;
  }

  async close(): Promise<void> {
    this.#shell.end();
    await this.#aside?.close().catch(() => undefined);
    await this.conversation.close();
    await this.link.close();
  }

  /** A plan is carried out in the chosen mode; words are a message about it. */
  async #planAnswered({ choices, text }: AskAnswer): Promise<void> {
    const { line } = this.#parts;
    const mode = ASK_MODES.find((one) => choices.includes(one));
    if (mode === undefined && text === undefined) return;
    if (mode !== undefined) await this.setMode(mode);
    line.setText(text ?? CARRY_OUT);
    this.submit("next_step");
  }

  /** The end of a past conversation, in short. */
  async #showPast(uuid: string): Promise<number | undefined> {
    const past = new PastTurns();
    let last: number | undefined;
    await this.link.log(uuid, (entry) => {
      past.take(entry);
      last = entry.n ?? last;
    });
    if (!past.isEmpty) this.conversation.commit([...past.lines(this.columns, this.look), ""]);
    return last;
  }

  async #command(name: string, args: string, draft: Draft, when: When): Promise<void> {
    const own = this.#commands.find((command) => command.name === name);
    if (own !== undefined) return own.name === "quit" ? this.quit() : own.run(this, args);
    await this.#deliver(await this.#composer.prompt(name, args, draft), when);
  }

  #deliver(message: Outgoing, when: When): Promise<void> {
    this.#quitAsked = false;
    const { text, giveBack } = this.#shell.take();
    return this.conversation.deliver({ ...message, text: message.text + text, returned: giveBack }, when);
  }

  /** Prints why something did not work. */
  report(work: Promise<unknown>): void {
    work.catch((error: unknown) => {
      this.print(messageOf(error));
      const isForeseen = error instanceof SyscallError || errnoOf(error) !== undefined;
      if (!isForeseen) this.print("this is a bug in rnix");
    });
  }
}

/** `SERVER:PROMPT` at the beginning of a command, whose server may be unknown yet. */
function mcpPromptOf(text: string): string[] {
  return /^\/([\w.-]+:\S*)/.exec(text)?.slice(1) ?? [];
}
