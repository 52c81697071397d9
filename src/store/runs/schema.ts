import { z } from "zod";
import { EFFORTS } from "../../plugin/index.ts";
import { SCHEMA_VERSION } from "../files/schema-version.ts";
import { ImageRef, KeptFile, Message, Usage } from "./message.ts";

/**
 * What is written below `.rnix/data/steps/<uuid>/` (interfaces §3). Every file carries `v`; a newer one is
 * refused, not guessed at. Unknown keys are kept out of the way, so that a later version may add some.
 */
export { Usage };

/** What is kept whole beside the records, in a file named by its content (src/store/runs/blob-store.ts). */
const KeptRef = z.object({
  /** Relative to the run's folder. */
  file: KeptFile,
  sha256: z.string(),
  bytes: z.number(),
});

/** How one tool call of a step went. `unknown`: it had started and no end was ever recorded. */
export const ToolCallRecord = z.object({
  id: z.string(),
  name: z.string(),
  path: z.string().nullable(),
  input: z.record(z.string(), z.unknown()),
  /** What the model is shown of it. */
  result: z.string().nullable(),
  /** The whole of it, where the model is shown a part. */
  kept: KeptRef.optional(),
  error: z.string().nullable(),
  error_code: z.string().nullable(),
  started_at: z.string(),
  duration_ms: z.number(),
  state: z.enum(["done", "failed", "denied", "cancelled", "waiting", "unknown"]),
  /** Numbers of the inbox entries that its result holds. */
  inbox: z.array(z.number()).optional(),
});

export const Action = z.enum(["tool_call", "plan", "replan", "spawn", "specialize", "complete", "text"]);

export const ChildResult = z.object({
  uuid: z.string(),
  pid: z.number(),
  agent: z.string(),
  exit_code: z.number().nullable(),
  exit_reason: z.string().nullable(),
  tokens_used: z.number(),
});

const ModelRef = z.object({ provider: z.string(), model: z.string() });

/** The run has gone over to another model, for the one before has failed; it stays with it. */
export const ModelSwitch = z.object({
  /** The step in which it was. */
  step: z.number(),
  ts: z.string(),
  from: ModelRef,
  to: ModelRef,
  error: z.object({ code: z.string(), message: z.string() }),
});

/** What a run has used when a step is written, its children included: what counts on when it is resumed. */
const SoFar = z.object({
  tokens_used: z.number(),
  cost_usd: z.number().nullable(),
  steps_used: z.number(),
  elapsed_ms: z.number(),
  /** How often its model was told that its last word does not fit the output schema. Absent: never. */
  corrections: z.number().optional(),
});

/**
 * What a compaction has made of the conversation: with what was there before, it can be made of it again. Places are
 * those of the messages as they were then; none of them is of the step that the compaction came before.
 */
export const Compaction = z.object({
  ts: z.string(),
  /** It had grown too long, its model has refused it for that, or a person has asked for it. */
  why: z.enum(["tokens", "too_long", "asked"]),
  /** What the model is sent with it, as far as that can be told. */
  tokens_before: z.number(),
  tokens_after: z.number(),
  /** Messages of which a part stands in for the whole. */
  cut: z.array(z.object({ at: z.number(), content: z.string() })),
  /** One message stands in for all those before `to`. */
  summary: z
    .object({
      to: z.number(),
      message: Message,
      /** Who has written `text`, which is a part of it: the model, or nobody could. */
      by: z.enum(["model", "digest"]),
      text: z.string(),
      /** The last words of those before `to` that came from outside. */
      heard: z.string().nullable(),
    })
    .nullable(),
  /** Of the model that wrote it. */
  usage: Usage,
});

/** One line of steps.jsonl: a finished step, with only the messages that are new in it. */
export const StepRecord = z.object({
  v: z.literal(SCHEMA_VERSION),
  step: z.number(),
  ts: z.string(),
  /** What was made of the conversation before these messages came, oldest first. */
  compactions: z.array(Compaction).optional(),
  messages: z.array(Message),
  raw_response: z.string(),
  /** What the model thought: shown to people, and never told to a model again. */
  reasoning: z.string().optional(),
  /** Where the answer is not whole: why it ended, and the provider's own word for it. */
  stop_reason: z.enum(["max_tokens", "refusal", "paused", "other"]).optional(),
  stop_word: z.string().optional(),
  action: Action,
  summary: z.string(),
  tool_calls: z.array(ToolCallRecord),
  /** Numbers of the inbox entries that `messages` hold. With those of the calls: what the step acknowledges. */
  inbox: z.array(z.number()).optional(),
  usage: Usage,
  tokens_used: z.number(),
  /** Children that have ended since the step before. */
  children: z.array(ChildResult).optional(),
  so_far: SoFar.optional(),
  /** The models that failed in it, and what was asked instead. */
  switches: z.array(ModelSwitch).optional(),
  /** In a fork: the run that made this step. What it used is that run's. */
  origin_uuid: z.string().optional(),
});

