/** Streams the events of live processes to attached clients. */

import type { Channel } from "../../lib/channel.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import type { ChecklistItem, ToolCall } from "../../plugin/index.ts";
import type { Activity, ChildState, LiveEvent, LogEntry, RunUse } from "../../run/live-event.ts";
import type { ToolCallRecord } from "../../store/runs/schema.ts";
import type { Process } from "../process/process.ts";
import { CallOutput, type RunningCall, type Watched, Watcher } from "../process/process-activity.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { SavedRun } from "../resume/saved-run.ts";
import type { ExitStatus, KernelCallbacks, ModelAnswer, PaidRequest } from "../types.ts";
import { callEntry, entriesOf, resultEntry } from "./log-entry.ts";

/** Maximum events queued for one attached client. */
const WATCH_BUFFER = 256;
/** Maximum descendants in the state that a client gets when it attaches. */
const MAX_CHILDREN = 64;
/** The least time between two events of one call's output, and of one child's state. */
const OUTPUT_EVERY_MS = 50;
const CHILD_EVERY_MS = 100;

interface ProcessEventPorts {
  clock: Clock;
  table: Pick<ProcessTable, "parent" | "ancestry" | "tree">;
  callbacks?: KernelCallbacks;
}

/** Emits the events of processes to attached clients, through channels that never delay the process. */
export class ProcessEvents {
  readonly #ports: ProcessEventPorts;
  /** The state of a child that is emitted when its timer fires; null: it was emitted just before. */
  readonly #children = new Map<Process, { timer: Timer; changed: boolean }>();
  /** Running calls with output that was not emitted yet. */
  readonly #outputs = new Map<RunningCall, Timer>();

  constructor(ports: ProcessEventPorts) {
    this.#ports = ports;
  }

