/** What a process does now, as its clients see it. */

import { callsTitle } from "../../lib/call-title.ts";
import type { ToolCall } from "../../plugin/index.ts";
import type { CallOutput } from "./call-output.ts";
import type { Activity } from "./event.ts";

/** A tool call that runs. */
export interface RunningCall extends Pick<ToolCall, "id" | "name" | "input"> {
  /** The path that it opens. */
  path: string;
  step: number;
  startedAtMs: number;
  output: CallOutput;
}

/**
 * What a process does now: the phase that it is in, and its running tool calls. How it stands (paused, stopping, waiting
 * for a person) is known to the process itself.
 */
export class ProcessActivity {
  #phase: Activity;
  /** What the watchers were sent last. */
  #sent: Activity | undefined;
  /** Made by the first call. */
  #calls: Map<string, RunningCall> | undefined;

  constructor(sinceMs: number) {
    this.#phase = { kind: "start", text: "starting", since_ms: sinceMs, until_ms: null };
  }

  /** A new phase. The same phase again keeps its beginning; returns false then. */
  enter(phase: Activity): boolean {
    if (isEqual(this.#phase, { ...phase, since_ms: this.#phase.since_ms })) return false;
    this.#phase = phase;
    return true;
  }

  /** Returns false if the watchers know this activity. */
  send(activity: Activity): boolean {
    const isKnown = this.#sent !== undefined && isEqual(this.#sent, activity);
    this.#sent = activity;
    return !isKnown;
  }

  begin(call: RunningCall): void {
    this.#calls ??= new Map();
    this.#calls.set(call.id, call);
  }

  end(id: string): RunningCall | undefined {
    const call = this.#calls?.get(id);
    this.#calls?.delete(id);
    return call;
  }

  call(id: string): RunningCall | undefined {
    return this.#calls?.get(id);
  }

  /** The running calls, oldest first. */
  get calls(): RunningCall[] {
    return [...(this.#calls?.values() ?? [])];
  }

  /** The running calls, or else the phase. `cwd`: for the titles of calls. */
  now(cwd: string): Activity {
    return this.#ofCalls(cwd) ?? this.#phase;
  }

  #ofCalls(cwd: string): Activity | undefined {
    if (this.#calls === undefined || this.#calls.size === 0) return undefined;
    const calls = this.calls;
    const since_ms = Math.min(...calls.map(({ startedAtMs }) => startedAtMs));
    return { kind: "tool", text: callsTitle(calls, cwd), since_ms, until_ms: null };
  }
}

function isEqual(a: Activity, b: Activity): boolean {
  return a.kind === b.kind && a.text === b.text && a.since_ms === b.since_ms && a.until_ms === b.until_ms;
}
