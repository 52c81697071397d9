/** The state of a run as its events show it, and what each event adds to the transcript. Knows no terminal. */

import { isTerminal } from "../../daemons/snapshot.ts";
import { unitLine } from "../../daemons/unit-line.ts";
import type { AskMode } from "../../lib/ask-modes.ts";
import type { ChecklistItem, DaemonSnapshot } from "../../plugin/index.ts";
import type { ProgressPayload, Receipt, StreamEvent } from "../../protocol/methods.ts";
import type { Activity, ChildState } from "../../protocol/stream.ts";
import { inboxBlocks } from "./inbox-blocks.ts";
import { RunCalls } from "./run-calls.ts";
import type { CallBlock, Change, ChildRun, LogEntry, LoggedCall, RunHead } from "./transcript.ts";

interface Retry {
  attempt: number;
  message: string;
  /** When the next attempt is made. */
  untilMs: number;
  /** Until when failed attempts are retried. */
  endMs: number;
}

/** Characters kept of reasoning that arrives; its end is shown. */
const THOUGHT_CHARS = 256 * 1024;

/** Activities that begin only when the model's answer is complete. */
const AFTER_ANSWER: ReadonlySet<Activity["kind"]> = new Set(["tool", "check", "compact", "end"]);

/** Activities during which the run's clock is stopped. */
const STILL: ReadonlySet<Activity["kind"]> = new Set(["paused", "input", "ask"]);

export class RunState {
  head: RunHead | null = null;
  step = 0;
  tokens = 0;
  costUsd: number | null = null;
  contextTokens: number | null = null;
  contextWindow: number | null = null;
  activity: Activity | null = null;
  retry: Retry | null = null;
  /** The reasoning that the model is sending; null between two of them. */
  thought: { text: string; sinceMs: number } | null = null;
  isAnswering = false;
  readonly children = new Map<string, ChildRun>();
  /** Live background units, by id. */
  readonly units = new Map<string, DaemonSnapshot>();
  /** The lists that plugins show, by plugin. */
  readonly checklists = new Map<string, readonly ChecklistItem[]>();
  receipt: Receipt | null = null;
  /** The mode: which calls the user is asked about without a rule. null before it is known. */
  mode: AskMode | null = null;
  /** When the view was opened. */
  readonly openedMs: number;
  readonly #isPlayed: boolean;
  readonly #clock: RunClock;
  readonly #calls: RunCalls;
  #failedAttempts = 0;
  /** The steps whose reasoning and text arrived in pieces. Their log entries repeat both, and are left out. */
  #thoughtStep = -1;
  #textStep = -1;
  /** The last text of the model. */
  #answer = "";
  readonly #notices = new Set<string>();
  /**
   * `isPlayed`: events are shown later than they happened, so times count from when they are shown. `groupsReads`: the
   * files that one answer reads are one block, after the last of them.
   */
  constructor(now: number, { isPlayed = false, groupsReads = true } = {}) {
    this.#calls = new RunCalls(groupsReads);
    this.openedMs = now;
    this.#isPlayed = isPlayed;
    this.#clock = new RunClock(now);
  }

  /** Running calls, in the order of their start. */
  get calls(): ReadonlyMap<string, CallBlock> {
    return this.#calls.running;
  }

  /** Files read by the present answer, not in the transcript yet. */
  get reads(): readonly CallBlock[] {
    return this.#calls.reads;
  }

  apply(event: StreamEvent, now: number): Change[] {
    switch (event.type) {
      case "progress":
        return this.#progress(event.payload, now);
      case "reasoning_delta":
        return this.#reasoning(event.payload, now);
      case "text_delta":
        if (event.payload.text.trim() !== "") this.#textStep = event.payload.step;
        return this.#text(event.payload.text, now);
      case "log_entry":
        return this.#entry(event.payload, now);
      case "complete": {
        const { event: _, ...receipt } = event.payload;
        return this.#complete(receipt, now);
      }
      case "tool_output":
        this.#calls.output(event.payload.call_id, event.payload.text, event.payload.lines);
        return [];
      case "ask_user":
        if (event.payload.uuid === this.head?.uuid) this.#calls.asks(event.payload);
        return [];
      case "ask_closed":
        this.#calls.answered(event.payload, now);
        return [];
      case "error":
      case "run_event":
      case "procs":
      case "syscall_event":
      case "eof":
        return [];
    }
  }

  /** A notice that was shown before the run began: its event repeats it. */
  known(notice: string): void {
    this.#notices.add(notice);
  }