/** What a suspended run, or a tool call, waits for (design §2, "Waiting"). `never`: a person goes on with it. */
export const Wake = z.discriminatedUnion("on", [
  z.object({ on: z.literal("at"), at_ms: z.number() }),
  z.object({ on: z.literal("answer"), id: z.string() }),
  z.object({ on: z.literal("child"), uuid: z.string() }),
  z.object({ on: z.literal("unit"), id: z.string() }),
  z.object({ on: z.literal("message") }),
  z.object({ on: z.literal("never") }),
]);

/** One line of step.journal: what the open step has done so far, in the order it was done. */
export const JournalEntry = z.discriminatedUnion("t", [
  z.object({
    t: z.literal("answer"),
    v: z.literal(SCHEMA_VERSION),
    step: z.number(),
    ts: z.string(),
    message: Message,
    reasoning: z.string().optional(),
    usage: Usage,
    stop_reason: z
      .enum(["end_turn", "tool_calls", "max_tokens", "refusal", "paused", "other", "unknown"])
      .optional(),
    stop_word: z.string().optional(),
    so_far: SoFar.optional(),
    /** What the conversation gained before it, as the step's record will hold it. */
    messages: z.array(Message).optional(),
    /** Numbers of the inbox entries that these hold. */
    inbox: z.array(z.number()).optional(),
    /** As far as it was when the model, a program, called a tool by itself: its calls are those that follow here. */
    served: z.literal(true).optional(),
  }),
  z.object({
    t: z.literal("call_start"),
    step: z.number(),
    ts: z.string(),
    id: z.string(),
    name: z.string(),
    path: z.string(),
    input: z.record(z.string(), z.unknown()),
    /** The tool's own word that running it a second time does no harm. */
    safe: z.boolean(),
  }),
  /** The call has done what it had to, and ends with what it waits for: it is never unknown. */
  z.object({ t: z.literal("waiting"), step: z.number(), ts: z.string(), id: z.string(), on: Wake }),
  z.object({ t: z.literal("call_end"), step: z.number(), ts: z.string(), call: ToolCallRecord }),
  /** Before the step's answer. */
  z.object({
    t: z.literal("compact"),
    step: z.number(),
    ts: z.string(),
    compaction: Compaction,
    so_far: SoFar.optional(),
  }),
]);

const Arrived = { v: z.literal(SCHEMA_VERSION), seq: z.number(), ts: z.string() };

/** What has arrived for a run from outside, and is told to its model. `seq` is its number in this inbox. */
export const InboxEntry = z.discriminatedUnion("kind", [
  /** From another process; PID 0, which has no UUID, is the operator. */
  z.object({
    ...Arrived,
    kind: z.literal("message"),
    from_pid: z.number(),
    from_uuid: z.string().nullable(),
    data: z.string(),
  }),
  /** From a driver; `source` is its plugin. */
  z.object({ ...Arrived, kind: z.literal("notice"), source: z.string(), text: z.string() }),
  /** What the user gave a run to go on with. */
  z.object({ ...Arrived, kind: z.literal("input"), text: z.string() }),
]);

/** One line of inbox.jsonl: an entry, or the numbers of those that a program has taken. */
export const InboxLine = z.discriminatedUnion("kind", [
  InboxEntry,
  z.object({ v: z.literal(SCHEMA_VERSION), kind: z.literal("taken"), seqs: z.array(z.number()) }),
]);

/** One line of events.jsonl and one `syscall_event` on the wire (seeds 5.5). Times are ms since the spawn. */
export const SyscallEventWire = z.object({
  timestamp_ms: z.number(),
  pid: z.number(),
  syscall: z.string(),
  args: z.record(z.string(), z.unknown()),
  result: z.unknown().optional(),
  error: z.string().optional(),
  error_code: z.string().optional(),
  duration_ms: z.number(),
});

