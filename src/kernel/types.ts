/** The types that the parts of the kernel and its embedder share. */

import type { AskMode } from "../lib/ask-modes.ts";
import type { AgentOptions, ProcessOptions } from "../options/option-types.ts";
import type { RunSettings } from "../options/settings.ts";
import type {
  Effort,
  ImageRef,
  ModelPrice,
  MountType,
  Plugin,
  Services,
  SyscallError,
} from "../plugin/index.ts";
import type { AskVerdict } from "../run/ask-schema.ts";
import type {
  JobRef,
  PermissionRecord,
  ProcInfo,
  SuspendCause,
  SyscallEventWire,
  Wake,
} from "../store/runs/schema.ts";
import type { Namespace } from "../vfs/namespace.ts";
import type { DeviceEntry } from "../vfs/registry.ts";

export type PID = number;

/** The kinds of processes. Only agents reason and have a model. */
export type ProcessKind = "agent" | "supervisor" | "command";

export type ProcessState = "created" | "running" | "zombie" | "dead";

/** How a run ended. The verdict function is the only one to make it. */
export interface ExitStatus {
  code: number;
  reason: ExitReason;
  error?: SyscallError;
  /** With the reason `suspended`: why, and what it waits for. */
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

/** A limit; null: none. */
export type Limit = number | null;

/** The limits of one run, by the names of the settings. Durations are in milliseconds, sizes in bytes. */
export type Limits = RunSettings;

/** A project as the kernel needs it: where it is, where its data goes, what devices it sees. */
export interface ProjectHandle {
  id: string;
  dir: string;
  dataDir: string;
  trusted: boolean;
}

/** The devices as they were at spawn, held until `release`: an old plugin answers as long as it is leased. */
export interface DeviceLease {
  namespace: Namespace;
  /** What can be mounted, by type. */
  mounts?: ReadonlyMap<string, MountOpener>;
  /** The plugins with a part of the prompt head. */
  prompts?: readonly PromptSource[];
  /** The names of the plugins' keys. */
  secrets?: readonly string[];
  /** Plugin name to version or digest, for the receipt. */
  versions: Record<string, string>;
  release(): void;
}

/** A plugin's `mount`, as the kernel opens it. Two leases of one version of a plugin have the same `type`. */
export interface MountOpener {
  plugin: string;
  /** The plugin is embedded in the binary. */
  isStock?: boolean;
  needs: readonly (keyof Services)[];
  /** The plugin's part of config.yaml, already checked. */
  config: unknown;
  type: MountType;
}

/** A plugin's `prompt`, as the kernel asks it. */
export interface PromptSource
  extends Pick<DeviceEntry, "plugin" | "isStock" | "layer" | "needs" | "secrets" | "config"> {
  prompt: NonNullable<Plugin["prompt"]>;
}

/** A mount as `rnix show` prints it. */
export interface MountInfo {
  path: string;
  type: string;
  /** Why it can't be used now; null while it can. */
  down: string | null;
}

/** A request to mount a source, such as an MCP server. */
export interface MountRequest {
  type: string;
  /** Letters, digits, ".", "_", "-", without "__": the last part of its path and the middle of its tools' names. */
  name: string;
  /** What the plugin is given; only data. */
  config: object;
  /** Maximum ms until it is ready. */
  timeoutMs?: number;
  /** False: a process has its own. By default those with the same project, config and environment share one. */
  shared?: boolean;
  /** False: a run starts without it, with a notice. */
  required?: boolean;
  /**
   * Ms that the first step waits for one that is not required and whose tools the model can't load later; absent: it
   * waits until the mount is ready or has failed.
   */
  waitMs?: number;
  /** The agent takes whatever is there: without a notice, it is not mounted where it could not be used. */
  offered?: true;
}

export interface SkillInfo {
  name: string;
  description: string;
  /** The skill's folder, absolute; "" for an embedded one. */
  dir: string;
  /** What the skill's author lists; null when nothing is listed. Never widens a process's rights. */
  allowedTools: string[] | null;
  body(): Promise<string>;
  /** Paths of the files that come with it, relative to its folder. Absent: it has none. */
  files?(): Promise<string[]>;
  /** The text of one of them. Fails with NOT_FOUND for any other path. */
  file?(path: string): Promise<string>;
}

export interface AgentInfo extends AgentOptions {
  name: string;
  description: string;
  instructions: string;
  /** Loaded into the prompt's head. */
  skills: SkillInfo[];
  /** Shown by name and description; loaded by the Skill tool. */
  deferredSkills: SkillInfo[];
  /** "*" alone or in the list: all. Empty: none. */
  allowedTools: string[];
  /** Calls that a person decides. */
  ask?: string[];
  checks: string[];
  /** From where it was loaded: a path or "embedded". */
  source: string;
}

export interface ProviderChoice {
  /** The entry's name: what the user calls it. */
  name: string;
  /** /dev/llm/<driver>. */
  device: string;
  model: string;
  /** Handed to the driver as OpenContext.config. */
  config: { base_url?: string; key_source?: string; extra?: Record<string, unknown> };
  /** Identifies the queue of the provider and key. It is never the key itself. */
  gateKey: string;
  concurrency?: number;
  requestsPerMinute?: number;
  contextWindow?: number;
  /** The limit that the user has set for an answer. Every request has it. */
  maxOutput?: number;
  /** The longest answer that the model can write. Requests do not carry it. */
  outputLimit?: number;
  price?: ModelPrice;
  /** The provider is a program with tools of its own, to which the rights of the process do not apply. */
  unconfined?: boolean;
  /** The provider replays a recording: calls cost nothing and do not count towards the daily budget. */
  plays?: true;
  /** Why this one: "flag", "RNIX_PROVIDER", "agent.yaml", … */
  because: string;
  /** Set explicitly, by flag or variable. */
  byFlag?: boolean;
  /** Fallbacks in order, for a permanent failure of this one. */
  fallbacks?: readonly ProviderChoice[];
  /** The key, fetched when a driver asks. UNAVAILABLE if there is none. */
  secret(): Promise<string>;
  /** Fetches another key in place of the refused one; false when there is no other. Absent: it never changes. */
  renewSecret?(refused: string): Promise<boolean>;
}

/** The resolved options of a spawn: the kernel reads no configuration. */
export interface SpawnOpts extends ProcessOptions {
  project: ProjectHandle;
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
  sandbox?: string;
  attended?: boolean;
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
  | "provider"
  | "effort"
  | "env"
  | "pluginKeys"
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
export type { ProcInfo, SuspendCause, Wake };

/** The effect of a compaction: both numbers are equal if nothing could be saved. */
export interface AppliedCompaction {
  tokensBefore: number;
  tokensAfter: number;
  /** The author of the summary; null if only long results were truncated, or nothing was done. */
  by: "model" | "digest" | null;
}
