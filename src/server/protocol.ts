import { z } from "zod";
import type { GateStatus } from "../kernel/llm/gate.ts";
import type { PluginReport } from "../plugin/host/report.ts";
import { type Code, EFFORTS, type ToolAnnotations, type ToolCall } from "../plugin/index.ts";
import type { Action, ProcInfo, StepRecord, SyscallEventWire } from "../store/schema.ts";
import type { CollectedLine, CollectReport } from "./collector.ts";

/*
 * The NDJSON protocol (seeds 5.3 to 5.9, interfaces §5): one JSON object per line, requests in, answers and
 * stream events out. This file is its only definition; the server checks requests with it, the client
 * takes its types from it.
 */

export { PROTOCOL } from "./frame.ts";
export type { CollectedLine, CollectReport };

/** A request line may be this long; a larger payload is refused with TOO_LARGE. */
export const MAX_REQUEST_BYTES = 16 * 1024 * 1024;

const Uuid = () => z.string().min(1).max(64);

/** A process by PID or UUID; where both are given the UUID counts. `uuid` may be a unique prefix. */
const Target = () =>
  z.object({
    pid: z.int().nonnegative().optional(),
    uuid: Uuid().optional(),
    cwd: z.string().optional(),
  });

function SpawnRequest() {
  // A schema costs more to build than to use: fields of one kind share theirs.
  const text = z.string().optional();
  const texts = z.array(z.string()).optional();
  const flag = z.boolean().optional();
  /** Absent or 0: the default. "unlimited": none. A negative number is INVALID. */
  const limit = z.union([z.int().nonnegative(), z.literal("unlimited")]).optional();
  return z.object({
    intent: z.string().min(1),
    agent: text,
    provider: text,
    model: text,
    max_steps: limit,
    context_budget: limit,
    /** In USD. */
    max_cost: z.union([z.number().nonnegative(), z.literal("unlimited")]).optional(),
    timeout_ms: limit,
    allow: texts,
    deny: texts,
    sandbox: z.enum(["auto", "required", "off"]).optional(),
    trust: flag,
    check: texts,
    /** JSON Schema that the answer must fit. */
    output_schema: z.record(z.string(), z.unknown()).optional(),
    /** How much the model is to think. */
    effort: z.enum(EFFORTS).optional(),
    system_prompt: text,
    /** Files to attach, absolute, and folders the run may touch. */
    add: texts,
    /** Absolute. */
    cwd: z.string(),
    /** The spawner's whole environment: the daemon keeps it in memory only. */
    env: z.record(z.string(), z.string()),
    /** Names of the variables given by `--env`. */
    env_given: texts,
    /** Text attached from stdin. */
    input: text,
    parent_uuid: Uuid().optional(),
    /** A person sits at the client's terminal. */
    attended: flag,
    /** Answer with pid and uuid, then close: no stream. */
    detach: flag,
    /** Goes on by itself when the server starts again after a crash or a stop. */
    resume_on_restart: flag,
  });
}

/** Rules as in `allow` and `deny` of a spawn. */
const RightsRequest = () => Target().extend({ tools: z.array(z.string().min(1).max(1_000)).min(1).max(100) });

function ResumeRequest() {
  const flag = z.boolean().optional();
  /** Of the whole run, what was used before included. Absent: as it was. */
  const limit = z.union([z.int().positive(), z.literal("unlimited")]).optional();
  return Target().extend({
    /** What its model is told first. */
    input: z.string().min(1).optional(),
    /** A new run begins with its steps; it may live, and stays as it is. */
    fork: flag,
    /** With `fork`: the last step to take over. Absent: the last that is recorded. */
    from_step: z.int().positive().optional(),
    max_steps: limit,
    context_budget: limit,
    /** In USD. */
    max_cost: z.union([z.number().positive(), z.literal("unlimited")]).optional(),
    timeout_ms: limit,
    trust: flag,
    /** The caller's whole environment: keys are looked for in it. */
    env: z.record(z.string(), z.string()),
    attended: flag,
    detach: flag,
  });
}

function ReplayRequest() {
  const flag = z.boolean().optional();
  return Target().extend({
    /** Where its tools are executed, absolute: the run's own folder by default. */
    folder: z.string().optional(),
    /** How results are compared (docs/replay.md). Absent: but for what differs from run to run anyway. */
    compare: z.enum(["usual", "exact", "state"]).optional(),
    trust: flag,
    /** The caller's whole environment. */
    env: z.record(z.string(), z.string()),
    attended: flag,
  });
}

