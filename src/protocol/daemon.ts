/** Answers about the daemon: ping, status and garbage collection. */

import type { CollectReason } from "../store/runs/retention.ts";
import type { Diagnostic } from "./fields.ts";

export interface PingPayload {
  version: string;
  protocol: number;
  build: string;
  pid: number;
  started_at_ms: number;
  /** The user's init.yaml is not up yet: `ping {started}` waits for it. */
  starting?: true;
}

export interface DaemonStatus extends PingPayload {
  uptime_ms: number;
  socket: string;
  log: string;
  processes: number;
  connections: number;
  rss_bytes: number;
  /** Programs left by runs that can't be identified. */
  strays: { pid: number; command: string }[];
  /** How late a timer fired in the last minute: the median and the worst. */
  loop_delay_ms: { p50: number; max: number };
  /** What init.yaml keeps running, in the order of its start. */
  init: InitUnitWire[];
  /** Each init.yaml that is not up, and why. */
  init_problems: Diagnostic[];
}

export interface InitUnitWire {
  /** The project's folder; null: of the user's init.yaml. */
  project: string | null;
  name: string;
  type: string;
  required: boolean;
  state: "waiting" | "starting" | "running" | "failed" | "stopped";
  /** Unix ms. */
  since_ms: number;
  /** The PID of its supervisor; null: it has no process. */
  pid: number | null;
  /** null: not counted. */
  restarts: number | null;
  error: string | null;
}

/** A run that was collected, or would be. */
export interface CollectedLine {
  uuid: string;
  /** null: not recorded. */
  pid: number | null;
  project: string | null;
  ended_at_ms: number | null;
  why: CollectReason;
  bytes: number;
}

export interface CollectReport {
  dry_run: boolean;
  /** The oldest first, at most a thousand. */
  collected: CollectedLine[];
  runs: number;
  bytes: number;
  /** What stays, and how many of it are live, suspended, or needed by such. */
  kept: number;
  needed: number;
  /** Runs left for the next collection. */
  left: number;
  /** Runs whose record can't be read or is foreign, and collections that failed: they stay. */
  problems: { path: string; message: string }[];
}
