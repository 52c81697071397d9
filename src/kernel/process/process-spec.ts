/** The specification of a process, fixed when it is built. */

import type { Clock } from "../../lib/clock.ts";
import type { SyscallError, ToolDef } from "../../plugin/index.ts";
import type { RunWriter } from "../../store/runs/run-store.ts";
import type { DeviceEntry, Namespace } from "../../vfs/namespace.ts";
import type { TreeBudget } from "../budget/budget.ts";
import type { Permissions } from "../permission/permissions.ts";
import type { AgentInfo, MountRequest, PID, ProcessKind, SpawnOpts } from "../types.ts";
import type { RunProgress } from "./run-progress.ts";
import type { Secrets } from "./secrets.ts";

/** A tool as the model of this process sees it, with its device. */
export interface ProcessTool {
  tool: ToolDef;
  entry: DeviceEntry;
}

/** What is fixed when a process is built. */
export interface ProcessSpec {
  pid: PID;
  uuid: string;
  ppid: PID;
  parentUuid: string | null;
  /** UUID of the process at the root of its tree. Trees take turns at the model gate. */
  tree: string;
  /** The run that it is a fork of. */
  originUuid: string | null;
  depth: number;
  /** Set by the loop when a chat that began without one gets its first message. */
  intent: string;
  kind: ProcessKind;
  agent: AgentInfo;
  /** `effort` is replaced when the user changes it. */
  opts: SpawnOpts;
  namespace: Namespace;
  permissions: Permissions;
  /** Keys to redact. */
  secrets?: Secrets;
  record: RunWriter;
  /** Limits and use of the process and its descendants. */
  budget: TreeBudget;
  checks: readonly string[];
  kernelId: string;
  /** Whether a waker resumes suspended runs. */
  wakes?: boolean;
  version: string;
  clock: Clock;
  /** Absent for a new run. */
  progress?: RunProgress;
}

/** A mount that is being made while the process runs. */
export interface StartingMount {
  /** Resolves with the error of a mount that failed; never rejects. */
  ended: Promise<SyscallError | undefined>;
  /** The model was promised a notification. Otherwise it waits for the tools when it asks ToolSearch for them. */
  isPromised: boolean;
}

/** What a process with mounts still needs before its first step. */
export interface Preparation {
  mounts: readonly MountRequest[];
  /** The process continues a run: if it can't begin, the run is suspended again. */
  resumes: boolean;
  /** The names of the tools that the model of a resumed run was shown. */
  shown: readonly string[];
  /**
   * Called once, when the required mounts stand. `missing`: the tool prefixes of mounts that failed or are not there yet.
   * Returns notices for the user. Fails with INVALID for a rule that names no tool.
   */
  finish(missing: readonly string[]): string[];
}

/** An agent with a name, all rights and nothing else: for runs without an agent, and for processes of other kinds. */
export function bareAgent(name: string): AgentInfo {
  return {
    name,
    description: "",
    instructions: "",
    skills: [],
    deferredSkills: [],
    allowedTools: ["*"],
    checks: [],
    source: "kernel",
  };
}
