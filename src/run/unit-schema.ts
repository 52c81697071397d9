/** The schema of units.jsonl: the background units of a run. */

import { z } from "zod";
import { SCHEMA_VERSION } from "../lib/schema-version.ts";
import type { DaemonSnapshot } from "../plugin/index.ts";
import { NUMBERED } from "./numbered.ts";

const common = {
  id: z.string(),
  status: z.enum(["pending", "running", "completed", "failed", "killed"]),
  description: z.string(),
  agent_id: z.string(),
  started_at: z.string(),
  ended_at: z.string().nullable(),
};
const reserved = z.object({ name: z.string(), phase: z.string(), summary: z.string() });
const ofChild = reserved.extend({ err: z.string(), uuid: z.string() });
const exitCode = z.number().nullable();

const Snapshot = z.discriminatedUnion("kind", [
  z.object({
    ...common,
    kind: z.literal("local_bash"),
    metadata: z.object({ command: z.string(), exit_code: exitCode, output: z.string() }),
  }),
  z.object({
    ...common,
    kind: z.literal("local_agent"),
    metadata: z.object({
      agent_type: z.string(),
      prompt: z.string(),
      async: z.boolean(),
      phase: z.string(),
      summary: z.string(),
      err: z.string(),
      uuid: z.string(),
    }),
  }),
  z.object({
    ...common,
    kind: z.literal("monitor"),
    metadata: z.object({
      command: z.string(),
      event_count: z.number(),
      persistent: z.boolean(),
      recent_lines: z.array(z.string()).readonly(),
    }),
  }),
  z.object({
    ...common,
    kind: z.literal("lsp"),
    metadata: z.object({
      server_name: z.string(),
      command: z.string(),
      state: z.string(),
      exit_code: exitCode,
      restart_count: z.number(),
      max_restarts: z.number(),
    }),
  }),
  z.object({ ...common, kind: z.literal("remote_agent"), metadata: reserved }),
  z.object({ ...common, kind: z.literal("in_process_teammate"), metadata: ofChild }),
  z.object({ ...common, kind: z.literal("local_workflow"), metadata: ofChild }),
  z.object({ ...common, kind: z.literal("dream"), metadata: ofChild }),
]) satisfies z.ZodType<DaemonSnapshot>;

const Line = { v: z.literal(SCHEMA_VERSION), ...NUMBERED, ts: z.string() };

/** One line. `started` is written before the program runs, `ended` when its output is durable. */
export const UnitLine = z.discriminatedUnion("t", [
  z.object({
    ...Line,
    t: z.literal("started"),
    snapshot: Snapshot,
    /** Of the request: when it is killed, and which silence of a monitor is an event. */
    timeout_ms: z.number().optional(),
    stall_ms: z.number().optional(),
  }),
  /** The identity of its program, which another kernel finds it by. */
  z.object({
    ...Line,
    t: z.literal("program"),
    id: z.string(),
    pid: z.number().int().min(2),
    start: z.string(),
    boot: z.string(),
    /** Its id in the ledger, and its mark: its descendants are found by them. */
    child: z.string(),
    mark: z.string().nullable(),
    /** Of a command that was moved to the background: what copies its output since the death of its kernel. */
    keeper: z.object({ pid: z.number().int().min(2), start: z.string() }).optional(),
  }),
  /** The lines of a monitor up to this byte of its output are in the inbox: `events` lines. */
  z.object({ ...Line, t: z.literal("reported"), id: z.string(), up_to: z.number(), events: z.number() }),
  z.object({ ...Line, t: z.literal("ended"), snapshot: Snapshot }),
  /** Its end is in the inbox. */
  z.object({ ...Line, t: z.literal("announced"), id: z.string() }),
]);
export type UnitLine = z.infer<typeof UnitLine>;
export type UnitDraft = UnitLine extends infer L ? (L extends UnitLine ? Omit<L, "v"> : never) : never;
