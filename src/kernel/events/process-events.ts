import { Channel } from "../../lib/channel.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Process } from "../process/process.ts";
import type { LogEntry, ProcessEvent, RunUse } from "../types.ts";
import { coalesceDeltas } from "./coalesce-deltas.ts";

/** Maximum events queued for one attached client. */
const WATCH_BUFFER = 256;

/** Emits the events of processes to attached clients, through channels that never delay the process. */
export class ProcessEvents {
  readonly #clock: Clock;
  readonly #parentOf: (proc: Process) => Process | undefined;

  constructor(ports: { clock: Clock; parentOf(proc: Process): Process | undefined }) {
    this.#clock = ports.clock;
    this.#parentOf = ports.parentOf;
  }

  /**
   * Attaches a client: sends the current state, then all events. Ends with `complete` once the end is on disk. `begin`
   * adds to the state; what it returns is called when the client has gone.
   */
  attach(proc: Process, begin?: (channel: Channel<ProcessEvent>) => () => void): Channel<ProcessEvent> {
    let gone: (() => void) | undefined;
    const channel: Channel<ProcessEvent> = new Channel(
      WATCH_BUFFER,
      () => {
        proc.watchers.delete(channel);
        gone?.();
      },
      coalesceDeltas,
    );
    channel.push({ type: "spawn", info: proc.info() });
    for (const text of proc.notices) channel.push({ type: "notice", text });
    if (proc.step > proc.recordedStep) channel.push(stepEvent(proc));
    if (!proc.settled) gone = begin?.(channel);
    if (proc.settled) channel.end({ type: "complete", info: proc.info() });
    else proc.watchers.add(channel);
    return channel;
  }

  /** The process and its live ancestors. */
  *#lineOf(proc: Process): Generator<Process> {
    for (let one: Process | undefined = proc; one; one = this.#parentOf(one)) yield one;
  }

  emit(proc: Process, event: ProcessEvent): void {
    for (const watcher of proc.watchers) watcher.push(event);
  }

  step(proc: Process): void {
    this.emit(proc, stepEvent(proc));
  }

  /** A process has paid for a model call: what it has used counts for all of its ancestors. */
  used(proc: Process): void {
    for (const one of this.#lineOf(proc)) {
      if (one.watchers.size > 0) this.emit(one, { type: "usage", ...useOf(one) });
    }
  }

  /** `entry` is called only if a client is attached. */
  log(proc: Process, entry: (at: { ts: string; step: number }) => LogEntry): void {
    if (proc.watchers.size === 0) return;
    const ts = new Date(this.#clock.now()).toISOString();
    this.emit(proc, { type: "log", entry: entry({ ts, step: proc.step }) });
  }
}

function stepEvent(proc: Process): ProcessEvent {
  return { type: "step", total: proc.spec.maxSteps, ...useOf(proc) };
}

function useOf(proc: Process): RunUse {
  return {
    step: proc.step,
    tokensUsed: proc.tokensUsed,
    costUsd: proc.costUsd,
    contextTokens: proc.contextTokens,
    contextWindow: proc.provider.contextWindow ?? null,
  };
}