/** What a person may have a run wait for. */
const PersonsWake = () =>
  z.discriminatedUnion("on", [
    z.object({ on: z.literal("at"), at_ms: z.int().positive() }),
    z.object({ on: z.literal("message") }),
    z.object({ on: z.literal("never") }),
  ]);

const Page = () => ({
  after: z.int().nonnegative().optional(),
  limit: z.int().positive().max(10_000).optional(),
});
const Listing = () =>
  z.object({ cwd: z.string().optional(), all_projects: z.boolean().optional(), ...Page() });
const Project = () => ({ cwd: z.string(), env: z.record(z.string(), z.string()).optional() });

/**
 * Every method, with what makes the schema of its payload: the server builds it at the method's first call.
 * `streaming` ones take the connection over and close it.
 */
export const METHODS = {
  /** `started`: answers when the user's init.yaml is up, or says why it is not. */
  ping: { streaming: false, payload: () => z.object({ started: z.boolean().optional() }) },
  spawn: { streaming: true, payload: SpawnRequest },
  /** `waiting`: those too that are suspended and go on by themselves. */
  list_procs: {
    streaming: false,
    payload: () => Listing().extend({ waiting: z.boolean().optional() }),
  },
  list_all_procs: {
    streaming: false,
    payload: Listing,
  },
  kill: { streaming: false, payload: () => Target().extend({ signal: z.int().optional() }) },
  signal_tree: { streaming: false, payload: () => Target().extend({ signal: z.int().optional() }) },
  /** `wake`: it goes on by itself then. Of a run that is suspended already, what it waits for from now on. */
  suspend: { streaming: false, payload: () => Target().extend({ wake: PersonsWake().optional() }) },
  compact: { streaming: false, payload: Target },
  resume: { streaming: true, payload: ResumeRequest },
  /** Plays a recorded run again, and streams it like a spawn. */
  replay: { streaming: true, payload: ReplayRequest },
  /** Of a run that was played again (`replayed`, its UUID): where it differs from the recorded one. */
  compare_runs: { streaming: false, payload: () => Target().extend({ replayed: Uuid() }) },
  /** A recorded run as a script. The head comes with the first page. */
  export_script: { streaming: false, payload: () => Target().extend(Page()) },
  allow: { streaming: false, payload: RightsRequest },
  deny: { streaming: false, payload: RightsRequest },
  wait: { streaming: false, payload: () => Target().extend({ timeout_ms: z.int().positive().optional() }) },
  attach: { streaming: true, payload: Target },
  attach_debug: { streaming: true, payload: Target },
  /** `follow: false`: what there is so far, then eof. */
  attach_log: { streaming: true, payload: () => Target().extend({ follow: z.boolean().optional() }) },
  list_events: { streaming: false, payload: () => Target().extend(Page()) },
  list_steps: { streaming: false, payload: () => Target().extend(Page()) },
  get_step_detail: { streaming: false, payload: () => Target().extend({ step: z.int().positive() }) },
  get_proc_detail: { streaming: false, payload: Target },
  show: { streaming: false, payload: Target },
  list_plugins: { streaming: false, payload: () => z.object(Project()) },
  list_tools: { streaming: false, payload: () => z.object({ ...Project(), agent: z.string().optional() }) },
  list_agents: { streaming: false, payload: () => z.object(Project()) },
  list_skills: { streaming: false, payload: () => z.object(Project()) },
  list_providers: {
    streaming: false,
    payload: () => z.object({ ...Project(), probe: z.boolean().optional() }),
  },
  gc: { streaming: false, payload: () => z.object({ dry_run: z.boolean().optional() }) },
  daemon_status: { streaming: false, payload: () => z.object({}) },
  shutdown: {
    streaming: false,
    payload: () => z.object({ now: z.boolean().optional(), restart: z.boolean().optional() }),
  },
} as const;

export type Method = keyof typeof METHODS;
export type Payload<M extends Method> = z.infer<ReturnType<(typeof METHODS)[M]["payload"]>>;
export type StreamingMethod = {
  [M in Method]: (typeof METHODS)[M]["streaming"] extends true ? M : never;
}[Method];
export type PlainMethod = Exclude<Method, StreamingMethod>;
export type Target = z.infer<ReturnType<typeof Target>>;
export type ResumeRequest = z.infer<ReturnType<typeof ResumeRequest>>;
export type ReplayRequest = z.infer<ReturnType<typeof ReplayRequest>>;
export type SpawnRequest = z.infer<ReturnType<typeof SpawnRequest>>;

/**
 * The envelope of every request. `id` is echoed in the answers. `unit` is the client's RNIX_UNIT: the process
 * in whose shell the command was typed. What the server sees of the client itself goes before it.
 */
