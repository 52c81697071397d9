/** The types that the parts of the kernel and its embedder share. */

import type { AskMode } from "../lib/ask-modes.ts";
import type {
  AgentInfo,
  Limit,
  Limits,
  MountRequest,
  ProviderChoice,
  SkillInfo,
} from "../options/definitions.ts";
import type { OptionValues, ProcessOptions } from "../options/option-types.ts";
import type { Effort, ImageRef, LLMAnswer, Message, SyscallError, Usage } from "../plugin/index.ts";
import type { BoundSecret } from "../proxy/bound-secret.ts";
import type { AskVerdict } from "../run/ask-schema.ts";
import type { Sandbox } from "../sandbox/policy.ts";
import type {
  JobRef,
  PermissionRecord,
  ProcInfo,
  SuspendCause,
  SyscallEventWire,
  ToolCallRecord,
  Wake,
} from "../store/runs/schema.ts";
import type { DeviceLease } from "../vfs/lease.ts";
import type { WorkflowPart, WorkflowScript } from "../workflows/script.ts";

export type PID = number;

/** The kinds of processes. Only agents reason and have a model. */
export type ProcessKind = "agent" | "supervisor" | "command";

export type ProcessState = "created" | "running" | "zombie" | "dead";

/** How a run ended. The verdict function is the only one to make it. */
export interface ExitStatus {
  code: number;
  reason: ExitReason;
  error?: SyscallError;
  /** Set with the reason `suspended`: why, and what the run waits for. */
  suspended?: Suspension;
  /** The user interrupted its parent. */
  withParent?: true;
}

/** Why the run was suspended (shown to users) and what will wake it. */
export interface Suspension {
  reason: string;
  cause: SuspendCause;
  wake: Wake;
}

export type ExitReason =
  | "completed"
  | "failed"
  | "check_failed"
  | "timeout"
  | "llm_error"
  | "max_steps"
  | "circuit_breaker"
  | "loop_detected"
  | "record_error"
  | "max_restarts_exceeded"
  | "budget_exceeded"
  | "suspended"
  | "interrupted"
  | "killed"
  | "terminated"
  | "killed_while_paused"
  /** A requirement of the first step, such as a required MCP server, could not be met. */
  | "unavailable"
  /** The request is contradictory, which was found after the process began. */
  | "usage";

/** A project as the kernel needs it: where it is, where its data goes, what devices it sees. */
export interface ProjectHandle {
  id: string;
  dir: string;
  /** Set in a worktree, which is `dir`: the folder of the project itself. */
  home?: string;
  dataDir: string;
  trusted: boolean;
}

/** A mount as `rnix show` prints it. */
export interface MountInfo {
  path: string;
  type: string;
  /** Why it can't be used now; null while it can. */
  down: string | null;
}

/** The resolved options of a spawn: the kernel reads no configuration. */
export interface SpawnOpts extends ProcessOptions {
  project: ProjectHandle;
  /** Its project's folder is a worktree that was made for it, so it is in none of its parent's folders. */
  worktree?: boolean;
  /** `--base`. */
  base?: RunBase;
  devices: DeviceLease;
  /** null: it has no model, and is no agent. */
  provider: ProviderChoice | null;
  cwd: string;
  /** Further folders of `--add`. */
  folders?: string[];
  /** The run's environment without provider secrets. */
  env: Record<string, string>;
  /** Keys of all providers that are known: what the process reads, prints and records does not show them. */
  secrets?: readonly string[];
  /** Secrets that its programs know by placeholders. */
  boundSecrets?: readonly BoundSecret[];
  /** Keys that plugins name, by name; held in memory only. */
  pluginKeys?: Readonly<Record<string, string>>;
  /**
   * The files to which the command that follows the run prints: what it writes there is no change of the run. With
   * `ctimeMs`: a file that Rnix has written for the user, until it changes again.
   */
  outputs?: readonly { dev: number; ino: number; ctimeMs?: number }[];
  /** Values given by `--env`: they may be kept on disk. */
  envGiven?: string[];
  /** For a resumed run: the names of its former variables. */
  envHad?: readonly string[];
  /** AGENTS.md of the project, if there is one. */
  projectDoc?: string;
  /** Attached text (stdin, --add files): it follows the intent in the first message. */
  input?: string;
  parentPid?: PID;
  /** The parent's tool call that waits for it. */
  parentCall?: string;
  /** The UUID, if the caller has recorded it already; absent: a new one. */
  uuid?: string;
  /** The unit of init.yaml that it belongs to: a restart of the unit resumes a run that was cut off. */
  supervised?: string;
  /** The scheduled job, and the instant, that it runs for. */
  job?: JobRef;
  /** The rights of the run that made its job: it never has more. */
  within?: PermissionRecord;
  /** Mounted before the process starts, side by side. Its rights come with each. */
  mounts?: readonly MountRequest[];
  deny?: string[];
  /** What a person is asked for without a rule. Absent: nothing, or after a resume what the record says. */
  askMode?: AskMode;
  /** Rules that the user has allowed in the conversation: added to the agent's list, and calls of them need no question. */
  unasked?: readonly string[];
  /** Command lines that the user gave for this run, as its checks: no mode asks for exactly these. */
  approved?: readonly string[];
  /** Rules that a person has allowed in every run of the project. */
  alwaysAllowed?: readonly string[];
  /** For a call of PID 0 about a run: the UUID of the root run of the tree, and the folder of its record. */
  about?: { uuid: string; dir: string };
  /** For a replay: what a person has decided in the recorded run, by call. */
  verdicts?: ReadonlyMap<string, AskVerdict[]>;
  /** Attached images: they are in the first message with the intent. */
  images?: readonly AttachedImage[];
  /** The model's reasoning effort; absent: the provider's default. */
  effort?: Effort;
  /** The sandbox of its programs, as the receipt names it. */
  sandbox?: string;
  confinement?: Sandbox;
  attended?: boolean;
  /** Whose text is part of the input, if it is not the user's. */
  inputOrigin?: string;
  /** Its agents are started by this script; its model is that of its agents. */
  script?: WorkflowScript;
  /** The workflow of which it is an agent. */
  workflow?: WorkflowPart;
  /** After each answer the run waits for a message of the user. The intent is the first one; empty: none yet. */
  chat?: boolean;
  /** A chat is suspended instead of waiting for a message. */
  untilAnswer?: boolean;
  /** No client follows the run. While its model is down it is suspended instead of ended. */
  detached?: boolean;
  /** Notices about the start of the run: shown to clients that attach, and recorded. */
  notices?: readonly string[];
  limits: Limits;
}