  /**
   * Attaches a client: sends the current state, then all events. Ends with `complete` once the end is on disk. `begin`
   * adds to the state; what it returns is called when the client has gone.
   */
  attach(
    proc: Process,
    watched: Watched = "all",
    begin?: (channel: Channel<LiveEvent>) => () => void,
  ): Channel<LiveEvent> {
    let gone: (() => void) | undefined;
    const close = (): void => {
      proc.watchers.delete(channel);
      gone?.();
    };
    // A reader of the log gets recorded entries from the record.
    const coalesce = watched === "all" ? { join: joinEvents, supersedes } : { supersedes: areRecorded };
    const channel = new Watcher(watched, WATCH_BUFFER, close, coalesce);
    // The calls under way are in the records of a log.
    if (watched !== "log") for (const event of this.#stateOf(proc)) channel.push(event);
    if (!proc.settled) gone = begin?.(channel);
    const activity = proc.doing();
    if (activity) {
      proc.activity.send(activity);
      channel.push({ event: "activity", activity });
    }
    if (proc.settled) channel.end({ event: "complete", info: proc.info() });
    else proc.watchers.add(channel);
    return channel;
  }

  emit(proc: Process, event: LiveEvent): void {
    for (const watcher of proc.watchers) watcher.push(event);
  }

  notice(proc: Process, text: string): void {
    this.emit(proc, { event: "notice", text });
  }

  /** A question to a person, or its end. */
  asked(proc: Process, event: Extract<LiveEvent, { event: "ask" | "ask_closed" }>): void {
    this.emit(proc, event);
    if (event.ask.uuid === proc.uuid) this.#changed(proc);
  }

  /** The list that a plugin shows of the process's whole tree. */
  checklist(proc: Process, plugin: string, items: readonly ChecklistItem[]): void {
    const root = this.#rootOf(proc);
    root.checklists.set(plugin, items);
    for (const one of this.#ports.table.tree(root)) this.emit(one, { event: "checklist", plugin, items });
  }

  /** The lists of its tree, by plugin. Empty ones are not shown. */
  checklistsOf(proc: Process): ReadonlyMap<string, readonly ChecklistItem[]> {
    return new Map([...this.#rootOf(proc).checklists].filter(([, items]) => items.length > 0));
  }

  #rootOf(proc: Process): Process {
    return this.#ports.table.ancestry(proc).at(-1) ?? proc;
  }

  /** The process runs; its first step follows. */
  begun(proc: Process): void {
    proc.onStanding = () => this.#changed(proc);
    proc.record.watch((events) => {
      if (!proc.watchers.takes("log")) return;
      // Messages that were read are emitted before they are recorded.
      const entries = events.filter(({ t }) => t !== "read").flatMap(entriesOf);
      for (const entry of entries) this.emit(proc, { event: "log", entry });
    });
    this.#emitChild(proc);
  }

  step(proc: Process): void {
    if (proc.watchers.takes("step")) this.emit(proc, stepEvent(proc));
    this.#childChanged(proc);
  }

  /** The process enters a phase; no event if it is in it already. */
  doing(proc: Process, kind: Activity["kind"], text: string, untilMs: number | null = null): void {
    const phase = { kind, text, since_ms: this.#ports.clock.now(), until_ms: untilMs };
    if (proc.activity.enter(phase)) this.#changed(proc);
  }

  answered(proc: Process, answer: Omit<ModelAnswer, "step" | "provider">): void {
    const { provider } = proc.model;
    this.#ports.callbacks?.onAnswer?.(proc.pid, { step: proc.run.step, provider, ...answer });
  }

  /** A tool call begins. `n`: the number of its event, which was recorded in this tick; none for a child of a workflow. */
  callBegun(proc: Process, call: ToolCall, path: string, n?: number): void {
    const { id, name, input } = call;
    const startedAtMs = this.#ports.clock.now();
    const output = new CallOutput(() => proc.secrets.stream());
    proc.activity.begin({ id, name, input, path, n, step: proc.run.step, startedAtMs, output });
    if (n === undefined) this.log(proc, (at) => callEntry(at, call, path));
    this.#changed(proc);
  }

  callEnded(proc: Process, record: ToolCallRecord): void {
    const call = proc.activity.end(record.id);
    if (call) this.#forgetOutput(call);
    if (call && call.n === undefined) this.log(proc, (at) => resultEntry(at, record));
    this.#ports.callbacks?.onCall?.(proc.pid, proc.run.step, record);
    if (call) this.#changed(proc);
  }

  /** A running call shows output. `skipped`: lines before it that were left out. */
  output(proc: Process, callId: string, text: string, skipped = 0): void {
    const call = proc.activity.call(callId);
    if (!call) return;
    call.output.add(text, skipped);
    if (!proc.watchers.takes("tool_output") || this.#outputs.has(call)) return;
    const timer = this.#ports.clock.timer(OUTPUT_EVERY_MS, () => this.#flushOutput(proc, call));
    this.#outputs.set(call, timer);
  }

  /** A process has paid for a model call: what it has used counts for all of its ancestors. */
  used(proc: Process, { isNew, ...paid }: PaidRequest & { isNew: boolean }): void {
    if (isNew) this.#ports.callbacks?.onUsage?.(proc.pid, paid);
    for (const one of this.#ports.table.ancestry(proc)) {
      if (one.watchers.takes("usage")) this.emit(one, { event: "usage", ...useOf(one) });
      this.#childChanged(one);
    }
  }

  ended(proc: Process): void {
    for (const { id } of proc.activity.calls) {
      const call = proc.activity.end(id);
      if (call) this.#forgetOutput(call);
    }
    proc.onStanding = undefined;
    this.#emitChild(proc);
    for (const watcher of [...proc.watchers]) watcher.end({ event: "complete", info: proc.info() });
  }

  /** Emits an entry that is not recorded, or not yet. `entry` is called only if a client is attached. */
  log(proc: Process, entry: (at: { ts: string; step: number }) => LogEntry): void {
    if (!proc.watchers.takes("log")) return;
    const ts = new Date(this.#ports.clock.now()).toISOString();
    this.emit(proc, { event: "log", entry: entry({ ts, step: proc.run.step }) });
  }

  /** The state of a process that a client gets first. Its last part, the activity, follows what else is added. */
  #stateOf(proc: Process): LiveEvent[] {
    const events: LiveEvent[] = [{ event: "spawn", info: proc.info() }];
    for (const text of proc.notices) events.push({ event: "notice", text });
    const { table } = this.#ports;
    for (const child of table.tree(proc).slice(1, 1 + MAX_CHILDREN)) {
      events.push({ event: "child", child: childState(child, table.parent(child)) });
    }
    for (const [plugin, items] of this.#rootOf(proc).checklists)
      events.push({ event: "checklist", plugin, items });
    for (const read of proc.work.reading) events.push({ event: "message", state: "read", ...read });
    if (proc.run.step > proc.run.recordedStep) {
      events.push(stepEvent(proc));
      if (proc.work.arriving !== "")
        events.push({ event: "text_delta", step: proc.run.step, text: proc.work.arriving });
    }
    for (const call of proc.activity.calls) {
      const { id, step, path, output, n } = call;
      const ts = new Date(call.startedAtMs).toISOString();
      events.push({ event: "log", entry: { ...callEntry({ ts, step }, call, path), n } });
      this.#flushOutput(proc, call);
      const text = output.tail;
      if (text !== "") events.push({ event: "tool_output", step, call_id: id, text, lines: output.lines });
    }
    return events;
  }

  #changed(proc: Process): void {
    if (proc.watchers.takes("activity")) {
      const activity = proc.doing();
      if (activity && proc.activity.send(activity)) this.emit(proc, { event: "activity", activity });
    }
    this.#childChanged(proc);
  }

  /** Emits the state of a child to its ancestors, at most once in a while. */
  #childChanged(proc: Process): void {
    if (proc.family.ppid === 0 || proc.exit || !this.#isWatchedAbove(proc)) return;
    const waiting = this.#children.get(proc);
    if (waiting) waiting.changed = true;
    else this.#emitChild(proc);
  }

  #emitChild(proc: Process): void {
    this.#children.get(proc)?.timer.cancel();
    this.#children.delete(proc);
    if (proc.family.ppid === 0 || !this.#isWatchedAbove(proc)) return;
    const child = childState(proc, this.#ports.table.parent(proc));
    for (const one of this.#ancestors(proc)) this.emit(one, { event: "child", child });
    if (proc.exit) return;
    const timer = this.#ports.clock.timer(CHILD_EVERY_MS, () => {
      const changed = this.#children.get(proc)?.changed ?? false;
      this.#children.delete(proc);
      // The end of a process is emitted elsewhere, when it is on disk.
      if (changed && !proc.exit) this.#emitChild(proc);
    });
    this.#children.set(proc, { timer, changed: false });
  }

  #isWatchedAbove(proc: Process): boolean {
    return this.#ancestors(proc).some(({ watchers }) => watchers.takes("child"));
  }

  #ancestors(proc: Process): Process[] {
    return this.#ports.table.ancestry(proc).slice(1);
  }

  #flushOutput(proc: Process, call: RunningCall): void {
    this.#forgetOutput(call);
    const text = call.output.take();
    if (text === "" || !proc.watchers.takes("tool_output")) return;
    const { id: callId, step, output } = call;
    this.emit(proc, { event: "tool_output", step, call_id: callId, text, lines: output.lines });
  }

  #forgetOutput(call: RunningCall): void {
    this.#outputs.get(call)?.cancel();
    this.#outputs.delete(call);
  }
}

function stepEvent(proc: Process): LiveEvent {
  return { event: "step", total: proc.spec.budget.limits.steps, ...useOf(proc) };
}

function useOf(proc: Process): RunUse {
  return {
    step: proc.run.step,
    tokens_used: proc.tokensUsed,
    cost_usd: proc.costUsd,
    context_tokens: proc.run.contextTokens,
    context_window: proc.model.provider.contextWindow ?? null,
  };
}

function childState(proc: Process, parent: Process | undefined): ChildState {
  const { spec, exit } = proc;
  return {
    pid: proc.pid,
    uuid: proc.uuid,
    parent_uuid: parent?.uuid ?? spec.parentUuid,
    call_id: proc.family.parentCall,
    agent: spec.agent.name,
    intent: spec.opts.workflow?.label ?? spec.intent,
    state: exit === undefined ? "running" : stateOf(exit.reason, exit.code),
    step: proc.run.step,
    max_steps: spec.budget.limits.steps,
    tokens_used: proc.tokensUsed,
    cost_usd: proc.costUsd,
    started_at_ms: proc.createdAtMs,
    doing: proc.doing(),
  };
}

function stateOf(reason: string, code: number): ChildState["state"] {
  if (reason === "suspended") return "suspended";
  return code === 0 ? "done" : "failed";
}

interface LifecycleListener {
  /** A resumed run has a process again, which has not begun a step yet. */
  onResumed?(proc: Process, saved: SavedRun): Promise<void> | void;
  /** A suspended run was ended; it has no process. */
  onEnded?(uuid: string, exit: ExitStatus): void;
}

/** Events of runs within the kernel. The part that emits one does not know which parts listen. */
export class LifecycleEvents {
  readonly #listeners: LifecycleListener[] = [];

