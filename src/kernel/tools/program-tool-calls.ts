/** The tool calls of a program that is the model. */

import { Abort, onceAborted } from "../../lib/clock.ts";
import { CODES, type LLMEvent, SyscallError, type ToolDef, type ToolOutcome } from "../../plugin/index.ts";
import type { ToolCallRecord } from "../../store/runs/schema.ts";
import { toolMessage } from "../conversation/conversations.ts";
import type { Process } from "../process/process.ts";
import type { Io } from "../tiers/io.ts";
import { CallOrder, groupOf, StepCalls } from "./tool-calls.ts";
import { toolNamed, toolsOfProgram } from "./tool-catalog.ts";

/** Maximum calls of one answer that wait or run. */
const MAX_OPEN = 256;

/** The slot of a model call, which the program releases while its tool calls run. */
interface ReleasableSlot {
  release(): void;
  reacquire(): Promise<void>;
}

/** The text and tool calls of a program between two of its model requests: one step of the run. */
export interface ProgramTurn {
  text: string;
  reasoning: string;
  calls: ToolCallRecord[];
}

interface TurnEvents {
  /** The first call of a turn is about to run, after this text. */
  called(text: string, reasoning: string): void;
  /** A turn is over, and all its calls have ended. An exception ends the answer. */
  ended(turn: ProgramTurn): void;
  /** The next turn has begun. An exception ends the answer. */
  next(): void;
}

/**
 * Runs the tool calls that a program makes itself while it answers as the process's model (service `tools`). As in
 * the loop, they run in order, and read-only calls and calls of Agent run in parallel. A turn ends with the event
 * `turn`, or with the first text after a call.
 */
export class ProgramToolCalls {
  /** Why a step ended the answer, if it did. */
  stopped: { because: unknown } | undefined;
  /** The program has called a tool, so the same request must not be repeated. */
  hasCalled = false;
  readonly #parts: Io;
  readonly #proc: Process;
  readonly #events: TurnEvents;
  readonly #abort = new Abort();
  readonly #detach: () => void;
  readonly #order = new CallOrder();
  readonly #open = new Set<Promise<unknown>>();
  #calls: { record?: ToolCallRecord }[] = [];
  #step: StepCalls | undefined;
  #text = "";
  #reasoning = "";
  #slot: ReleasableSlot | undefined;
  #closed = false;

  constructor(parts: Io, proc: Process, events: TurnEvents) {
    this.#parts = parts;
    this.#proc = proc;
    this.#events = events;
    const { signal } = proc.work;
    this.#detach = onceAborted(signal, () => this.#abort.abort(signal.reason));
  }

  /** Follows the process's work, and aborts when a step ends the answer. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The slot of the model call, released while tool calls are under way. */
  setSlot(slot: ReleasableSlot): void {
    this.#slot = slot;
  }

  /** A call is under way, so the program may be silent. */
  get busy(): boolean {
    return this.#open.size > 0;
  }

  get turnText(): { text: string; reasoning: string } {
    return { text: this.#text, reasoning: this.#reasoning };
  }

  list(): ToolDef[] {
    this.#requireOpen();
    return toolsOfProgram(this.#proc);
  }

  async call(name: string, input: Record<string, unknown>): Promise<ToolOutcome> {
    this.#requireOpen();
    if (this.#open.size >= MAX_OPEN)
      throw new SyscallError("EXHAUSTED", `${MAX_OPEN} tool calls are open. Wait for some of them first.`);
    const group = groupOf(toolNamed(this.#proc, name));
    const made = this.#order.run(group, () => this.#run(name, input));
    this.#open.add(made);
    this.#slot?.release();
    try {
      const record = await made.finally(() => this.#slot?.reacquire());
      const error = CODES.find((code) => code === record.error_code);
      return { text: toolMessage(record).content, ...(error && { error }) };
    } catch (thrown) {
      // A call that can't be recorded ends the run, as in the loop. A call that came too late was not started.
      if (!this.signal.aborted && !this.#closed) this.#stop(thrown);
      throw thrown;
    } finally {
      this.#open.delete(made);
    }
  }

  /** Gets the events of the answer in order. */
  onEvent(event: LLMEvent): void {
    const spoken = event.type === "text_delta" || event.type === "reasoning_delta";
    if (event.type === "turn" || (spoken && this.#step)) this.#nextTurn();
    if (event.type === "text_delta") this.#text += event.text;
    if (event.type === "reasoning_delta") this.#reasoning += event.text;
  }

  /** Call this when the answer has ended: accepts no more calls, and waits for those under way. */
  async settle(): Promise<void> {
    this.#closed = true;
    while (this.#open.size > 0) await Promise.allSettled([...this.#open]);
    this.#detach();
    this.#endTurn();
  }

  async #run(name: string, input: Record<string, unknown>): Promise<ToolCallRecord> {
    await this.#proc.gate();
    await this.#parts.drain.waitForSuspend(this.#proc);
    this.#requireOpen();
    if (!this.#step) {
      this.#events.called(this.#text, this.#reasoning);
      this.#step = new StepCalls(this.#parts, this.#proc);
    }
    this.hasCalled = true;
    const place: { record?: ToolCallRecord } = {};
    const id = `served-${this.#proc.run.step}-${this.#calls.push(place)}`;
    place.record = await this.#step.run({ id, name, input });
    return place.record;
  }

  #nextTurn(): void {
    // The call under way belongs to a turn whose first event was not read yet.
    if (this.#closed || this.busy) return;
    try {
      if (this.#endTurn()) this.#events.next();
      else if (this.#text !== "") this.#text += "\n\n";
    } catch (thrown) {
      this.#stop(thrown);
    }
  }

  /** Returns false if the turn had no call: its text continues. */
  #endTurn(): boolean {
    const calls = this.#calls.flatMap(({ record }) => record ?? []);
    if (!this.#step || calls.length === 0) return false;
    const turn = { ...this.turnText, calls };
    this.#calls = [];
    this.#step = undefined;
    this.#text = "";
    this.#reasoning = "";
    this.#events.ended(turn);
    return true;
  }

  #stop(because: unknown): void {
    this.stopped ??= { because };
    this.#abort.abort(new SyscallError("CANCELLED", "A step of the answer ended it."));
  }

  #requireOpen(): void {
    if (!this.#closed && !this.signal.aborted) return;
    throw new SyscallError("CLOSED", "The answer has ended: its program can call no more tools.");
  }
}