export const CheckResult = z.object({
  command: z.string(),
  exit_code: z.number().nullable(),
  /** The end of its output, when it failed. */
  output: z.string().optional(),
});

/** A process's rights, saved and restored as one unit. See kernel/permission. */
export const PermissionRecord = z.object({
  /** Every list must allow a call: the process's own, which comes first, and those of all its ancestors. */
  allow: z.array(z.array(z.string())),
  /** None of these may cover it, nor any of `revoked` and `deny_above`. */
  deny: z.array(z.string()),
  /** Lists of the skills called so far, together: one more layer. Absent: no skill has narrowed. */
  skills: z.array(z.string()).optional(),
  /** Deny rules that processes above have made on it: `by` is the UUID of who may take it back. */
  revoked: z.array(z.object({ rule: z.string(), by: z.string() })).optional(),
  /** The deny rules of all its ancestors. */
  deny_above: z.array(z.string()).optional(),
  /** Its own list is its spawner's word on what it may use: what is mounted adds nothing to it. */
  fixed: z.literal(true).optional(),
});

/**
 * Who laid a run down: a person or a program that asked for it, or itself, to wait; the end of rnix, for good or to
 * start it anew; a crash of it; its parent, which was laid down itself. It decides what goes on by itself when rnix
 * starts (kernel/resume/goes-on.ts).
 */
export const SuspendCause = z.enum(["asked", "stop", "restart", "crash", "parent"]);

/** Where a run's model is. null: not known, or the driver's own. */
const ProviderFacts = z.object({
  driver: z.string(),
  /** Without what may be secret in it. */
  base_url: z.string().nullable(),
  context_window: z.number().nullable(),
  max_output: z.number().nullable(),
});

/** proc-info.json, `list_procs`, `ps --json`, `show --json` and `wait`: one set of names for a process. */
export const ProcInfo = z.object({
  v: z.literal(SCHEMA_VERSION),
  pid: z.number(),
  ppid: z.number(),
  uuid: z.string(),
  /** Records of before there were others have none. */
  kind: z.enum(["agent", "supervisor", "command"]).default("agent"),
  parent_uuid: z.string().nullable(),
  origin_uuid: z.string().nullable(),
  state: z.enum(["created", "running", "zombie", "dead", "suspended"]),
  intent: z.string(),
  agent: z.string(),
  skills: z.array(z.string()),
  provider: z.string(),
  model: z.string(),
  /** Somebody has asked for this provider and no other. */
  provider_by_flag: z.boolean().default(false),
  /** What it can still fall back to, in order. */
  fallback: z.array(ModelRef).default([]),
  /** Why it has not the model any more that it was spawned with, oldest first. */
  switches: z.array(ModelSwitch).default([]),
  /** How much its model is to think, where somebody said so. */
  effort: z.enum(EFFORTS).nullable().default(null),
  project: z.string(),
  cwd: z.string(),
  ctx_id: z.number(),
  steps: z.number(),
  /** null: no limit. */
  max_steps: z.number().nullable(),
  /** This process and its children. */
  steps_used: z.number().optional(),
  /** This process and its children. */
  tokens_used: z.number(),
  /** This process alone. */
  usage: Usage,
  cost_usd: z.number().nullable(),
  context_budget: z.number().nullable(),
  max_cost: z.number().nullable(),
  timeout_ms: z.number().nullable(),
  /** Devices the rights cover whole; the calls themselves are decided by `permissions`. */
  allowed_devices: z.array(z.string()),
  allowed_tools: z.array(z.string()),
  permissions: PermissionRecord,
  sandbox: z.string(),
  created_at_ms: z.number(),
  ended_at_ms: z.number().nullable(),
  /** Running time: paused and suspended time is not in it. */
  elapsed_ms: z.number(),
  is_paused: z.boolean(),
  paused_at_ms: z.number(),
  result: z.string().nullable(),
  /** The result as the document that its output schema asked for; null where none was asked for. */
  output: z.unknown().default(null),
  /** The result is what there was when the run was cut off. */
  partial: z.boolean(),
  exit_code: z.number().nullable(),
  exit_reason: z.string().nullable(),
  /** Of a run that was suspended: why, and what it waits for. */
  suspended: z
    .object({
      reason: z.string(),
      cause: SuspendCause.default("asked"),
      wake: Wake,
      /** Its waker goes on with it by itself. Absent: a person does. */
      by_itself: z.literal(true).optional(),
    })
    .nullable()
    .default(null),
  /** It goes on by itself when rnix starts again after a crash or a stop. */
  resume_on_restart: z.boolean().default(false),
  /** Whose place it has in an init.yaml. */
  supervised: z.string().nullable().default(null),
  /** Of its provider when it ran last. Records of before it was kept have none. */
  provider_facts: ProviderFacts.nullable().default(null),
  /** Process groups that it is in, or was in when it ended. */
  groups: z.array(z.string()).default([]),
  /** PIDs that it had before it was gone on with, oldest first; the last of many. */
  earlier_pids: z.array(z.number()).default([]),
  /** Of a run that crashes have cut off: how often in a row, and after which step, without another in between. */
  crashes: z.object({ step: z.number(), times: z.number() }).nullable().default(null),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  checks: z.array(CheckResult),
  tool_calls: z.number(),
  files_changed: z.array(z.string()),
  files_changed_complete: z.boolean(),
  children: z.array(ChildResult),
  /** What took part: rnix, plugins by name with their version or digest. */
  versions: z.record(z.string(), z.string()),
  /** The lock file's name of the kernel that holds it: the run has crashed when that lock is free. */
  kernel: z.string(),
  /** Not this user's Rnix has written it: it can be looked at, and is never resumed. Found when it is read. */
  foreign: z.literal(true).optional(),
  /** It was recorded in this project, or data folder, and has been copied or moved. Found when it is read. */
  moved_from: z.string().optional(),
  /** Names of the environment's variables; values only of the allow-list and of `--env`. */
  env: z.object({ names: z.array(z.string()), values: z.record(z.string(), z.string()) }),
});

