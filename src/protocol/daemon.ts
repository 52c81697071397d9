import { z } from "zod";
import type { CollectReport } from "../server/records/collector.ts";
import type { Diagnostic } from "./fields.ts";

/** The server itself. */
export const DAEMON_METHODS = {
  /** `started`: answers when the user's init.yaml is up, or says why it is not. */
  ping: { streaming: false, payload: () => z.object({ started: z.boolean().optional() }) },
  gc: { streaming: false, payload: () => z.object({ dry_run: z.boolean().optional() }) },
  daemon_status: { streaming: false, payload: () => z.object({}) },
  shutdown: {
    streaming: false,
    payload: () => z.object({ now: z.boolean().optional(), restart: z.boolean().optional() }),
  },
} as const;

export interface DaemonAnswers {
  ping: PingPayload;
  gc: CollectReport;
  daemon_status: DaemonStatus;
  /** `draining`: tool calls under way have so many ms to finish before their runs are suspended. */
  shutdown: { pid: number; draining?: { calls: number; ms: number } };
}

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
  /** Programs that runs have left without anything that tells which run. */
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
  /** Of its supervisor; null: it is no process. */
  pid: number | null;
  /** null: nobody counts them. */
  restarts: number | null;
  error: string | null;
}
