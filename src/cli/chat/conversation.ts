/** The run that a chat talks to, from its first message to its end, and the sub-agent that the user watches. */

import type { Receipt } from "../../protocol/methods.ts";
import { oneLine, plural } from "../output/format.ts";
import { notify } from "../terminal/notify.ts";
import type { ChildRun } from "../transcript/transcript.ts";
import type { ConversationParts, PastRun } from "./actions.ts";
import { pastRun } from "./conversation-commands.ts";
import type { Outgoing, When } from "./outbox.ts";
import { type Begin, RunSession, type TurnEnd } from "./run-session.ts";
import { Actor, Stage } from "./stage.ts";

const INTENT_WIDTH = 60;

export class Conversation {
  readonly #p: ConversationParts;
  readonly #stage: Stage;
  /** Shown while there is no live run. */
  readonly #lobby: Actor;
  #session: RunSession | null = null;
  #watched: RunSession | null = null;
  /** What the next message continues, while nothing is live. */
  #past: PastRun | null = null;
  /** How often the user has pressed Ctrl-C while the agent worked at the same answer. */
  interrupts = 0;

  constructor(parts: ConversationParts) {
    this.#p = parts;
    this.#stage = new Stage(parts.screen);
    this.#lobby = new Actor(this.#stage);
    this.#lobby.title("rnix: ready");
    this.#lobby.show((size) => parts.below.frame(size));
    this.#stage.show(this.#lobby);
  }

  /** The run of the conversation, while it is live. */
  get session(): RunSession | null {
    return this.#session;
  }

  get watched(): RunSession | null {
    return this.#watched;
  }

  /** The run that is visible. */
  get front(): RunSession | null {
    return this.#watched ?? this.#session;
  }

  get uuid(): string | null {
    return this.#session?.uuid ?? this.#past?.uuid ?? null;
  }

  get children(): ChildRun[] {
    return this.#watched === null ? [...(this.#session?.view.state.children.values() ?? [])] : [];
  }

  /** Leaves the present run as it is. The next message begins a new one. */
  async begin(): Promise<void> {
    await this.#drop();
    this.#past = null;
  }