/** process-meta.json: the fixed head of the prompt and the tools shown, which are only ever appended to. */
export const ProcessMeta = z.object({
  v: z.literal(SCHEMA_VERSION),
  system_prompt: z.string(),
  tools: z.array(
    z.object({ name: z.string(), description: z.string(), input: z.record(z.string(), z.unknown()) }),
  ),
  /** What it was spawned with and its process record does not tell. Absent in records of before it was kept. */
  spawned: z
    .object({
      /** Attached text: it follows the intent in the first message. */
      input: z.string().nullable(),
      /** Commands that must succeed at the end. */
      checks: z.array(z.string()),
      /** Outside of the project. */
      folders: z.array(z.string()),
      /** What it began with mounted. Absent in records of before it was kept. */
      mounts: z.array(z.object({ type: z.string(), name: z.string() })).optional(),
      /** Levels of processes that may be below it. null: no limit. */
      depth: z.number().nullable(),
      /** What its spawner added to the head of the prompt. Absent in records of before it was kept. */
      system_prompt: z.string().nullable().optional(),
      /** Attached images: they stand in the first message. */
      images: z.array(ImageRef).optional(),
      /** JSON Schema that its answer must fit. */
      output_schema: z.record(z.string(), z.unknown()).optional(),
    })
    .optional(),
});

/** What proc-info.json holds beside that: the data folder in which it was written. */
export const RecordedPlace = z.object({ data_dir: z.string() });

export type ToolCallRecord = z.infer<typeof ToolCallRecord>;
export type Compaction = z.infer<typeof Compaction>;
export type Action = z.infer<typeof Action>;
export type StepRecord = z.infer<typeof StepRecord>;
export type JournalEntry = z.infer<typeof JournalEntry>;
export type InboxEntry = z.infer<typeof InboxEntry>;
/** As it is handed in: the inbox gives it its number. */
export type InboxDraft = WithoutNumber<InboxEntry>;
type WithoutNumber<T> = T extends unknown ? Omit<T, "v" | "seq"> : never;
export type SyscallEventWire = z.infer<typeof SyscallEventWire>;
export type SoFar = z.infer<typeof SoFar>;
export type Wake = z.infer<typeof Wake>;
export type SuspendCause = z.infer<typeof SuspendCause>;
export type CheckResult = z.infer<typeof CheckResult>;
export type ChildResult = z.infer<typeof ChildResult>;
export type PermissionRecord = z.infer<typeof PermissionRecord>;
export type ModelSwitch = z.infer<typeof ModelSwitch>;
export type ProviderFacts = z.infer<typeof ProviderFacts>;
export type ProcInfo = z.infer<typeof ProcInfo>;
export type ProcessMeta = z.infer<typeof ProcessMeta>;