/** The revision from which a run takes the definitions of its project. */
export interface RunBase {
  /** As the user named it. */
  ref: string;
  commit: string;
}

/** What a child inherits of its parent. */
export type InheritedOpts = Pick<
  SpawnOpts,
  | "base"
  | "project"
  | "confinement"
  | "provider"
  | "effort"
  | "env"
  | "pluginKeys"
  | "boundSecrets"
  | "envGiven"
  | "cwd"
  | "folders"
  | "attended"
  | "detached"
  | "outputs"
  | "verdicts"
>;

/** An attached image, stored beside the run from its start. */
export interface AttachedImage extends Pick<ImageRef, "media_type" | "width" | "height"> {
  data: Uint8Array;
}

/** The input of an agent's request for a child. */
export interface ChildRequest {
  intent: string;
  agent?: string;
  /** A model of the parent's provider. */
  model?: string;
  /** Text beside the intent, as data. */
  input?: string;
  /** Further options of its run. */
  options?: OptionValues;
  workflow?: WorkflowPart;
  /** It works in a git worktree of its own. */
  worktree?: boolean;
  /** After an answer it waits for a message, as a chat does. */
  stays?: boolean;
  /** It is a workflow; without a source a saved one. */
  runs?: Pick<WorkflowScript, "name" | "args"> & { source?: string };
}

/** The plan of a child, with notices for its parent's watchers. */
export interface ChildPlan {
  agent: AgentInfo | null;
  /** The caller owns the device lease in it. */
  opts: SpawnOpts;
  notices: string[];
}

/** Callbacks of the program that embeds the kernel. They are optional and must not throw. */
export interface KernelCallbacks {
  onSpawn(pid: PID, intent: string, provider: string, model: string): void;
  /** At the start of a step. `total` is null where there is no limit. */
  onStep(pid: PID, step: number, total: number | null): void;
  /** After the exit status is written and the record is on disk. */
  onComplete(pid: PID, result: string, exit: ExitStatus): void;
  /** Before onComplete when the status carries an error. */
  onError(pid: PID, error: SyscallError): void;
  /** A model request was charged, also one that failed. */
  onUsage?(pid: PID, paid: PaidRequest): void;
  /** A model has answered a step, or its request has failed. */
  onAnswer?(pid: PID, answer: ModelAnswer): void;
  onCall?(pid: PID, step: number, call: ToolCallRecord): void;
}

/** The answer of a model to a step. `ts`: when the step began. `messages`: the new ones of the step. */
export interface ModelAnswer extends Partial<Pick<LLMAnswer, "usage" | "stop_reason">> {
  step: number;
  ts: string;
  provider: ProviderChoice;
  messages: readonly Message[];
  message?: Message;
  /** Why there is no message. */
  error?: SyscallError;
}

/** What a model request has used. `cost_usd`: undefined if it is not known. */
export interface PaidRequest {
  provider: ProviderChoice;
  used: Usage;
  cost_usd: number | undefined;
}

export interface ProcessDetail {
  info: ProcInfo;
  fds: { fd: number; path: string }[];
  mounts: MountInfo[];
  env: { names: string[]; values: Record<string, string> };
  permissions: PermissionRecord;
  context: { messages: number };
}

export type SyscallEvent = SyscallEventWire;
export type { DeviceLease, HookSource, MountOpener } from "../vfs/lease.ts";
export type {
  AgentInfo,
  Limit,
  Limits,
  MountRequest,
  ProcInfo,
  ProviderChoice,
  SkillInfo,
  SuspendCause,
  Wake,
};

/** The effect of a compaction: both numbers are equal if nothing could be saved. */
export interface AppliedCompaction {
  tokensBefore: number;
  tokensAfter: number;
  /** The author of the summary; null if only long results were truncated, or nothing was done. */
  by: "model" | "digest" | null;
}
