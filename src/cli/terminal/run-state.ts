/** The state of a run as its events show it, and what each event adds to the transcript. Knows no terminal. */

import type { ChecklistItem } from "../../plugin/index.ts";
import type { AskClosed, AskUser, ProgressPayload, Receipt, StreamEvent } from "../../protocol/methods.ts";
import type { Activity, ChildState } from "../../protocol/stream.ts";
import type { LogEntry } from "../output/log.ts";
import { callBlock, runningMs } from "./call-block.ts";
import { inboxBlocks } from "./inbox-blocks.ts";
import { RunClock } from "./run-clock.ts";
import type { CallBlock, Change, ChildRun, LoggedCall, RunHead } from "./transcript.ts";

interface Retry {
  attempt: number;
  message: string;
  /** When the next attempt is made. */
  untilMs: number;
  /** Until when failed attempts are retried. */
  endMs: number;
}

/** Characters kept of the output of a running call. */
const TAIL_CHARS = 8 * 1024;
/** Characters kept of reasoning that arrives; its end is shown. */
const THOUGHT_CHARS = 256 * 1024;
/** Tools whose result a person seldom reads: several of one answer share a line. */
const GROUPED: ReadonlySet<string> = new Set(["Read"]);

/** What a run does only when the model's answer is complete. */
const AFTER_ANSWER: ReadonlySet<Activity["kind"]> = new Set(["tool", "check", "compact", "end"]);

/** What a run does while its clock stands still. */
const STILL: ReadonlySet<Activity["kind"]> = new Set(["paused", "input", "ask"]);

export class RunState {
  head: RunHead | null = null;
  step = 0;
  /** Maximum steps; null where there is no limit. */
  total: number | null = null;
  tokens = 0;
  costUsd: number | null = null;
  contextTokens: number | null = null;
  contextWindow: number | null = null;
  activity: Activity | null = null;
  retry: Retry | null = null;
  /** The reasoning that arrives now. */
  thought: { text: string; sinceMs: number } | null = null;
  /** Text of the model arrives now. */
  isAnswering = false;
  /** Running calls, in the order of their start. */
  readonly calls = new Map<string, CallBlock>();
  /** Files read by the present answer, not in the transcript yet. */
  reads: CallBlock[] = [];
  readonly children = new Map<string, ChildRun>();
  /** The lists that plugins show, by plugin. */
  readonly checklists = new Map<string, readonly ChecklistItem[]>();
  receipt: Receipt | null = null;
  /** Messages of the user that the model has not read. */
  readonly queued = new Map<number, { text: string; when: "next_step" | "after_answer" }>();
  /** When the view was opened. */
  readonly openedMs: number;
  readonly #isPlayed: boolean;
  readonly #clock: RunClock;
  #failedAttempts = 0;
  /** The step whose reasoning and text arrived in pieces: the log's entries repeat them. */
  #thoughtStep = -1;
  #textStep = -1;
  /** The last text of the model. */
  #answer = "";
  readonly #notices = new Set<string>();
  /** The calls that a person is asked about, by question. */
  readonly #asked = new Map<string, { callId: string; sinceMs: number }>();
  /** The calls of the present step, in the order of their start. */
  readonly #order = new Map<string, number>();

  /** `isPlayed`: events are shown later than they happened, so that times begin when they are shown. */
  constructor(now: number, { isPlayed = false }: { isPlayed?: boolean } = {}) {
    this.openedMs = now;
    this.#isPlayed = isPlayed;
    this.#clock = new RunClock(now);
  }

  apply(event: StreamEvent, now: number): Change[] {
    switch (event.type) {
      case "progress":
        return this.#progress(event.payload, now);
      case "reasoning_delta":
        return this.#reasoning(event.payload, now);
      case "text_delta":
        return this.#text(event.payload, now);
      case "log_entry":
        return this.#entry(event.payload, now);
      case "complete": {
        const { event: _, ...receipt } = event.payload;
        return this.#complete(receipt, now);
      }
      case "tool_output":
        this.#output(event.payload);
        return [];
      case "ask_user":
        this.#asks(event.payload);
        return [];
      case "ask_closed":
        this.#answered(event.payload, now);
        return [];
      case "error":
      case "syscall_event":
      case "eof":
        return [];
    }
  }

