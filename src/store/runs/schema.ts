/** The schemas of the files in a run's folder. */

import { z } from "zod";
import { EFFORTS } from "../../plugin/index.ts";
import { SCHEMA_VERSION } from "../files/schema-version.ts";
import { AskVerdict, OpenAsk } from "./ask-schema.ts";
import { ImageRef, KeptFile, Message, Usage } from "./message.ts";

/**
 * Schemas of the files below `.rnix/data/steps/<uuid>/` (interfaces §3). Every file has a version `v`; a newer version
 * is rejected. Unknown keys are ignored, so that a later version may add keys.
 */
export { Usage };

/** A result that is stored beside the records, in a file named by its hash (src/store/runs/blob-store.ts). */
const KeptRef = z.object({
  /** Relative to the run's folder. */
  file: KeptFile,
  sha256: z.string(),
  bytes: z.number(),
});

/** The record of one tool call. State `unknown`: it started, and no end was recorded. */
export const ToolCallRecord = z.object({
  id: z.string(),
  name: z.string(),
  path: z.string().nullable(),
  input: z.record(z.string(), z.unknown()),
  /** The result as the model sees it. */
  result: z.string().nullable(),
  /** The complete result, when the model sees only a part. */
  kept: KeptRef.optional(),
  error: z.string().nullable(),
  error_code: z.string().nullable(),
  started_at: z.string(),
  duration_ms: z.number(),
  /** How long it waited for a person; `duration_ms` is without it. */
  waited_ms: z.number().optional(),
  state: z.enum(["done", "failed", "denied", "cancelled", "waiting", "unknown"]),
  /** Numbers of the inbox entries in its result. */
  inbox: z.array(z.number()).optional(),
  /** The questions that a person was asked about it, with their verdicts. */
  asked: z.array(AskVerdict).optional(),
  /** What its driver has asked the run's model (service `llm`). Not part of the step's usage. */
  model_use: z.object({ requests: z.number(), usage: Usage }).optional(),
});

export const Action = z.enum(["tool_call", "plan", "replan", "spawn", "specialize", "complete", "text"]);

export const ChildResult = z.object({
  uuid: z.string(),
  pid: z.number(),
  agent: z.string(),
  exit_code: z.number().nullable(),
  exit_reason: z.string().nullable(),
  tokens_used: z.number(),
  /** It was interrupted together with its parent: its end is no failure of the parent. */
  interrupted: z.literal(true).optional(),
});

const ModelRef = z.object({ provider: z.string(), model: z.string() });

/** A permanent switch to another model: the previous one failed, or the user has chosen another. */
export const ModelSwitch = z.object({
  /** The step in which it happened. */
  step: z.number(),
  ts: z.string(),
  from: ModelRef,
  to: ModelRef,
  /** null: the user has chosen it. */
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});

/** The usage of a run and its children when a step is written. A resumed run starts from these numbers. */
const SoFar = z.object({
  tokens_used: z.number(),
  cost_usd: z.number().nullable(),
  steps_used: z.number(),
  elapsed_ms: z.number(),
  /** How often the model had to correct an answer that did not fit the output schema. Absent: never. */
  corrections: z.number().optional(),
});

/**
 * A compaction of the conversation. It can be applied again to the earlier messages. Positions count the messages before
 * the compaction; none is in the step that follows it.
 */
export const Compaction = z.object({
  ts: z.string(),
  /** It exceeded the token limit, the model rejected it as too long, or the user asked for it. */
  why: z.enum(["tokens", "too_long", "asked"]),
  /** Estimated tokens of the request. */
  tokens_before: z.number(),
  tokens_after: z.number(),
  /** Messages that were truncated. */
  cut: z.array(z.object({ at: z.number(), content: z.string() })),
  /** One message that replaces all messages before `to`. */
  summary: z
    .object({
      to: z.number(),
      message: Message,
      /** Who wrote `text`, which is part of the message: the model, or a digest without a model. */
      by: z.enum(["model", "digest"]),
      text: z.string(),
      /** The last user message before `to`. */
      heard: z.string().nullable(),
    })
    .nullable(),
  /** Usage of the model call that wrote the summary. */
  usage: Usage,
});

