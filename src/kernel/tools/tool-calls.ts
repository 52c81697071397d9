/** Runs the tool calls of a step, in order or in parallel, and records them. */

import { type Clock, orAborted } from "../../lib/clock.ts";
import { SyscallError, type ToolCall, type ToolDef } from "../../plugin/index.ts";
import type { ToolCallRecord } from "../../store/runs/schema.ts";
import { AGENT_PATH } from "../../vfs/kernel-paths.ts";
import { onlyReads } from "../permission/harmless-commands.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTool } from "../process/process-spec.ts";
import type { Io } from "../tiers/io.ts";
import { type CallState, callDevice, checkToolInput, devicePath, stateOf, subjectOf } from "./device-call.ts";
import type { Drain } from "./open-calls.ts";
import { awaitMounts, deferredTools, toolNamed } from "./tool-catalog.ts";

/** The share of a truncated result that its beginning gets; its end gets the rest. */
const HEAD_SHARE = 0.75;
/** Maximum tool calls run per answer; the rest are rejected with EXHAUSTED. */
export const MAX_CALLS_PER_ANSWER = 256;

/**
 * Runs the tool calls of one answer in order. Consecutive read-only calls run in parallel, and so do consecutive calls
 * of Agent; the records stay in the order of the calls. A failed call is a result; only a record that can't be written
 * throws. Records of the last batch may be `waiting`, and continue after a resume. If the run is suspended between two
 * calls, there are fewer records than calls. `settled` holds the calls of a resumed step that are not repeated, by id.
 */
export async function runToolCalls(
  parts: Io,
  proc: Process,
  calls: readonly ToolCall[],
  settled: ReadonlyMap<string, ToolCallRecord> = NONE,
): Promise<ToolCallRecord[]> {
  const names = calls.map(({ name }) => name);
  // If the work is interrupted meanwhile, each call says so in its record.
  const ready = awaitMounts(proc, (prefix) => names.some((name) => name.startsWith(prefix)));
  await orAborted(ready, proc.work.signal).catch(() => undefined);
  const step = new StepCalls(parts, proc);
  try {
    const records = await runInOrder(parts, proc, calls, settled, step);
    if (proc.run.filesChanged.size > 0)
      await (await import("./plugin-hooks.ts")).notifyOfChanges(proc, parts.makeContext);
    return records;
  } finally {
    if (step.mayHaveChangedFiles) parts.changes.settle(proc);
  }
}

async function runInOrder(
  parts: Io,
  proc: Process,
  calls: readonly ToolCall[],
  settled: ReadonlyMap<string, ToolCallRecord>,
  step: StepCalls,
): Promise<ToolCallRecord[]> {
  const order = new CallOrder();
  let isOver = false;
  const run = async (call: ToolCall): Promise<ToolCallRecord | undefined> => {
    if (!isOver && parts.drain.isOn) isOver = await isSuspendedByDrain(parts.drain, proc);
    if (isOver) return undefined;
    try {
      const record = settled.get(call.id) ?? (await step.run(call));
      // The run is suspended: later calls start after a resume.
      if (record.state === "waiting") isOver = true;
      return record;
    } catch (thrown) {
      isOver = true;
      throw thrown;
    }
  };
  const made = calls
    .slice(0, MAX_CALLS_PER_ANSWER)
    .map((call) => order.run(groupOf(toolNamed(proc, call.name)), () => run(call)));
  // All calls end before a failure is thrown: no work continues unrecorded.
  await Promise.allSettled(made);
  const records = (await Promise.all(made)).filter((record) => record !== undefined);
  if (records.length < MAX_CALLS_PER_ANSWER) return records;
  const rest = calls.slice(MAX_CALLS_PER_ANSWER);
  return [...records, ...rest.map((call) => tooMany(call, calls.length, parts.clock))];
}

/** Whether the kernel drains and the run was suspended here: its next calls are made after a resume. */
async function isSuspendedByDrain(drain: Drain, proc: Process): Promise<boolean> {
  return (await drain.waitForSuspend(proc)) && proc.stopped?.reason === "suspended";
}

/** The record of a rejected call. It can be repeated, so the journal does not need it. */
function tooMany({ id, name, input }: ToolCall, asked: number, clock: Clock): ToolCallRecord {
  return {
    id,
    name,
    path: null,
    input,
    result: null,
    error: `One answer may ask for ${MAX_CALLS_PER_ANSWER} tool calls; yours asked for ${asked}, and this one was not made. Look at the results of the first ones, then ask for what is still needed.`,
    error_code: "EXHAUSTED",
    started_at: new Date(clock.now()).toISOString(),
    duration_ms: 0,
    state: "failed",
  };
}

const NONE: ReadonlyMap<string, ToolCallRecord> = new Map();

/** Runs the calls of one step. A call's start is in the journal before it runs, and its end before anything uses it. */
export class StepCalls {
  readonly #parts: Io;
  readonly #proc: Process;
  /** When the calls so far are not read-only: the journal is durable. */
  #durable: Promise<unknown> | undefined;
  /** When the calls so far may change files: these changes can be detected. */
  #compared: Promise<unknown> | undefined;