  notice(text: string, now: number): Change[] {
    if (this.#notices.delete(text)) return [];
    return [...this.#settle(now), note(text, "warning")];
  }

  endStep(now: number): Change[] {
    const done = this.#settle(now);
    this.#calls.stepped();
    return done;
  }

  #progress(payload: ProgressPayload, now: number): Change[] {
    switch (payload.event) {
      case "spawn":
        return this.#spawned(payload, now);
      case "step": {
        this.#used(payload);
        const { step, total, tokens_used: tokens, cost_usd: costUsd } = payload;
        return [...this.endStep(now), { type: "step", step, total, used: { tokens, costUsd } }];
      }
      case "usage":
        this.#used(payload);
        return [];
      case "activity":
        return this.#doing(payload.activity, now);
      case "child":
        return this.#child(payload.child, now);
      case "retry":
        return this.#retried(payload, now);
      case "checklist":
        this.checklists.set(payload.plugin, payload.items);
        return [];
      case "notice":
        return this.notice(payload.text, now);
      case "mode":
        this.mode = payload.mode;
        return [];
      case "unit":
        return this.#unit(payload, now);
      // The input line shows waiting messages, and log entries show those that the model has read.
      case "message":
        return [];
    }
  }

  #spawned(payload: Extract<ProgressPayload, { event: "spawn" }>, now: number): Change[] {
    // After a lost connection the present state is sent again.
    const isKnown = this.head?.pid === payload.pid;
    this.head = payload;
    this.mode = payload.mode;
    this.contextWindow = payload.context_window;
    this.#clock.set(payload.elapsed_ms, now);
    return isKnown ? [] : [{ type: "block", block: { kind: "head", run: payload } }];
  }