  #output({ call_id, text, lines }: Extract<StreamEvent, { type: "tool_output" }>["payload"]): void {
    const call = this.calls.get(call_id);
    if (call === undefined) return;
    call.tail = (call.tail + text).slice(-TAIL_CHARS);
    call.lines = lines;
  }

  /** The clock of a call stands still while a person is asked about it. */
  #asks({ request_id, uuid, call_id, asked_at_ms }: AskUser): void {
    if (uuid !== this.head?.uuid || call_id === null) return;
    this.#asked.set(request_id, { callId: call_id, sinceMs: asked_at_ms });
    const call = this.calls.get(call_id);
    if (call !== undefined) call.askedMs = Math.max(call.startedMs, asked_at_ms);
  }

  #answered({ request_id }: AskClosed, now: number): void {
    const call = this.calls.get(this.#asked.get(request_id)?.callId ?? "");
    this.#asked.delete(request_id);
    if (call === undefined || call.askedMs === null) return;
    call.startedMs += now - call.askedMs;
    call.askedMs = null;
  }

  /** A notice that was shown before the run began: its event repeats it. */
  known(notice: string): void {
    this.#notices.add(notice);
  }

  notice(text: string, now: number): Change[] {
    if (this.#notices.delete(text)) return [];
    return [...this.#settle(now), note(text, "warning")];
  }

  #progress(payload: ProgressPayload, now: number): Change[] {
    switch (payload.event) {
      case "spawn":
        return this.#spawned(payload, now);
      case "step": {
        const done = this.#settle(now);
        this.#order.clear();
        this.total = payload.total;
        this.#used(payload);
        return done;
      }
      case "usage":
        this.#used(payload);
        return [];
      case "activity":
        return this.#doing(payload.activity, now);
      case "child":
        return this.#child(payload.child, now);
      case "message":
        this.#message(payload);
        return [];
      case "retry":
        return this.#retried(payload, now);
      case "checklist":
        this.checklists.set(payload.plugin, payload.items);
        return [];
      case "notice":
        return this.notice(payload.text, now);
    }
  }

  #spawned(payload: Extract<ProgressPayload, { event: "spawn" }>, now: number): Change[] {
    // After a lost connection the present state is sent again.
    const isKnown = this.head?.pid === payload.pid;
    this.head = payload;
    this.total = payload.max_steps;
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

  elapsedMs(now: number): number {
    return this.#clock.elapsedMs(now);
  }

  #doing(activity: Activity, now: number): Change[] {
    const done = this.#over(activity.kind, now);
    this.activity = this.#isPlayed ? { ...activity, since_ms: now } : activity;
    this.#clock.move(!STILL.has(activity.kind), now);
    return done;
  }

  /** What has ended when the run begins this. */
  #over(kind: Activity["kind"], now: number): Change[] {
    // What comes next is another turn.
    if (kind === "input") return this.#settle(now);
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

  #message({ seq, text, state, when }: Extract<ProgressPayload, { event: "message" }>): void {
    if (state === "queued") this.queued.set(seq, { text, when });
    else this.queued.delete(seq);
  }

  #retried(payload: Extract<ProgressPayload, { event: "retry" }>, now: number): Change[] {
    const lost: Change[] = this.isAnswering ? [{ type: "answer_lost" }] : [];
    this.isAnswering = false;
    this.thought = null;
    this.#answer = "";
    this.#failedAttempts = payload.attempt;
    this.retry = {
      attempt: payload.attempt,
      message: payload.message,
      untilMs: now + payload.delay_ms,
      endMs: now + payload.left_ms,
    };
    return lost;
  }

  /** The model answers again: the failed attempts become one line. */
  #modelAnswered(): Change[] {
    const { retry } = this;
    if (retry === null) return [];
    this.retry = null;
    const times = this.#failedAttempts === 1 ? "1 attempt" : `${this.#failedAttempts} attempts`;
    return [note(`${times} failed before the model answered: ${retry.message}`, "quiet")];
  }

  #reasoning({ step, text }: Delta, now: number): Change[] {
    const done = [...this.#modelAnswered(), ...this.#endAnswer(), ...this.#flushReads()];
    this.#thoughtStep = step;
    this.thought ??= { text: "", sinceMs: now };
    this.thought.text = (this.thought.text + text).slice(-THOUGHT_CHARS);
    return done;
  }

  #text({ step, text }: Delta, now: number): Change[] {
    if (text === "") return [];
    // White space before a call is not an answer.
    if (!this.isAnswering && text.trim() === "") return [];
    const done = [...this.#modelAnswered(), ...this.#endThought(now), ...this.#flushReads()];
    if (!this.isAnswering) this.#answer = "";
    this.isAnswering = true;
    this.#textStep = step;
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
        return [...this.#text({ step, text }, now), ...this.#endAnswer()];
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
        return [];
    }
  }

  #callStarted(call: LoggedCall, now: number): Change[] {
    const done = [...this.#modelAnswered(), ...this.#endThought(now), ...this.#endAnswer()];
    const block = callBlock(call, now);
    if (this.#isPlayed) block.startedMs = now;
    const asked = [...this.#asked.values()].find(({ callId }) => callId === call.id);
    if (asked !== undefined) block.askedMs = Math.max(block.startedMs, asked.sinceMs);
    if (!this.calls.has(call.id)) this.calls.set(call.id, block);
    this.#order.set(call.id, this.#order.size);
    return done;
  }

  #callEnded(call: LoggedCall, now: number): Change[] {
    const done = [...this.#modelAnswered(), ...this.#endThought(now), ...this.#endAnswer()];
    this.calls.delete(call.id);
    const block = callBlock(call, now);
    if (GROUPED.has(call.name) && call.state === "done") {
      this.reads.push(block);
      this.reads.sort((a, b) => (this.#order.get(a.id) ?? 0) - (this.#order.get(b.id) ?? 0));
      return done;
    }
    const agents = this.#takeChildren(call.id);
    // While a file is still read, those read so far wait for it.
    const isReading = [...this.calls.values()].some(({ name }) => GROUPED.has(name));
    const reads = isReading ? [] : this.#flushReads();
    return [...done, ...reads, { type: "block", block: { kind: "call", call: block, agents } }];
  }

  /** The children of a call that ended leave the live part with it. */
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
    // Calls that the end of the run cut off have no result.
    for (const call of this.calls.values()) {
      const cut: CallBlock = { ...call, state: "cancelled", duration_ms: runningMs(call, now) };
      done.push({ type: "block", block: { kind: "call", call: cut, agents: this.#takeChildren(call.id) } });
    }
    this.calls.clear();
    this.children.clear();
    this.checklists.clear();
    this.activity = null;
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

  /** Ends what arrives in pieces. */
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
    const calls = this.reads;
    if (calls.length === 0) return [];
    this.reads = [];
    return [{ type: "block", block: { kind: "reads", calls } }];
  }
}

type Delta = { step: number; text: string };
function note(text: string, tone: "warning" | "quiet"): Change {
  return { type: "block", block: { kind: "note", text, tone } };
}