export const Request = z.object({
  method: z.string(),
  payload: z.unknown().optional(),
  id: z.union([z.string(), z.number()]).optional(),
  unit: Uuid().optional(),
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

/** What each method answers in `payload`. A streaming method answers this first, then its events. */
export interface Answers {
  ping: PingPayload;
  spawn: ProcRef;
  list_procs: { processes: ProcInfo[] };
  /** Newest last. `unreadable` names runs whose record could not be read. */
  list_all_procs: { processes: ProcInfo[]; total: number; unreadable: { path: string; message: string }[] };
  /** `affected`: 0 for one that has ended already. `was_suspended`: it had no process, and has ended on disk. */
  kill: ProcRef & { affected: number; was_suspended?: true };
  signal_tree: ProcRef & { affected: number; was_suspended?: true };
  suspend: ProcRef & { state: ProcInfo["state"]; step: number };
  /** The same number twice where nothing was to be gained. */
  compact: ProcRef & { pre_tokens: number; post_tokens: number; summarised_by: "model" | "digest" | null };
  /** The last step that was whole: the next one is made now. `origin_uuid`: of a fork, the run that it comes from. */
  resume: ProcRef & { resumed_from_step: number; origin_uuid?: string };
  replay: ProcRef;
  compare_runs: { differences: Difference[] };
  /** `next` is the `after` of the next page, null after the last; `children` are the agents' runs that it has spawned. */
  export_script: {
    head: ScriptHead | null;
    responses: ScriptEntry[];
    children: string[];
    next: number | null;
  };
  allow: RightsAnswer;
  deny: RightsAnswer;
  wait: Receipt;
  attach: ProcRef;
  attach_debug: ProcRef;
  attach_log: ProcRef;
  /** `next` is the `after` of the next page; `parse_errors` counts lines that can't be read, `damaged` names them. */
  list_events: { events: (SyscallEventWire & { uuid: string })[]; next: number } & Unreadable;
  /** `parse_errors` and `damaged` are those of all pages. */
  list_steps: { steps: StepSummary[]; total: number } & Unreadable;
  get_step_detail: StepDetail;
  get_proc_detail: ProcDetail;
  show: ProcDetail;
  list_plugins: { plugins: PluginReport[] };
  list_tools: { tools: ToolWire[] };
  list_agents: { agents: AgentWire[]; diagnostics: Diagnostic[] };
  list_skills: { skills: SkillWire[]; diagnostics: Diagnostic[] };
  list_providers: { providers: ProviderWire[]; diagnostics: Diagnostic[] };
  gc: CollectReport;
  daemon_status: DaemonStatus;
  /** `draining`: tool calls under way have so many ms to finish before their runs are suspended. */
  shutdown: { pid: number; draining?: { calls: number; ms: number } };
}

/** A process, named both ways. */
export interface ProcRef {
  pid: number;
  uuid: string;
}

/** Where a run that was played again differs from the recorded one. */
export interface Difference {
  kind: "prompt" | "tools" | "rights" | "limits" | "checks" | "result" | "outcome";
  step: number | null;
  /** What differs. */
  message: string;
  /** What there is of it in the one and not in the other; null: nothing, or the message has both. */
  recorded: string | null;
  replayed: string | null;
}

type WireLimit = number | "unlimited";

/** What a script of the replay driver says of the run that it was made from. */
export interface ScriptHead {
  intent: string;
  agent: string;
  input?: string;
  checks?: string[];
  system_prompt?: string;
  allow?: string[];
  deny?: string[];
  folders?: string[];
  output_schema?: Record<string, unknown>;
  limits?: { max_steps?: WireLimit; context_budget?: WireLimit; timeout_ms?: WireLimit };
  recorded: { uuid: string; at: string; cwd: string; project: string };
  outcome: { exit_code?: number; exit_reason?: string; result?: { equals: string } };
}

/** One answer of such a script. */
export interface ScriptEntry extends Pick<StepRecord, "reasoning" | "stop_reason" | "usage"> {
  text?: string;
  tool_calls?: (ToolCall & { expect?: { equals?: string; contains?: string[]; error?: string } })[];
}

/** What a run may use after the change. Nothing of `denied_tools`, whatever is allowed. */
export interface RightsAnswer extends ProcRef {
  allowed_tools: string[];
  denied_tools: string[];
}

interface Unreadable {
  parse_errors: number;
  damaged: DamagedLines[];
}

/** Lines of one file of a run's records that can't be read: at most a hundred are named. */
export interface DamagedLines {
  /** Absolute. */
  file: string;
  count: number;
  lines: number[];
}

export interface StepSummary {
  step: number;
  ts: string;
  action: Action;
  summary: string;
  tool_path: string | null;
  has_error: boolean;
  duration_ms: number;
  token_count: number;
}

/** The seeds' StepRecord (seeds 5.1): `tool_*` are those of the step's first call. */
export interface StepDetail extends StepRecord, ProcRef {
  tool_path: string | null;
  tool_input: Record<string, unknown> | null;
  tool_result: string | null;
  tool_error: string | null;
  /** What is kept whole beside the records, as it was found. */
  kept_results: KeptResult[];
}

/** A result of which the model was shown a part. */
interface KeptResult {
  /** Of the call. */
  id: string;
  /** Absolute. */
  path: string;
  bytes: number;
  /** null: it is there, with the content it had. */
  problem: string | null;
}

export interface ProcDetail extends ProcInfo {
  /** The process is held by the daemon now; else this is its record on disk. */
  live: boolean;
  fds: { fd: number; path: string }[];
  /** What it has mounted; `down` says why it can't be used now. */
  mounts: { path: string; type: string; down: string | null }[];
  /** null: not known, the process is not live. */
  context: { messages: number } | null;
  /** null as long as it runs. */
  receipt: Receipt | null;
}

export interface ToolWire {
  name: string;
  description: string;
  /** The device's path. */
  path: string;
  plugin: string;
  layer: string;
  input: object;
  /** False for a schema beyond what can be read: its driver checks the input alone. */
  checked: boolean;
  annotations: ToolAnnotations;
  /** The agent asked about may use it; true where none was asked about. */
  allowed: boolean;
}

export interface AgentWire {
  name: string;
  description: string;
  source: string;
  skills: string[];
  deferred_skills: string[];
  allowed_tools: string[];
  max_steps: number | null;
  context_budget: number | null;
  max_cost: number | null;
  timeout_ms: number | null;
  checks: string[];
}

export interface SkillWire {
  name: string;
  description: string;
  source: string;
  allowed_tools: string[] | null;
}

export interface ProviderWire {
  name: string;
  device: string;
  /** The one that a run gets; null where it must be named. */
  model: string | null;
  /** Further ones that are known: of providers.yaml, and of a server on this machine. */
  models: string[];
  base_url: string | null;
  /** Where its key comes from ("OPENAI_API_KEY", "not needed"), never the key. */
  key: string | null;
  usable: boolean;
  /** Why it would be taken, or why it can not be used. */
  because: string;
  /** The one a spawn without a flag takes here. */
  chosen: boolean;
  /** Only where it was used not long ago: the queue of each of its keys. */
  queues?: QueueWire[];
  /** Only when probed. */
  probe?: { ok: boolean; ms: number; code?: Code; message: string };
}

/** How it stands with one key of a provider; times in ms. */
export type QueueWire = Omit<GateStatus, "provider">;

/** A part that could not be loaded: the others were. */
export interface Diagnostic {
  path: string;
  message: string;
}

export interface DaemonStatus extends PingPayload {
  uptime_ms: number;
  socket: string;
  log: string;
  processes: number;
  connections: number;
  rss_bytes: number;
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

export interface PingPayload {
  version: string;
  protocol: number;
  build: string;
  pid: number;
  started_at_ms: number;
  /** The user's init.yaml is not up yet: `ping {started}` waits for it. */
  starting?: true;
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
  | {
      event: "step";
      pid: number;
      uuid: string;
      step: number;
      total: number | null;
      /** Used before this step. */
      tokens_used: number;
      cost_usd: number | null;
    }
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
  /** With the reason "suspended": why, what it waits for, and whether it goes on by itself. */
  suspended: ProcInfo["suspended"];
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
  | {
      /** What the model says, and what it thinks, as it comes. */
      type: "text_delta" | "reasoning_delta";
      payload: { pid: number; uuid: string; step: number; text: string };
    }
  | {
      type: "log_entry";
      payload: {
        ts: string;
        step: number;
        kind: "thought" | "text" | "tool" | "result" | "unit" | "compact" | "model";
        text: string;
      };
    }
  | { type: "syscall_event"; payload: Record<string, unknown> }
  /** `dropped`: events this client was too slow for. */
  | { type: "complete"; payload: CompletePayload; dropped?: number }
  /** Only for a run that never came to be. */
  | { type: "error"; payload: { event: "error"; error_message: string; code: string } }
  | { type: "eof"; payload?: { dropped?: number; damaged?: DamagedLines[] } };