  #used(use: Extract<ProgressPayload, { event: "usage" | "step" }>): void {
    this.step = use.step;
    this.tokens = use.tokens_used;
    this.costUsd = use.cost_usd;
    this.contextTokens = use.context_tokens;
    this.contextWindow = use.context_window ?? this.contextWindow;
  }

  #unit({ op, snapshot }: Extract<ProgressPayload, { event: "unit" }>, now: number): Change[] {
    if (isTerminal(snapshot.status)) this.units.delete(snapshot.id);
    else this.units.set(snapshot.id, snapshot);
    const line = unitLine(op, snapshot);
    if (line === null) return [];
    const tone = snapshot.status === "failed" ? "warning" : "quiet";
    return [...this.#settle(now), note(line, tone)];
  }

  elapsedMs(now: number): number {
    return this.#clock.elapsedMs(now);
  }

  #doing(activity: Activity, now: number): Change[] {
    const done = this.#over(activity.kind, now);
    this.activity = this.#isPlayed ? { ...activity, since_ms: now } : activity;
    this.#clock.move(!STILL.has(activity.kind), now);
    return done;
  }

  /** The changes for what ends when the run begins this activity. */
  #over(kind: Activity["kind"], now: number): Change[] {
    // The turn is over, and with it the attempts.
    if (kind === "input") {
      this.retry = null;
      return this.#settle(now);
    }
    // The text of the model is over, also before its log entry.
    return AFTER_ANSWER.has(kind) ? [...this.#endThought(now), ...this.#endAnswer()] : [];
  }

  #child(child: ChildState, now: number): Change[] {
    const hasEnded = child.state === "done" || child.state === "failed";
    this.children.set(child.uuid, { ...child, endedMs: hasEnded ? now : null });
    const isCalled = child.call_id !== null || this.children.has(child.parent_uuid ?? "");
    if (!hasEnded || isCalled) return [];
    // No call of the run waits for it: its end is a line of its own.
    this.#dropTree(child.uuid);
    return [{ type: "block", block: { kind: "agent", child: { ...child, endedMs: now } } }];
  }

  #retried(payload: Extract<ProgressPayload, { event: "retry" }>, now: number): Change[] {
    const lost: Change[] = this.isAnswering ? [{ type: "answer_lost" }] : [];
    // The text of an earlier step stays the run's last one.
    if (this.isAnswering) this.#answer = "";
    this.isAnswering = false;
    this.thought = null;
    this.#failedAttempts = payload.attempt;
    this.retry = {
      attempt: payload.attempt,
      message: payload.message,
      untilMs: now + payload.delay_ms,
      endMs: now + payload.left_ms,
    };
    return [...lost, { type: "retry", retry: payload }];
  }

  /** The model answers again, or the run ends: the failed attempts become one line. */
  #answered(isAnswered = true): Change[] {
    const { retry } = this;
    if (retry === null) return [];
    this.retry = null;
    return [{ type: "retried", attempts: this.#failedAttempts, message: retry.message, isAnswered }];
  }

  #reasoning({ step, text }: { step: number; text: string }, now: number): Change[] {
    const done = [...this.#answered(), ...this.#endAnswer(), ...this.#flushReads()];
    this.#thoughtStep = step;
    this.thought ??= { text: "", sinceMs: now };
    this.thought.text = (this.thought.text + text).slice(-THOUGHT_CHARS);
    return [...done, { type: "thought", text }];
  }

  #text(text: string, now: number): Change[] {
    if (text === "") return [];
    // White space before a call is not an answer.
    if (!this.isAnswering && text.trim() === "") return [];
    const done = [...this.#answered(), ...this.#endThought(now), ...this.#flushReads()];
    if (!this.isAnswering) this.#answer = "";
    this.isAnswering = true;
    this.#answer += text;
    return [...done, { type: "answer", text }];
  }

  #entry(entry: LogEntry, now: number): Change[] {
    const { kind, step, text, call } = entry;
    switch (kind) {
      case "thought":
        if (step === this.#thoughtStep || text.trim() === "") return [];
        return [...this.#settle(now), { type: "block", block: { kind: "thought", text, ms: null } }];
      case "text":
        if (step === this.#textStep || text.trim() === "") return [];
        return [...this.#text(text, now), ...this.#endAnswer()];
      case "tool":
        return call === undefined ? [] : this.#callStarted(call, now);
      case "result":
        return call === undefined ? [] : this.#callEnded(call, now);
      case "inbox":
        return [...this.#settle(now), ...inboxBlocks(text)];
      case "compact":
      case "unit":
      case "model":
        return [...this.#settle(now), note(text, "quiet")];
      case "end":
        return this.#settle(now);
    }
  }

  #callStarted(call: LoggedCall, now: number): Change[] {
    const done = [...this.#answered(), ...this.#endThought(now), ...this.#endAnswer()];
    this.#calls.started(call, now, this.#isPlayed);
    return [...done, { type: "call", call }];
  }

  #callEnded(call: LoggedCall, now: number): Change[] {
    const done = [...this.#answered(), ...this.#endThought(now), ...this.#endAnswer()];
    const block = this.#calls.ended(call, now);
    if (block === null) return done;
    const agents = this.#takeChildren(call.id);
    const reads = this.#calls.isReading ? [] : this.#flushReads();
    return [...done, ...reads, { type: "block", block: { kind: "call", call: block, agents } }];
  }

  /** Removes the children of an ended call from the live region. */
  #takeChildren(callId: string): ChildRun[] {
    const taken = [...this.children.values()].filter((child) => child.call_id === callId);
    for (const { uuid } of taken) this.#dropTree(uuid);
    return taken;
  }

  #dropTree(uuid: string): void {
    this.children.delete(uuid);
    for (const child of [...this.children.values()])
      if (child.parent_uuid === uuid) this.#dropTree(child.uuid);
  }

  #complete(receipt: Receipt, now: number): Change[] {
    const done = this.#settle(now);
    for (const call of this.#calls.cutOff(now))
      done.push({ type: "block", block: { kind: "call", call, agents: this.#takeChildren(call.id) } });
    this.children.clear();
    this.checklists.clear();
    this.activity = null;
    // The error of the model is the run's own.
    if (receipt.exit_reason !== "llm_error") done.push(...this.#answered(false));
    this.retry = null;
    this.receipt = receipt;
    this.tokens = receipt.tokens_used;
    this.costUsd = receipt.cost_usd;
    const result = receipt.result ?? "";
    if (result.trim() !== "" && result.trim() !== this.#answer.trim()) {
      done.push({ type: "answer", text: result }, { type: "answer_end" });
    }
    return [...done, { type: "block", block: { kind: "end", receipt } }];
  }

  /** Ends the reasoning, the text and the group of reads. */
  #settle(now: number): Change[] {
    return [...this.#endThought(now), ...this.#endAnswer(), ...this.#flushReads()];
  }

  #endThought(now: number): Change[] {
    const { thought } = this;
    this.thought = null;
    if (thought === null || thought.text.trim() === "") return [];
    const ms = now - thought.sinceMs;
    return [...this.#flushReads(), { type: "block", block: { kind: "thought", text: thought.text, ms } }];
  }

  #endAnswer(): Change[] {
    if (!this.isAnswering) return [];
    this.isAnswering = false;
    return [{ type: "answer_end" }];
  }

  #flushReads(): Change[] {
    const calls = this.#calls.takeReads();
    return calls.length === 0 ? [] : [{ type: "block", block: { kind: "reads", calls } }];
  }
}

function note(text: string, tone: "warning" | "quiet"): Change {
  return { type: "block", block: { kind: "note", text, tone } };
}

/** Running time of a run: it stands still while the run is paused or waits for the user. */
class RunClock {
  #ranMs = 0;
  /** null: it stands still. */
  #since: number | null;

  constructor(now: number) {
    this.#since = now;
  }

  /** The run says how long it has run. */
  set(ranMs: number, now: number): void {
    this.#ranMs = ranMs;
    this.#since = now;
  }

  move(moves: boolean, now: number): void {
    if (moves === (this.#since !== null)) return;
    this.#ranMs = this.elapsedMs(now);
    this.#since = moves ? now : null;
  }

  elapsedMs(now: number): number {
    return this.#ranMs + (this.#since === null ? 0 : Math.max(0, now - this.#since));
  }
}
