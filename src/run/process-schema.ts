/**
 * The schemas of a process: proc-info.json, process-meta.json and events.jsonl. Large ones are made at their first use: a
 * new run reads no record.
 */

import { z } from "zod";
import { ASK_MODES } from "../lib/ask-modes.ts";
import { SCHEMA_VERSION } from "../lib/schema-version.ts";
import { limitsNamed, namesWith } from "../options/option-list.ts";
import { optionSchemas } from "../options/option-schemas.ts";
import { EFFORTS } from "../plugin/index.ts";
import { OpenAsk } from "./ask-schema.ts";
import { ImageRef, Usage } from "./message.ts";
import { CheckResult, ChildResult, ModelRef, ModelSwitch, Wake } from "./step-schema.ts";

/**
 * One line of events.jsonl and one `syscall_event` on the wire. `timestamp_ms` is whole ms since the spawn;
 * `duration_ms` has fractions.
 */
export const SyscallEventWire = z.lazy(() =>
  z.object({
    timestamp_ms: z.number(),
    pid: z.number(),
    syscall: z.string(),
    args: z.record(z.string(), z.unknown()),
    result: z.unknown().optional(),
    error: z.string().optional(),
    error_code: z.string().optional(),
    duration_ms: z.number(),
  }),
);

/** See src/lib/taint.ts. */
export const TaintRecord = z.lazy(() =>
  z.object({
    origin: z.string(),
    source: z.string(),
    policy: z.enum(["ask", "refuse", "off"]),
    device: z.string().optional(),
    confined: z.literal(true).optional(),
  }),
);

/** The permissions of a process, saved and restored together. See kernel/permission. */
export const PermissionRecord = z.lazy(() =>
  z.object({
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
    /** What is asked for without a rule: the mode of the run, and the strictest of its ancestors. Absent: off. */
    ask_mode: z.enum(ASK_MODES).optional(),
    ask_mode_above: z.enum(ASK_MODES).optional(),
    /** Rules that a person has allowed for the rest of the run: these calls are not asked for. */
    always: z.array(z.string()).optional(),
    /** Command lines that no mode asks for: the checks that its user gave. */
    approved: z.array(z.string()).optional(),
    taint: TaintRecord.optional(),
    /** Folders outside of the project that a person has opened by a yes. */
    opened: z.array(z.object({ dir: z.string(), write: z.boolean() })).optional(),
  }),
);

/** What follows the answer of a run while its background units live. */
const OnUnits = z.enum(["wait", "park", "kill"]);

/** A scheduled job, and the instant and attempt that a run is made for. */
const JobRef = z.object({
  id: z.string(),
  name: z.string(),
  due: z.string(),
  attempt: z.number(),
  /** A run made the job: it shares the budget of all such jobs. */
  by_run: z.literal(true).optional(),
});

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
export const ProcInfo = z.lazy(() =>
  z.object({
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
    /** The folder of the project in its own worktree. */
    worktree: z.string().nullable().default(null),
    cwd: z.string(),
    /** The revision from which its definitions come. */
    base: z.object({ ref: z.string(), commit: z.string() }).nullable().default(null),
    ctx_id: z.number(),
    steps: z.number(),
    /** Its limits; null: none. */
    ...limitsNamed(() => z.number().nullable()),
    /** This process and its children. */
    steps_used: z.number().optional(),
    /** This process and its children. */
    tokens_used: z.number(),
    /** This process alone. */
    usage: Usage,
    cost_usd: z.number().nullable(),
    /** Devices of which it can reach something; `permissions` decides each call. */
    allowed_devices: z.array(z.string()),
    allowed_tools: z.array(z.string()),
    permissions: PermissionRecord,
    sandbox: z.string(),
    /** What limits its programs. */
    program_limits: z.string().default("not recorded"),
    /** Its other options that a resume restores. */
    options: z.object(optionSchemas(namesWith({ recorded: "options" }))).default({}),
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
    /** A person at a terminal started or resumed it. */
    attended: z.boolean().default(false),
    /** Its questions to a person that have no verdict yet. */
    asks: z.array(OpenAsk).default([]),
    /** It resumes automatically when rnix starts after a crash or a stop. */
    resume_on_restart: z.boolean().default(false),
    /** The unit of init.yaml that it runs for. */
    supervised: z.string().nullable().default(null),
    /** The scheduled job, and the instant, that it runs for. */
    job: JobRef.nullable().default(null),
    /** The workflow that it runs, or of which it is an agent. */
    workflow: z
      .object({ name: z.string(), phase: z.string().optional(), label: z.string().optional() })
      .nullable()
      .default(null),
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
    /** Background units that lived when it had given its answer, and what followed. Absent: there were none. */
    units_at_end: z.object({ on_units: OnUnits, ids: z.array(z.string()) }).optional(),
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
  }),
);

/** A change of a run's state: it was made, resumed under a new PID, paused … The process record holds the latest. */
export const StateEvent = z.object({
  n: z.number(),
  ts: z.string(),
  t: z.literal("state"),
  state: z.enum(["made", "resumed", "paused", "continued", "suspended", "ended"]),
  pid: z.number(),
});

/** process-meta.json: the prompt head and the tools. Tools are only appended. */
export const ProcessMeta = z.lazy(() =>
  z.object({
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
        /** Folders outside the project. */
        folders: z.array(z.string()),
        /** Its mounts at the start. Absent in old records. */
        mounts: z.array(z.object({ type: z.string(), name: z.string() })).optional(),
        /** Maximum levels of processes below it. null: no limit. */
        depth: z.number().nullable(),
        /** Attached images: they are in the first message. */
        images: z.array(ImageRef).optional(),
        /** Of a workflow or a shell script: its script, which starts its agents. */
        script: z
          .object({
            name: z.string(),
            source: z.string(),
            args: z.unknown().optional(),
            shell: z.literal(true).optional(),
          })
          .optional(),
        /** Options that are part of the prompt. */
        ...optionSchemas(namesWith({ recorded: "head" })),
      })
      .optional(),
  }),
);

/** A field of proc-info.json that ProcInfo omits: the data folder where it was written. */
export const RecordedDataDir = z.object({ data_dir: z.string() });

/** Another one: the latest changes of its state. */
export const RecordedStates = z.object({ states: z.array(StateEvent).default([]) });

export type SyscallEventWire = z.infer<typeof SyscallEventWire>;
export type SuspendCause = z.infer<typeof SuspendCause>;
export type PermissionRecord = z.infer<typeof PermissionRecord>;
export type ProviderFacts = z.infer<typeof ProviderFacts>;
export type JobRef = z.infer<typeof JobRef>;
export type StateEvent = z.infer<typeof StateEvent>;
export type ProcInfo = z.infer<typeof ProcInfo>;
export type ProcessMeta = z.infer<typeof ProcessMeta>;
