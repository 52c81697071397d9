/** What a client gets that watches all processes. */

import type { ListedAsk } from "./ask.ts";
import type { ListedProc } from "./record.ts";

/** What is shown of a process, beside what a watcher counts by itself: a change of it is sent. */
export type ShownProc = Pick<
  ListedProc,
  | ("pid" | "uuid" | "parent_uuid" | "agent" | "model" | "project" | "intent" | "status" | "state" | "doing")
  | ("steps" | "max_steps" | "tokens_used" | "cost_usd" | "created_at_ms" | "ended_at_ms" | "is_paused")
  | ("paused_at_ms" | "exit_code" | "exit_reason" | "suspended" | "error" | "workflow" | "chat" | "job")
  | "units"
>;

export interface WatchedProc extends ShownProc {
  elapsed_ms: number;
  /** Unix ms: when it would have begun without its pauses. */
  elapsed_at_ms: number;
}

/** The calls of one key of a provider. */
export interface ProviderQueue {
  provider: string;
  running: number;
  waiting: number;
  at_once: number;
  holds: { model: string; until_ms: number }[];
}

/** The whole state at first, and to a client that was too slow for the changes; else what has changed. */
export interface ProcChanges {
  number: number;
  rows: WatchedProc[];
  /** UUIDs. null: these are all. */
  gone: string[] | null;
  /** null: as before. */
  asks: ListedAsk[] | null;
  /** null: as before. */
  queues: ProviderQueue[] | null;
}
