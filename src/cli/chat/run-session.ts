/** One run that the conversation follows: its view, what the user sends it, and how it stands. */

import type { AskMode } from "../../lib/ask-modes.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { ProcRef, Receipt, StreamEvent } from "../../protocol/methods.ts";
import type { SpawnRequest } from "../../protocol/run.ts";
import type { Activity } from "../../protocol/stream.ts";
import { environment } from "../io.ts";
import type { Draft } from "../terminal/draft.ts";
import { LiveView } from "../terminal/live-view.ts";
import type { ConversationParts } from "./actions.ts";
import type { Followed } from "./link.ts";
import { PLAN_QUESTION, planQuestion } from "./modes.ts";
import { Outbox, type Outgoing, type When } from "./outbox.ts";
import type { Actor } from "./stage.ts";

/** How the run comes to be followed. */
export type Begin =
  /** A new run; the first message is its intent. */
  | { kind: "spawn"; options: Omit<SpawnRequest, "intent"> }
  /** It is suspended or has ended; the first message resumes it. */
  | { kind: "resume"; uuid: string; hasEnded: boolean; ask_mode: AskMode | undefined }
  /** It is live. */
  | { kind: "attach"; uuid: string };

export interface TurnEnd {
  waitedMs: number;
  asks: boolean;
  /** The model has given a whole answer. */
  answered: boolean;
}

interface SessionParts extends Omit<ConversationParts, "screen"> {
  screen: Actor;
  modeChanged(session: RunSession, mode: AskMode): void;
  /** The model has answered, or asks, after this time. */
  turnEnded(session: RunSession, o: TurnEnd): void;
  /** The run has ended, was suspended, or can't be followed any more. */
  over(session: RunSession, end: { receipt: Receipt } | { error: unknown }): void;
}

export class RunSession {
  readonly view: LiveView;
  readonly outbox: Outbox;
  readonly #ports: SessionParts;
  readonly #begin: Begin;
  #followed: Followed | null = null;
  #attaching: Promise<void> | null = null;
  #ref: ProcRef | null = null;
  #isOver = false;
  readonly #firstSeq = Promise.withResolvers<number>();
  #newestSeq = 0;
  /** When the present turn began; null between turns. */
  #turnSince: number | null = null;
  /** The last entry of the turn is an answer without an interruption. */
  #isWhole = false;