/** One line of steps.jsonl: a finished step, with only the messages that are new in it. */
export const StepRecord = z.object({
  v: z.literal(SCHEMA_VERSION),
  step: z.number(),
  ts: z.string(),
  /** Compactions before these messages, oldest first. */
  compactions: z.array(Compaction).optional(),
  messages: z.array(Message),
  raw_response: z.string(),
  /** The model's reasoning: shown to users, never sent to a model again. */
  reasoning: z.string().optional(),
  /** For an incomplete answer: why it ended, and the provider's own term for it. */
  stop_reason: z.enum(["max_tokens", "refusal", "paused", "other"]).optional(),
  stop_word: z.string().optional(),
  action: Action,
  summary: z.string(),
  tool_calls: z.array(ToolCallRecord),
  /** Numbers of the inbox entries in `messages`. The step acknowledges these and those of its calls. */
  inbox: z.array(z.number()).optional(),
  usage: Usage,
  tokens_used: z.number(),
  /** A check rejected the answer of the step before, so that one did not end the run. */
  after_check: z.literal(true).optional(),
  /** How many tools its request offered: these are the first in process-meta.json. Absent: all of them. */
  tools_offered: z.number().optional(),
  /** The user interrupted its answer, of which this is the beginning, or its tool calls. */
  interrupted: z.literal(true).optional(),
  /** Children that have ended since the step before. */
  children: z.array(ChildResult).optional(),
  so_far: SoFar.optional(),
  /** Model switches in this step. */
  switches: z.array(ModelSwitch).optional(),
  /** In a fork: the run that made this step. Its usage counts for that run. */
  origin_uuid: z.string().optional(),
});

/** What a suspended run, or a tool call, waits for (design §2, "Waiting"). `never`: only the user resumes it. */
export const Wake = z.discriminatedUnion("on", [
  z.object({ on: z.literal("at"), at_ms: z.number() }),
  /** `until_ms`: when the question's default counts. `questions`: how many the model asks; absent for a permission. */
  z.object({
    on: z.literal("answer"),
    id: z.string(),
    until_ms: z.number().optional(),
    questions: z.number().optional(),
  }),
  z.object({ on: z.literal("child"), uuid: z.string() }),
  z.object({ on: z.literal("unit"), id: z.string() }),
  /** `until_ms`: when it resumes without a message. */
  z.object({ on: z.literal("message"), until_ms: z.number().optional() }),
  z.object({ on: z.literal("never") }),
]);

/** One line of step.journal: an event of the open step, in order. */
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
    /** New messages before the answer, as in the step's record. */
    messages: z.array(Message).optional(),
    /** Numbers of the inbox entries in these messages. */
    inbox: z.array(z.number()).optional(),
    /** A partial answer: the model is a program that called a tool itself. The calls follow in this journal. */
    served: z.literal(true).optional(),
    /** The user interrupted it. */
    interrupted: z.literal(true).optional(),
  }),
  z.object({
    t: z.literal("call_start"),
    step: z.number(),
    ts: z.string(),
    id: z.string(),
    name: z.string(),
    path: z.string(),
    input: z.record(z.string(), z.unknown()),
    /** The tool declares that a second run does no harm. */
    safe: z.boolean(),
  }),
  /** The call has done its work and waits for an event: its state is never `unknown`. */
  z.object({ t: z.literal("waiting"), step: z.number(), ts: z.string(), id: z.string(), on: Wake }),
  /** The call has waited for a person, and has the verdict. What it does comes after this. */
  z.object({
    t: z.literal("verdict"),
    step: z.number(),
    ts: z.string(),
    id: z.string(),
    verdict: AskVerdict,
  }),
  z.object({ t: z.literal("call_end"), step: z.number(), ts: z.string(), call: ToolCallRecord }),
  /** A compaction before the step's answer. */
  z.object({
    t: z.literal("compact"),
    step: z.number(),
    ts: z.string(),
    compaction: Compaction,
    so_far: SoFar.optional(),
  }),
]);

export const CheckResult = z.object({
  command: z.string(),
  exit_code: z.number().nullable(),
  /** The end of its output, when it failed. */
  output: z.string().optional(),
  /** After a failed attempt the model continues, and all checks run again. Absent: the first attempt. */
  attempt: z.number().optional(),
});

const Arrived = { v: z.literal(SCHEMA_VERSION), seq: z.number(), ts: z.string() };

/** A message for a run, which is delivered to its model. `seq` is its number in this inbox. */
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
  z.object({
    ...Arrived,
    kind: z.literal("notice"),
    source: z.string(),
    text: z.string(),
    /** The failed attempt of the checks that it reports. */
    checks: z.array(CheckResult).optional(),
  }),
  /** From the user: a message to a run, and the text that a run is resumed with. */
  z.object({
    ...Arrived,
    kind: z.literal("input"),
    text: z.string(),
    /** Delivered only when the present answer is complete. Absent: with the next step. */
    when: z.literal("after_answer").optional(),
    images: z.array(ImageRef).optional(),
  }),
]);