  /** Continues another run, and prints the end of its conversation. */
  async change(run: PastRun): Promise<void> {
    await this.#drop();
    this.#past = run;
    this.#p.options.ask_mode = run.mode;
    if (run.state !== "live") {
      await this.#p.showPast(run.uuid);
      if (run.question !== undefined)
        this.#p.print(
          `the agent waits for your answer: your next message shows the question, or rnix answer ${run.question}`,
        );
      return;
    }
    const session = this.#start({ kind: "attach", uuid: run.uuid });
    try {
      await session.attach(this.#p.showPast(run.uuid));
    } catch (error) {
      if (session === this.#session) await this.#drop();
      throw error;
    }
  }

  /** Sends a message to the visible run. Without one, it begins the run, or resumes the past one. */
  async deliver(message: Outgoing, when: When): Promise<void> {
    try {
      await this.#deliver({ ...message, key: crypto.randomUUID() }, when);
    } catch (error) {
      this.#p.line.putBefore(message.draft);
      message.returned?.();
      throw error;
    }
  }

  async #deliver(message: Outgoing, when: When): Promise<void> {
    const session = this.front ?? this.#start(this.#beginning());
    try {
      await session.outbox.send(message, when);
    } catch (error) {
      if (session.isFollowed || session === this.#watched) throw error;
      // A message before this one may have found the way meanwhile.
      if (session === this.#session) {
        await this.#drop();
        if (!(await this.#isMended(error))) throw error;
      }
      await this.#deliver(message, when);
    }
  }

  /** After a run could not be begun or resumed: whether it can be now. */
  async #isMended(error: unknown): Promise<boolean> {
    const { link, screen, print } = this.#p;
    if (this.#past === null)
      // Where the offer fails, too, the first failure is the one to report.
      return screen.suspendFor(() => link.offerSetup(error).catch(() => false));
    const run = pastRun(await link.request("show", { uuid: this.#past.uuid }));
    if (run.state !== "live") return false;
    // By another terminal, or by the daemon after a crash.
    print("the conversation has been resumed meanwhile");
    await this.change(run);
    return true;
  }

  watch(child: ChildRun): void {
    const session = this.#newSession({ kind: "attach", uuid: child.uuid });
    this.#watched = session;
    this.#title(`${child.agent}: ${oneLine(child.intent, INTENT_WIDTH)}`);
    this.#p.report(session.attach());
  }

  /** Returns from the sub-agent to the conversation. */
  unwatch(): boolean {
    const watched = this.#watched;
    if (watched === null) return false;
    this.#watched = null;
    this.#stage.show(this.#session?.screen ?? this.#lobby);
    this.#title("back to the conversation");
    this.#p.report(watched.close());
    return true;
  }

  #title(text: string): void {
    const { dim, mark } = this.#p.look;
    this.commit(["", dim(`${mark.rule.repeat(3)} ${text}`)]);
  }

  commit(lines: readonly string[]): void {
    (this.#stage.front ?? this.#lobby).commit(lines);
  }

  async close(): Promise<void> {
    await this.#watched?.close();
    await this.#session?.close();
  }

  #beginning(): Begin {
    const past = this.#past;
    if (past === null) return { kind: "spawn", options: { ...this.#p.options, chat: true } };
    const { ask_mode } = this.#p.options;
    return { kind: "resume", uuid: past.uuid, hasEnded: past.state === "ended", ask_mode };
  }

  #start(begin: Begin): RunSession {
    this.interrupts = 0;
    this.#session = this.#newSession(begin);
    return this.#session;
  }

  #newSession(begin: Begin): RunSession {
    const session = new RunSession(
      {
        ...this.#p,
        screen: new Actor(this.#stage),
        modeChanged: (changed, mode) => {
          if (changed === this.#session) this.#p.options.ask_mode = mode;
        },
        turnEnded: (ended, o) => this.#turnEnded(ended, o),
        over: (ended, end) => this.#p.report(this.#over(ended, end)),
      },
      begin,
    );
    this.#stage.show(session.screen);
    return session;
  }

  #turnEnded(session: RunSession, { waitedMs, asks, answered }: TurnEnd): void {
    if (session !== this.#session) return;
    if (answered && session.view.state.mode === "plan") session.offerPlan();
    this.interrupts = 0;
    const what = asks ? "asks" : "has answered";
    const intent = oneLine(session.view.state.head?.intent ?? "", INTENT_WIDTH);
    this.#p.report(notify(this.#p.io, { text: `rnix ${what}: ${intent}`, waitedMs }));
  }

  async #over(session: RunSession, end: { receipt: Receipt } | { error: unknown }): Promise<void> {
    const isEnded = "receipt" in end && end.receipt.exit_reason !== "suspended";
    const { unread, kept } = session.outbox.clear({ hasEnded: isEnded });
    this.#p.line.putBefore(unread);
    if (session === this.#watched) {
      this.unwatch();
      return;
    }
    if (session !== this.#session || session.uuid === null) return;
    this.interrupts = 0;
    this.#past = { uuid: session.uuid, state: isEnded ? "ended" : "suspended" };
    this.#session = null;
    await session.close();
    this.#stage.show(this.#lobby);
    const waits = kept === 0 ? "" : `; ${plural(kept, "message")} not read yet`;
    if ("error" in end)
      this.#p.print(`the daemon has gone; your next message continues the conversation${waits}`);
    else if (!isEnded) this.#p.print(`your next message resumes it${waits}`);
  }

  /** Stops following the present run, which stays as it is. */
  async #drop(): Promise<void> {
    const session = this.#session;
    if (this.#watched !== null) this.unwatch();
    this.#session = null;
    this.#stage.show(this.#lobby);
    await session?.close();
  }
}
