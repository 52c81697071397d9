import { z } from "zod";

/**
 * The NDJSON protocol (seeds 5.3 to 5.9, interfaces §5): one JSON object per line, requests in, answers and
 * stream events out. This file is its only definition; the server checks requests with it, the client
 * takes its types from it.
 */
export const PROTOCOL = 1;

/** A request line may be this long; a larger payload is refused with TOO_LARGE. */
export const MAX_REQUEST_BYTES = 16 * 1024 * 1024;

const Uuid = z.string().min(1).max(64);
const Pid = z.int().nonnegative();
/** Absent or 0: the default. "unlimited": none. A negative number is INVALID. */
const WireLimit = z.union([z.int().nonnegative(), z.literal("unlimited")]);
const Strings = z.array(z.string());

/** A process by PID or UUID; where both are given the UUID counts. `uuid` may be a unique prefix. */
const Target = z.object({ pid: Pid.optional(), uuid: Uuid.optional(), cwd: z.string().optional() });

export const SpawnRequest = z.object({
  intent: z.string().min(1),
  agent: z.string().optional(),
  provider: z.string().optional(),
  model: z.string().optional(),
  max_steps: WireLimit.optional(),
  context_budget: WireLimit.optional(),
  timeout_ms: WireLimit.optional(),
  allow: Strings.optional(),
  deny: Strings.optional(),
  sandbox: z.enum(["auto", "required", "off"]).optional(),
  trust: z.boolean().optional(),
  check: Strings.optional(),
  system_prompt: z.string().optional(),
  /** Files to attach, absolute, and folders the run may touch. */
  add: Strings.optional(),
  /** Absolute. */
  cwd: z.string(),
  /** The spawner's whole environment: the daemon keeps it in memory only. */
  env: z.record(z.string(), z.string()),
  /** Names of the variables given by `--env`. */
  env_given: Strings.optional(),
  /** Text attached from stdin. */
  input: z.string().optional(),
  parent_uuid: Uuid.optional(),
  /** A person sits at the client's terminal. */
  attended: z.boolean().optional(),
  /** Answer with pid and uuid, then close: no stream. */
  detach: z.boolean().optional(),
});

const Page = { after: z.int().nonnegative().optional(), limit: z.int().positive().max(10_000).optional() };
const Project = { cwd: z.string(), env: z.record(z.string(), z.string()).optional() };

/** Every method, with the schema of its payload. `streaming` ones take the connection over and close it. */
export const METHODS = {
  ping: { streaming: false, payload: z.object({}) },
  spawn: { streaming: true, payload: SpawnRequest },
  list_procs: {
    streaming: false,
    payload: z.object({ cwd: z.string().optional(), all_projects: z.boolean().optional(), ...Page }),
  },
  list_all_procs: {
    streaming: false,
    payload: z.object({ cwd: z.string().optional(), all_projects: z.boolean().optional(), ...Page }),
  },
  kill: { streaming: false, payload: Target.extend({ signal: z.int().optional() }) },
  signal_tree: { streaming: false, payload: Target.extend({ signal: z.int().optional() }) },
  suspend: { streaming: false, payload: Target },
  wait: { streaming: false, payload: Target.extend({ timeout_ms: z.int().positive().optional() }) },
  attach: { streaming: true, payload: Target },
  attach_debug: { streaming: true, payload: Target },
  attach_log: { streaming: true, payload: Target },
  list_events: { streaming: false, payload: Target.extend(Page) },
  list_steps: { streaming: false, payload: Target.extend(Page) },
  get_step_detail: { streaming: false, payload: Target.extend({ step: z.int().positive() }) },
  get_proc_detail: { streaming: false, payload: Target },
  show: { streaming: false, payload: Target },
  list_plugins: { streaming: false, payload: z.object(Project) },
  list_tools: { streaming: false, payload: z.object({ ...Project, agent: z.string().optional() }) },
  list_agents: { streaming: false, payload: z.object(Project) },
  list_skills: { streaming: false, payload: z.object(Project) },
  list_providers: { streaming: false, payload: z.object({ ...Project, probe: z.boolean().optional() }) },
  daemon_status: { streaming: false, payload: z.object({}) },
  shutdown: { streaming: false, payload: z.object({ now: z.boolean().optional() }) },
} as const;

export type Method = keyof typeof METHODS;
export type Payload<M extends Method> = z.infer<(typeof METHODS)[M]["payload"]>;
export type SpawnRequest = z.infer<typeof SpawnRequest>;

/** The envelope of every request. `id` is echoed in the answers. */
export const Request = z.object({
  method: z.string(),
  payload: z.unknown().optional(),
  id: z.union([z.string(), z.number()]).optional(),
});
export type Request = z.infer<typeof Request>;

export interface WireError {
  /** A kernel code, or BAD_REQUEST, UNKNOWN_METHOD, TOO_LARGE, VERSION. */
  code: string;
  message: string;
  syscall?: string;
  device?: string;
}

export type Response =
  | { ok: true; payload?: unknown; id?: string | number }
  | { ok: false; error: WireError; id?: string | number };

export interface PingPayload {
  version: string;
  protocol: number;
  build: string;
  pid: number;
  started_at_ms: number;
}

/** Progress of a run (seeds 5.5). `total` is null where there is no limit. */
export type ProgressPayload =
  | {
      event: "spawn";
      pid: number;
      uuid: string;
      intent: string;
      provider: string;
      model: string;
      because: string;
      agent: string;
    }
  | { event: "step"; pid: number; uuid: string; step: number; total: number | null }
  | {
      event: "retry";
      pid: number;
      uuid: string;
      step: number;
      attempt: number;
      delay_ms: number;
      message: string;
    }
  | { event: "notice"; pid: number; uuid: string; text: string };

/** The receipt of a run: what `--output json` prints (interfaces §1). */
export interface Receipt {
  pid: number;
  uuid: string;
  agent: string;
  provider: string;
  model: string;
  exit_code: number;
  exit_reason: string;
  result: string | null;
  partial: boolean;
  output: unknown;
  steps: number;
  tool_calls: number;
  tokens_used: number;
  usage: { input_tokens: number; output_tokens: number; cached_tokens: number };
  cost_usd: number | null;
  elapsed_ms: number;
  checks: { command: string; exit_code: number | null; output?: string }[];
  sandbox: string;
  files_changed: string[];
  files_changed_complete: boolean;
  children: {
    uuid: string;
    pid: number;
    agent: string;
    exit_code: number | null;
    exit_reason: string | null;
    tokens_used: number;
  }[];
  error: { code: string; message: string } | null;
}

/** `complete` carries the seeds' fields (event, pid, result, exit_code, exit_reason, tokens_used) and the receipt's. */
export type CompletePayload = Receipt & { event: "complete" };

export type StreamEvent =
  | { type: "progress"; payload: ProgressPayload }
  | { type: "text_delta"; payload: { pid: number; uuid: string; step: number; text: string } }
  | {
      type: "log_entry";
      payload: {
        ts: string;
        step: number;
        kind: "thought" | "text" | "tool" | "result" | "unit";
        text: string;
      };
    }
  | { type: "syscall_event"; payload: Record<string, unknown> }
  | { type: "complete"; payload: CompletePayload }
  /** Only for a run that never came to be. */
  | { type: "error"; payload: { event: "error"; error_message: string; code: string } }
  | { type: "eof"; payload?: { dropped: number } };