  constructor(parts: Io, proc: Process) {
    this.#parts = parts;
    this.#proc = proc;
  }

  get mayHaveChangedFiles(): boolean {
    return this.#compared !== undefined;
  }

  async run(call: ToolCall): Promise<ToolCallRecord> {
    const proc = this.#proc;
    const started = new Date(this.#parts.clock.now()).toISOString();
    const startedMono = this.#parts.clock.monotonic();
    const target = toolNamed(proc, call.name);
    const path = target ? target.entry.path : null;
    let outcome: CallResult;
    if (proc.stopped || proc.work.interrupted) {
      outcome = { state: "cancelled", error: notStarted(proc, call) };
    } else {
      const attempt = (): Promise<CallResult> => this.#attempt(call, target, started);
      outcome = await this.#parts.drain.call(proc, call.id, attempt);
    }
    const hasAsked = proc.asks.size > 0 || proc.verdicts.has(call.id);
    const { asked, waitedMs, added } = hasAsked ? this.#parts.asks.take(proc, call.id) : NOT_ASKED;
    const inbox = this.#parts.inboxes.settle(proc, call.id, outcome.state === "done");
    const modelUse = proc.run.modelUse.get(call.id);
    proc.run.modelUse.delete(call.id);
    const waiting = outcome.state !== "done" && this.#isSuspendedWaiting(call);
    const record: ToolCallRecord = {
      id: call.id,
      name: call.name,
      path,
      input: call.input,
      result: outcome.result === undefined ? null : outcome.result + added,
      ...(outcome.kept && { kept: outcome.kept }),
      error: outcome.error ? outcome.error.message + added : null,
      error_code: outcome.error?.code ?? null,
      started_at: started,
      duration_ms: Math.round(this.#parts.clock.monotonic() - startedMono - waitedMs),
      ...(waitedMs >= 1 && { waited_ms: Math.round(waitedMs) }),
      state: waiting ? "waiting" : outcome.state,
      ...(inbox.length > 0 && { inbox }),
      ...(asked.length > 0 && { asked }),
      ...(modelUse && { model_use: modelUse }),
    };
    // The journal has what it waits for, which becomes its result.
    if (waiting) return record;
    proc.record.journal({
      t: "call_end",
      step: proc.run.step,
      ts: new Date(this.#parts.clock.now()).toISOString(),
      call: record,
    });
    this.#parts.watchers.callEnded(proc, record);
    return record;
  }

  /** Whether the call waits and its run is suspended. */
  #isSuspendedWaiting(call: ToolCall): boolean {
    const proc = this.#proc;
    return proc.stopped?.reason === "suspended" && this.#parts.waiting.of(proc, call.id) !== undefined;
  }

  async #attempt(call: ToolCall, target: ProcessTool | undefined, ts: string): Promise<CallResult> {
    const proc = this.#proc;
    let path: string;
    try {
      if (!target) throw unknownTool(proc, call.name);
      checkInput(proc, target.tool, call);
      path = devicePath(target, call);
    } catch (thrown) {
      return failure(thrown);
    }
    const repeatable = isRepeatable(target);
    const n = proc.record.journal({
      t: "call_start",
      step: proc.run.step,
      ts,
      id: call.id,
      name: call.name,
      path,
      input: call.input,
      safe: repeatable,
    });
    this.#parts.watchers.callBegun(proc, call, path, n);
    if (!isReadOnly(target)) {
      if (!repeatable) proc.run.acted = true;
      await this.#beforeEffect(repeatable, isReadingCommand(target, call));
    }
    // The run may have been stopped while the disk was written.
    if (proc.stopped || proc.work.interrupted) return { state: "cancelled", error: notStarted(proc, call) };
    this.#parts.waiting.count(proc, call.id);
    // A child's own calls count for its parent: the wait for it changes nothing.
    const over = groupOf(target) === undefined ? this.#parts.changes.call(proc) : undefined;
    try {
      return await this.#callDevice(call, target, path);
    } finally {
      over?.();
    }
  }

  /**
   * Makes the journal durable before a call may change something. One fdatasync per step is enough, unless a call must
   * not be repeated: then its start must be durable too. Parallel calls continue in the order of the answer.
   */
  async #beforeEffect(repeatable: boolean, onlyReads: boolean): Promise<void> {
    const { record } = this.#proc;
    const { changes } = this.#parts;
    const begun = onlyReads && !this.#compared ? changes.begin(this.#proc, true) : undefined;
    if (!onlyReads) this.#compared ??= changes.begin(this.#proc, false);
    if (!this.#durable) this.#durable = record.sync();
    else if (!repeatable) this.#durable = Promise.all([this.#durable, record.sync()]);
    await Promise.all([this.#durable, begun ?? this.#compared]);
  }

  async #callDevice(call: ToolCall, target: ProcessTool, path: string): Promise<CallResult> {
    try {
      const text = await callDevice(this.#parts, this.#proc, call, target, path);
      return { state: "done", ...(await this.#truncate(call, target, text)) };
    } catch (thrown) {
      const failed = failure(thrown);
      const output = failed.error?.output;
      return output ? { ...failed, ...(await this.#truncate(call, target, output)) } : failed;
    }
  }

  /** Truncates a result that is too long for the model. The whole result is stored with the run. */
  async #truncate(call: ToolCall, target: ProcessTool, text: string): Promise<ShownResult> {
    const max = target.tool.maxResult ?? this.#proc.spec.opts.limits.tool_result_chars;
    if (text.length <= max) return { result: text };
    const { where, kept } = await this.#keep(call, text);
    const head = Math.ceil(max * HEAD_SHARE);
    const tail = max - head;
    const result = `${text.slice(0, head)}\n[… ${text.length - max} of ${text.length} characters left out here. ${where} …]\n${text.slice(text.length - tail)}`;
    return { result, ...(kept && { kept }) };
  }

  /** Stores the whole result. If that fails, the call still succeeds, because it has been made. */
  async #keep(call: ToolCall, text: string): Promise<{ where: string; kept?: KeptRef }> {
    try {
      const { path, ...kept } = await this.#proc.record.storeBlob(`${call.name}.txt`, text);
      return { where: `The whole result is in ${path}`, kept };
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      return { where: `The whole result could not be stored: ${thrown.message}` };
    }
  }
}

/** Of a call about which no person was asked. */
const NOT_ASKED = { asked: [], waitedMs: 0, added: "" };

/** The part of a result that is recorded with its call. */
type ShownResult = Pick<ToolCallRecord, "kept"> & { result: string };
type KeptRef = NonNullable<ToolCallRecord["kept"]>;

interface CallResult {
  state: CallState;
  result?: string;
  kept?: KeptRef;
  error?: SyscallError;
}

/**
 * Whether a call of Bash runs commands that only read. Nothing is compared for it, and it waits for the run's first
 * snapshot only; if it changes files after all, the next comparison finds that.
 */
function isReadingCommand(target: ProcessTool, call: ToolCall): boolean {
  if (target.entry.isStock !== true || !target.entry.path.startsWith("/dev/shell")) return false;
  const line = subjectOf(target, call);
  return line !== undefined && onlyReads(line);
}

function notStarted({ work }: Process, { name }: ToolCall): SyscallError {
  const why = work.interrupted ? "The user interrupted the work" : "The run was stopped";
  return new SyscallError("CANCELLED", `${why} before ${name} started: nothing was done.`);
}

function failure(thrown: unknown): CallResult {
  if (!(thrown instanceof SyscallError)) throw thrown;
  return { state: stateOf(thrown), error: thrown };
}

/**
 * Whether a call without a recorded end may be repeated. Agent: until the journal says which child the call waits
 * for, no child was spawned.
 */
function isRepeatable(target: ProcessTool): boolean {
  return groupOf(target) !== undefined || target.tool.annotations?.idempotentHint === true;
}

/** A deferred tool may be called at once. If the input is wrong, the model learns how to see its schema. */
function checkInput(proc: Process, tool: ToolDef, call: ToolCall): void {
  try {
    checkToolInput(tool, call);
  } catch (thrown) {
    if (proc.toolset.shown.has(tool.name) || !(thrown instanceof SyscallError)) throw thrown;
    const hint = deferredTools(proc).some((one) => one.tool === tool)
      ? " Load the tool with ToolSearch to see its schema."
      : "";
    throw new SyscallError(thrown.code, thrown.message + hint, { cause: thrown });
  }
}

function unknownTool(proc: Process, name: string): SyscallError {
  const names = [...proc.toolset.shown.keys(), ...deferredTools(proc).map(({ tool }) => tool.name)];
  return new SyscallError(
    "NOT_FOUND",
    `There is no tool ${JSON.stringify(name)}. Available tools: ${names.join(", ") || "none"}.`,
  );
}

/** Maximum read-only calls that run in parallel. Calls of Agent are limited by `live_children` instead. */
export const MAX_PARALLEL = 8;

/** Calls of one group run in parallel when they follow each other: read-only calls, or calls of Agent. */
type CallGroup = "read" | "agent";

/** Returns undefined for a call that runs alone. */
export function groupOf(target: ProcessTool | undefined): CallGroup | undefined {
  if (isReadOnly(target)) return "read";
  return target?.entry.path === AGENT_PATH ? "agent" : undefined;
}

function isReadOnly(target: ProcessTool | undefined): boolean {
  return target?.tool.annotations?.readOnlyHint === true;
}

/** Runs calls in the order in which they come: each after the calls before it, except those of its group. */
export class CallOrder {
  #before: Promise<unknown> = Promise.resolve();
  #group: CallGroup | undefined;
  #running: Promise<unknown>[] = [];

  run<T>(group: CallGroup | undefined, work: () => Promise<T>): Promise<T> {
    const joins =
      group !== undefined &&
      group === this.#group &&
      (group === "agent" || this.#running.length < MAX_PARALLEL);
    if (!joins) {
      this.#before = Promise.all([this.#before, ...this.#running]);
      this.#running = [];
      this.#group = group;
    }
    const done = this.#before.then(work);
    this.#running.push(done.catch(() => undefined));
    return done;
  }
}
