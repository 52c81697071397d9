/** What the process of a plugin is started with, and its deadlines. */

import type { Clock } from "../../lib/clock.ts";
import type { StartProgram } from "../../lib/program-channel.ts";

/** The deadlines of a plugin, in ms. */
export interface ProcessLimits {
  /** Import of the module until its shape is known. */
  loadMs: number;
  /** A factory. */
  openMs: number;
  /** Calls without a signal: stat, close, detect, dispose. */
  callMs: number;
  /** How long a driver may answer after its signal has fired. */
  answerMs: number;
  /** How long a plugin past a deadline may take to respond to a ping. */
  aliveMs: number;
}

export const PROCESS_LIMITS: ProcessLimits = {
  loadMs: 5_000,
  openMs: 30_000,
  callMs: 10_000,
  answerMs: 250,
  aliveMs: 2_000,
};

/** What the process of a plugin may do. */
export interface PluginSandbox {
  level: "project" | "read-only";
  /** It is not started where no sandbox can be made. */
  required: boolean;
  /** The project for whose runs it works, and its folder; null: none. */
  id: string;
  project: string | null;
  /** Of its entry: it is readable. */
  folder: string;
}

/** Confines the process of a plugin; null where no sandbox can be made. */
export type Confine = (sandbox: PluginSandbox) => Promise<{
  /** The command line in place of the plain one. */
  argv(plain: readonly string[]): string[];
  /** The process is in another PID namespace. */
  isNested: boolean;
} | null>;

export interface ProcessOptions {
  name: string;
  /** Absolute; for messages. */
  entry: string;
  /** The plugin as one module, as static-check has read it. */
  code: string;
  limits?: Partial<ProcessLimits>;
  start: StartProgram;
  timers?: Timers;
  /** Ends the process at once, for an import that is no longer needed. */
  signal?: AbortSignal;
  /** Logs the plugin's console output. */
  log?(level: "debug" | "info" | "warn", plugin: string, text: string): void;
  /** Called when a file was closed, and when the process has ended for any reason. */
  onLess?(): void;
}

export type Timers = Pick<Clock, "timer">;

/** Unlike those of `realClock`, they keep the program running: a call waits for them. */
export const realTimers: Timers = {
  timer(ms, f) {
    const handle = setTimeout(f, ms);
    return { cancel: () => clearTimeout(handle) };
  },
};
