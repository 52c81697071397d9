/** Delivers the inbox of one run to its conversation, turn by turn. */

import { onceAborted } from "../../lib/clock.ts";
import { formatDuration } from "../../lib/duration.ts";
import type { Message } from "../../plugin/index.ts";
import type { InboxEntry } from "../../store/runs/schema.ts";
import { asUserMessage } from "../ipc/inbox.ts";
import { CUT_ANSWER, inboxText } from "../ipc/inboxes.ts";
import type { Process } from "../process/process.ts";
import type { Io } from "../tiers/io.ts";
import { hasCorrespondent } from "../tools/tool-catalog.ts";

/** What the next step is about to hold. */
interface Delivery {
  entries: readonly InboxEntry[];
  /** The message that holds the entries; absent for a step that was open when the run was cut off. */
  message?: Message;
  seqs: number[];
  /** A notice about a failed check is among the entries. */
  afterCheck: boolean;
  /** The message says that the answer before it was interrupted. */
  saysCut: boolean;
}

/**
 * Delivers the entries of an inbox to the model with its next step, and waits for a message where it is the user's turn:
 * in a chat after each answer, in any run after an interruption.
 */
export class Turns {
  readonly #parts: Io;
  readonly #proc: Process;
  /** If set, it is the user's turn: the run waits for a message with a higher number. */
  #waitAfter: number | undefined;
  /** What the next step reads. Kept until a step record contains it. */
  #delivery: Delivery | undefined;

  constructor(parts: Io, proc: Process) {
    this.#parts = parts;
    this.#proc = proc;
    if (proc.run.turnOver) this.#waitAfter = 0;
  }

  /** Whether the run waits for a message before the next model call. */
  get isOver(): boolean {
    return this.#waitAfter !== undefined;
  }

  /** The present answer is complete, or was interrupted: a new message begins the next turn. */
  end({ onlyNew = false } = {}): void {
    this.#proc.run.turnOver = true;
    this.#waitAfter = onlyNew ? this.#parts.inboxes.of(this.#proc).newest : 0;
  }

  /** Closes the inbox if the user has ended the chat and no message is left to answer. Returns whether the run may end. */
  async mayEnd(): Promise<boolean> {
    const after = this.#waitAfter ?? 0;
    const inbox = this.#parts.inboxes.of(this.#proc);
    return this.#proc.requests.chatEnds && inbox.finish(() => inbox.beginsTurn(after));
  }

  /** What ended its turn is taken back: the next model call needs no message. */
  reopen(): void {
    this.#waitAfter = undefined;
  }