  constructor(ports: SessionParts, begin: Begin) {
    this.#ports = ports;
    this.#begin = begin;
    this.view = new LiveView(ports.io, ports.screen, { keys: ["esc: stop"], place: ports.place });
    this.view.below = ports.below;
    this.view.answerWith(async (request_id, answers) => {
      if (request_id === PLAN_QUESTION) {
        this.view.ownQuestion(null);
        return ports.planAnswered(answers[0] ?? { choices: [] });
      }
      await ports.link.request("answer_user", { request_id, answers, via: "terminal" });
    });
    this.view.onInterrupt = () => ports.stop();
    this.view.unused = ports.line;
    this.outbox = new Outbox({
      send: (message, when) => this.#send(message, when),
      takeBack: (seq) => ports.link.request("take_back_message", { ...this.#target(), seq }),
      late: () => ports.print("1 message not read yet"),
      changed: ports.changed,
    });
    // Not waited for where the run begins without a message.
    this.#firstSeq.promise.catch(() => undefined);
    if (begin.kind !== "spawn") this.#ref = { pid: 0, uuid: begin.uuid };
  }

  get screen(): Actor {
    return this.#ports.screen;
  }

  /** null before the run exists. */
  get uuid(): string | null {
    return this.#ref?.uuid ?? null;
  }

  /** False until the run is begun, resumed or attached to. */
  get isFollowed(): boolean {
    return this.#followed !== null;
  }

  /** The model or a command works, or will as soon as it can. */
  get isWorking(): boolean {
    if (this.#isOver) return false;
    if (this.#followed === null) return this.outbox.waiting.length > 0;
    return this.view.state.activity?.kind !== "input";
  }

  /**
   * Begins to follow a live run. `shown`: the number of the last log entry that is shown already; what was recorded since
   * comes first. A message that is sent meanwhile waits for it: none of its events is missed.
   */
  attach(shown?: Promise<number | undefined>): Promise<void> {
    this.#attaching ??= this.#attach(shown);
    return this.#attaching;
  }

  async #attach(shown: Promise<number | undefined> | undefined): Promise<void> {
    const after = await shown;
    const uuid = this.#ref?.uuid ?? "";
    this.#follow(await this.#ports.link.follow("attach", { uuid, attended: true, after }, this.#handlers));
  }

  /** Stops the model or the running calls; the run waits for a new message then. Returns what the model has not read. */
  async interrupt(): Promise<Draft | null> {
    this.#isWhole = false;
    return this.outbox.stop(() => this.#ports.link.request("interrupt", this.#target(), { timeoutMs: null }));
  }

  async close(): Promise<void> {
    this.#isOver = true;
    this.#endFirst();
    this.#followed?.close();
    await this.view.close();
  }

  async #send(message: Outgoing, when: When): Promise<{ seq: number }> {
    const { io, link } = this.#ports;
    const { text, key } = message;
    const files = await message.files();
    await this.#attaching;
    if (this.#followed === null && this.#begin.kind === "spawn") {
      const { options } = this.#begin;
      const add = [...(options.add ?? []), ...files];
      const request = { ...options, intent: text, ...(add.length > 0 && { add }) };
      this.#follow(await link.follow("spawn", request, this.#handlers));
      return { seq: await this.#firstSeq.promise };
    }
    const given = { env: environment(io), attended: true as const };
    if (this.#followed === null && this.#begin.kind === "resume") {
      const { uuid, hasEnded, ask_mode } = this.#begin;
      // Files can be attached to a message to a live run only, and an ended run resumes only with a message.
      const isFirst = files.length === 0 || hasEnded;
      const request = { uuid, stream: true, ask_mode, ...(isFirst && { input: text, key }), ...given };
      this.#follow(await link.follow("resume", request, this.#handlers));
      if (isFirst) return { seq: await this.#firstSeq.promise };
    }
    const attached = files.length > 0 && { files };
    return link.request("send_message", { ...this.#target(), text, when, key, ...attached, ...given });
  }

  #follow(followed: Followed): void {
    this.#followed = followed;
    this.#ref = followed.ref;
    this.#ports.changed();
  }

  get #handlers() {
    return {
      event: (event: StreamEvent) => this.#event(event),
      ended: (receipt: Receipt) => this.#end({ receipt }),
      lost: (error: unknown) => this.#end({ error }),
    };
  }

  #end(end: { receipt: Receipt } | { error: unknown }): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#endFirst();
    this.#followed?.close();
    this.#ports.over(this, end);
  }

  #endFirst(): void {
    if (this.#newestSeq > 0) this.#firstSeq.resolve(this.#newestSeq);
    else this.#firstSeq.reject(new SyscallError("CLOSED", "the run ended before it took the message"));
  }

  #event(event: StreamEvent): void {
    if (event.type === "log_entry") this.#isWhole = event.payload.kind === "text";
    if (event.type === "progress") this.#progress(event.payload);
    for (const shown of this.outbox.shown(event)) this.view.show(shown);
    this.#ports.changed();
  }

  #progress(payload: Extract<StreamEvent, { type: "progress" }>["payload"]): void {
    if (payload.event === "mode" || payload.event === "spawn") this.#ports.modeChanged(this, payload.mode);
    if (payload.event === "message") this.#newestSeq = Math.max(this.#newestSeq, payload.seq);
    // All messages that wait come before the activity, the one that was sent with the beginning as the last.
    if (payload.event === "activity") {
      if (this.#newestSeq > 0) this.#firstSeq.resolve(this.#newestSeq);
      this.#doing(payload.activity);
    }
  }

  #doing({ kind, since_ms }: Activity): void {
    const isWaiting = kind === "input" || kind === "ask";
    if (!isWaiting) {
      this.#turnSince ??= Date.now();
      this.view.ownQuestion(null);
    } else if (this.#turnSince !== null) {
      const asks = kind === "ask";
      const waitedMs = since_ms - this.#turnSince;
      this.#ports.turnEnded(this, { waitedMs, asks, answered: !asks && this.#isWhole });
      this.#turnSince = null;
    }
  }

  /** Asks whether the plan that the model has given is to be carried out. */
  offerPlan(): void {
    const { head } = this.view.state;
    if (head !== null) this.view.ownQuestion(planQuestion(head, Date.now()));
  }

  #target(): { uuid: string } {
    return { uuid: this.#ref?.uuid ?? "" };
  }
}