/** One line of inbox.jsonl: an entry, or the numbers of entries that a program took. */
export const InboxLine = z.discriminatedUnion("kind", [
  InboxEntry,
  z.object({ v: z.literal(SCHEMA_VERSION), kind: z.literal("taken"), seqs: z.array(z.number()) }),
]);

/**
 * One line of events.jsonl and one `syscall_event` on the wire (seeds 5.5). `timestamp_ms` is whole ms since the spawn;
 * `duration_ms` has fractions.
 */
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

/** The permissions of a process, saved and restored together. See kernel/permission. */
export const PermissionRecord = z.object({
  /** Every list must allow a call. The first is the process's own; the others are those of its ancestors. */
  allow: z.array(z.array(z.string())),
  /** Deny rules. A call that one of them, of `revoked` or of `deny_above` covers is denied. */
  deny: z.array(z.string()),
  /** Deny rules that ancestors added. `by`: the UUID of the process that may remove the rule. */
  revoked: z.array(z.object({ rule: z.string(), by: z.string() })).optional(),
  /** The deny rules of all its ancestors. */
  deny_above: z.array(z.string()).optional(),
  /** The spawner fixed the process's own list: mounts add no rules to it. */
  fixed: z.literal(true).optional(),
  /** Ask rules: a person decides each allowed call that one of them, or of `ask_above`, covers. */
  ask: z.array(z.string()).optional(),
  /** The ask rules of all its ancestors. */
  ask_above: z.array(z.string()).optional(),
  /** What is asked for without a rule. */
  ask_mode: z.enum(["outside"]).optional(),
  /** Rules that a person has allowed for the rest of the run: these calls are not asked for. */
  always: z.array(z.string()).optional(),
});

/** A scheduled job, and the instant and attempt that a run is made for. */
const JobRef = z.object({ id: z.string(), name: z.string(), due: z.string(), attempt: z.number() });

/**
 * Why a run was suspended: on request (or to wait), by a stop or restart of rnix, by a crash of rnix, with its parent,
 * or because its model was down. It decides which runs resume automatically when rnix starts (kernel/resume).
 */
export const SuspendCause = z.enum(["asked", "stop", "restart", "crash", "parent", "model"]);

/** The endpoint and limits of a run's model. null: unknown, or the driver's default. */
const ProviderFacts = z.object({
  driver: z.string(),
  /** Without parts that may be secret. */
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
  /** Old records have no kind: they are agents. */
  kind: z.enum(["agent", "supervisor", "command"]).default("agent"),
  parent_uuid: z.string().nullable(),
  origin_uuid: z.string().nullable(),
  state: z.enum(["created", "running", "zombie", "dead", "suspended"]),
  intent: z.string(),
  agent: z.string(),
  skills: z.array(z.string()),
  provider: z.string(),
  model: z.string(),
  /** The user selected this provider by a flag. */
  provider_by_flag: z.boolean().default(false),
  /** The remaining fallback models, in order. */
  fallback: z.array(ModelRef).default([]),
  /** Model switches since the spawn, oldest first. */
  switches: z.array(ModelSwitch).default([]),
  /** The reasoning effort of the model, when one was set. */
  effort: z.enum(EFFORTS).nullable().default(null),
  project: z.string(),
  cwd: z.string(),
  /** The revision from which its definitions come. */
  base: z.object({ ref: z.string(), commit: z.string() }).nullable().default(null),
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
  /** Devices of which it can reach something; `permissions` decides each call. */
  allowed_devices: z.array(z.string()),
  allowed_tools: z.array(z.string()),
  permissions: PermissionRecord,
  sandbox: z.string(),
  created_at_ms: z.number(),
  ended_at_ms: z.number().nullable(),
  /** Running time, without paused and suspended time. */
  elapsed_ms: z.number(),
  is_paused: z.boolean(),
  paused_at_ms: z.number(),
  result: z.string().nullable(),
  /** The result as a document of the output schema; null without a schema. */
  output: z.unknown().default(null),
  /** The run was interrupted, and the result is incomplete. */
  partial: z.boolean(),
  exit_code: z.number().nullable(),
  exit_reason: z.string().nullable(),
  /** For a suspended run: why it was suspended, and what it waits for. */
  suspended: z
    .object({
      reason: z.string(),
      cause: SuspendCause.default("asked"),
      wake: Wake,
      /** The waker resumes it automatically. Absent: the user resumes it. */
      by_itself: z.literal(true).optional(),
    })
    .nullable()
    .default(null),
  /** After each answer it waits for a message of the user instead of ending. */
  chat: z.boolean().default(false),
  /** Its questions to a person that have no verdict yet. */
  asks: z.array(OpenAsk).default([]),
  /** It resumes automatically when rnix starts after a crash or a stop. */
  resume_on_restart: z.boolean().default(false),
  /** The unit of init.yaml that it runs for. */
  supervised: z.string().nullable().default(null),
  /** The scheduled job, and the instant, that it runs for. */
  job: JobRef.nullable().default(null),
  /** Facts of its provider in the last run. Old records have none. */
  provider_facts: ProviderFacts.nullable().default(null),
  /** Its process groups, or those at its end. */
  groups: z.array(z.string()).default([]),
  /** Its PIDs before it was resumed, oldest first; of many, only the latest. */
  earlier_pids: z.array(z.number()).default([]),
  /** For a crashed run: how many crashes in a row happened after the same step. */
  crashes: z.object({ step: z.number(), times: z.number() }).nullable().default(null),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  /** What the user should know about how it began: what was left out, and why. */
  notices: z.array(z.string()).default([]),
  /** Of all attempts, in order. */
  checks: z.array(CheckResult),
  tool_calls: z.number(),
  /** A call was started that can't be repeated without a further effect. */
  acted: z.boolean().default(false),
  files_changed: z.array(z.string()),
  files_changed_complete: z.boolean(),
  children: z.array(ChildResult),
  /** Versions or digests of rnix and the plugins, by name. */
  versions: z.record(z.string(), z.string()),
  /** The name of the lock file of its kernel. When that lock is free, the run has crashed. */
  kernel: z.string(),
  /** This user's Rnix did not write it: it can be viewed, but never resumed. Set when it is read. */
  foreign: z.literal(true).optional(),
  /** The project or data folder from which it was copied or moved. Set when it is read. */
  moved_from: z.string().optional(),
  /** Names of all environment variables; values only for the allow-list and `--env`. */
  env: z.object({ names: z.array(z.string()), values: z.record(z.string(), z.string()) }),
});

