import { callsTitle } from "../../lib/call-title.ts";
import type { ToolCall } from "../../plugin/index.ts";
import type { Activity } from "../types.ts";
import type { CallOutput } from "./call-output.ts";

/** A tool call that runs. */
export interface RunningCall extends Pick<ToolCall, "id" | "name" | "input"> {
  /** The path that it opens. */
  path: string;
  step: number;
  startedAtMs: number;
  output: CallOutput;
}

/**
 * What a process does now: the phase that it is in, and its running tool calls. How it stands (paused, stopping, ended)
 * is known to the process itself.
 */
export class ProcessActivity {
  #phase: Activity;
  /** Made by the first call. */
  #calls: Map<string, RunningCall> | undefined;
  /** Open questions, by their request; made by the first one. */
  #asks: Map<string, Activity> | undefined;

  constructor(sinceMs: number) {
    this.#phase = { kind: "start", text: "starting", since_ms: sinceMs, until_ms: null };
  }

  /** A new phase. The same phase again keeps its beginning; returns false then. */
  enter(phase: Activity): boolean {
    const { kind, text, until_ms } = this.#phase;
    if (kind === phase.kind && text === phase.text && until_ms === phase.until_ms) return false;
    this.#phase = phase;
    return true;
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

  /** A question that the run waits for. */
  ask(id: string, ask: Activity): void {
    this.#asks ??= new Map();
    this.#asks.set(id, ask);
  }

  answered(id: string): void {
    this.#asks?.delete(id);
  }

  /** Questions come before calls, and calls before the phase. `cwd`: for the titles of calls. */
  now(cwd: string): Activity {
    const [ask] = this.#asks?.values() ?? [];
    return ask ?? this.#ofCalls(cwd) ?? this.#phase;
  }

  #ofCalls(cwd: string): Activity | undefined {
    if (this.#calls === undefined || this.#calls.size === 0) return undefined;
    const calls = this.calls;
    const since_ms = Math.min(...calls.map(({ startedAtMs }) => startedAtMs));
    return { kind: "tool", text: callsTitle(calls, cwd), since_ms, until_ms: null };
  }
}