  /** Listeners are called in the order of their subscription, for as long as the kernel lives. */
  subscribe(listener: LifecycleListener): void {
    this.#listeners.push(listener);
  }

  /** Waits for each listener before it calls the next. */
  async resumed(proc: Process, saved: SavedRun): Promise<void> {
    for (const listener of this.#listeners) await listener.onResumed?.(proc, saved);
  }

  ended(uuid: string, exit: ExitStatus): void {
    for (const listener of this.#listeners) listener.onEnded?.(uuid, exit);
  }
}

/** Maximum characters of a joined event: it bounds the memory that a client uses if it does not read. */
const MAX_JOINED_CHARS = 16 * 1024;

/** Joins consecutive text deltas of a step, and consecutive output of a call: of much output, the newest. */
export function joinEvents(last: LiveEvent, next: LiveEvent): LiveEvent | undefined {
  if (last.event === "tool_output" && next.event === "tool_output") {
    if (next.call_id !== last.call_id || next.step !== last.step) return undefined;
    return { ...next, text: (last.text + next.text).slice(-MAX_JOINED_CHARS) };
  }
  if (last.event !== "text_delta" && last.event !== "reasoning_delta") return undefined;
  if (next.event !== last.event || next.step !== last.step) return undefined;
  if (last.text.length + next.text.length > MAX_JOINED_CHARS) return undefined;
  return { ...last, text: last.text + next.text };
}

export const areRecorded = (...events: LiveEvent[]): boolean =>
  events.every((event) => event.event === "log" && event.entry.n !== undefined);

/** Whether the queued event is a state that `next` replaces. */
export function supersedes(queued: LiveEvent, next: LiveEvent): boolean {
  if (queued.event === "child") return next.event === "child" && next.child.uuid === queued.child.uuid;
  if (queued.event === "unit" && queued.op === "event")
    return next.event === "unit" && next.snapshot.id === queued.snapshot.id;
  return (queued.event === "activity" || queued.event === "usage") && next.event === queued.event;
}