/** process-meta.json: the prompt head and the tools. Tools are only appended. */
export const ProcessMeta = z.object({
  v: z.literal(SCHEMA_VERSION),
  system_prompt: z.string(),
  tools: z.array(
    z.object({ name: z.string(), description: z.string(), input: z.record(z.string(), z.unknown()) }),
  ),
  /** The parts of the head that plugins gave. Absent: none. */
  prompt_parts: z
    .array(z.object({ plugin: z.string(), title: z.string(), characters: z.number() }))
    .optional(),
  /** Spawn arguments that are not in the process record. Absent in old records. */
  spawned: z
    .object({
      /** Attached text: it follows the intent in the first message. */
      input: z.string().nullable(),
      /** Commands that must succeed at the end. */
      checks: z.array(z.string()),
      /** Maximum attempts of the checks. Absent in old records: 1. */
      check_attempts: z.number().optional(),
      /** Folders outside the project. */
      folders: z.array(z.string()),
      /** Its mounts at the start. Absent in old records. */
      mounts: z.array(z.object({ type: z.string(), name: z.string() })).optional(),
      /** Maximum levels of processes below it. null: no limit. */
      depth: z.number().nullable(),
      /** The spawner's addition to the prompt head. Absent in old records. */
      system_prompt: z.string().nullable().optional(),
      /** Attached images: they are in the first message. */
      images: z.array(ImageRef).optional(),
      /** What decides a question when no client can answer it. Absent: the default. */
      on_ask: z.enum(["deny", "default", "park"]).optional(),
      /** JSON Schema that its answer must fit. */
      output_schema: z.record(z.string(), z.unknown()).optional(),
    })
    .optional(),
});

/** A field of proc-info.json that ProcInfo omits: the data folder where it was written. */
export const RecordedDataDir = z.object({ data_dir: z.string() });

export type ToolCallRecord = z.infer<typeof ToolCallRecord>;
export type Compaction = z.infer<typeof Compaction>;
export type Action = z.infer<typeof Action>;
export type StepRecord = z.infer<typeof StepRecord>;
export type JournalEntry = z.infer<typeof JournalEntry>;
export type InboxEntry = z.infer<typeof InboxEntry>;
/** An entry before the inbox assigns its number. */
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
export type JobRef = z.infer<typeof JobRef>;
export type ProcInfo = z.infer<typeof ProcInfo>;
export type ProcessMeta = z.infer<typeof ProcessMeta>;