  /** Waits for a message. Returns false if the run must stop, is paused, or something else is asked of the loop. */
  async wait({ forUnits = false } = {}): Promise<boolean> {
    const end = await waitForMessage(this.#parts, this.#proc, this.#waitAfter ?? 0, forUnits);
    if (end !== "message" || this.#proc.paused) return false;
    this.#waitAfter = undefined;
    return true;
  }

  take(): InboxEntry[] {
    const { inboxes, table, showNewTools } = this.#parts;
    const proc = this.#proc;
    const entries = inboxes.take(proc, proc.run.turnOver);
    proc.run.turnOver = false;
    this.#delivery = undefined;
    if (!proc.toolset.messaging && hasCorrespondent(proc, entries, table)) {
      proc.toolset.messaging = true;
      showNewTools(proc);
    }
    return entries;
  }

  /** Appends it as one message, and returns its text. The record of the step acknowledges it. */
  async deliver(entries: readonly InboxEntry[]): Promise<string> {
    const { ctx, watchers } = this.#parts;
    const proc = this.#proc;
    const saysCut = proc.run.answerCut;
    proc.run.answerCut = false;
    const text = saysCut ? `${CUT_ANSWER}\n${inboxText(entries)}` : inboxText(entries);
    const images = entries.flatMap((entry) => (entry.kind === "input" ? (entry.images ?? []) : []));
    const message: Message = { role: "user", content: text, ...(images.length > 0 && { images }) };
    await ctx.append(proc, message);
    this.#delivery = {
      entries,
      message,
      seqs: entries.map(({ seq }) => seq),
      afterCheck: entries.some((entry) => entry.kind === "notice" && entry.checks !== undefined),
      saysCut,
    };
    proc.work.reading = entries.flatMap((entry) => (entry.kind === "input" ? [asUserMessage(entry)] : []));
    for (const read of proc.work.reading) watchers.emit(proc, { event: "message", state: "read", ...read });
    return text;
  }

  /** The delivery of a step that was open when the run was cut off. */
  restore(seqs: number[] | undefined): void {
    this.#delivery = seqs && { entries: [], seqs, afterCheck: false, saysCut: false };
  }

  /** Numbers of the entries in the current step, if any. */
  get seqs(): number[] | undefined {
    return this.#delivery?.seqs;
  }

  get afterCheck(): boolean {
    return this.#delivery?.afterCheck ?? false;
  }

  /** The step with the delivery has a record. */
  recorded(): void {
    this.#delivery = undefined;
    this.#proc.work.reading = [];
  }

  /**
   * Puts the delivery back into the inbox and takes it out of the conversation: the step was interrupted before its
   * answer began. Returns the numbers of the user's messages in it.
   */
  async putBack(): Promise<number[]> {
    const { ctx, inboxes, watchers } = this.#parts;
    const proc = this.#proc;
    const { entries = [], message, saysCut } = this.#delivery ?? {};
    this.#delivery = undefined;
    proc.work.reading = [];
    if (!message) return [];
    await ctx.retract(proc, message);
    proc.run.answerCut = saysCut === true;
    inboxes.of(proc).putBack(entries);
    const inputs = entries.filter((entry) => entry.kind === "input");
    for (const entry of inputs)
      watchers.emit(proc, { event: "message", state: "queued", ...asUserMessage(entry) });
    return inputs.map(({ seq }) => seq);
  }
}

/** Why the wait is over: a message is in the inbox, something else is asked of the loop, or the run must stop. */
type WaitEnd = "message" | "request" | "stopped";

/**
 * Waits until a message with a number above `after` is in the inbox, or until the loop has another request: also when the
 * last background unit is over. Nothing polls. Where it is the user's turn, the clock of the process stands still. Without
 * an attached client for `chat_idle`, the run is suspended until a message comes, unless units live. `forUnits`: the
 * answer is given, and only units keep the run alive; its time limit counts on.
 */
async function waitForMessage(
  { clock, inboxes, suspend, units }: Io,
  proc: Process,
  after: number,
  forUnits: boolean,
): Promise<WaitEnd> {
  const inbox = inboxes.of(proc);
  if (proc.stopped) return "stopped";
  if (inbox.beginsTurn(after)) return "message";
  if (proc.requests.compaction || proc.requests.model) return "request";
  if (forUnits && !units.isBusy(proc)) return "request";
  if (proc.spec.opts.chat && proc.spec.opts.untilAnswer && !units.isBusy(proc)) {
    suspend(proc, "the chat waits for its next message", { on: "message" });
    return "stopped";
  }
  const over = Promise.withResolvers<WaitEnd>();
  const ms = proc.spec.opts.limits.chat_idle;
  let idle: { cancel(): void } | undefined;
  const watch = (): void => {
    idle?.cancel();
    if (proc.watchers.isAttended || units.isBusy(proc) || units.isTeammate(proc)) return;
    const why = `no message came for ${formatDuration(ms)}`;
    idle = clock.timer(ms, () => suspend(proc, why, { on: "message" }));
  };
  const ignore = onceAborted(proc.signal, () => over.resolve("stopped"));
  inbox.onArrival(() => void (inbox.beginsTurn(after) && over.resolve("message")));
  proc.requests.wake = () => over.resolve("request");
  proc.watchers.onChange = watch;
  units.onIdle(proc, () => over.resolve("request"));
  if (!forUnits) proc.beginWait();
  units.idled(proc);
  watch();
  try {
    return await over.promise;
  } finally {
    proc.endWait();
    units.onIdle(proc, undefined);
    idle?.cancel();
    proc.watchers.onChange = undefined;
    proc.requests.wake = undefined;
    inbox.onArrival(undefined);
    ignore();
  }
}
