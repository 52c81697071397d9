/** The specification of a process, fixed when it is built, and the progress that it begins with. */

import type { Clock } from "../../lib/clock.ts";
import type { SyscallError, ToolDef } from "../../plugin/index.ts";
import type { OpenAsk } from "../../run/ask-schema.ts";
import type { OpenStep } from "../../run/open-step.ts";
import { noUsage } from "../../run/usage.ts";
import type { RunWriter } from "../../store/runs/run-store.ts";
import type { CheckResult, ChildResult, ProcInfo, StepRecord, Usage } from "../../store/runs/schema.ts";
import type { DeviceEntry, Namespace } from "../../vfs/namespace.ts";
import type { TreeBudget } from "../budget/budget.ts";
import type { Permissions } from "../permission/permissions.ts";
import type { AgentInfo, MountRequest, PID, ProcessKind, SkillInfo, SpawnOpts } from "../types.ts";
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
  const none = { description: "", instructions: "", skills: [], deferredSkills: [], checks: [] };
  return { name, ...none, allowedTools: ["*"], source: "kernel" };
}

/** The answer of a step that calls no tools. */
export interface LastAnswer extends Pick<StepRecord, "stop_reason" | "stop_word"> {
  content: string;
}

/** What a run had done when it was suspended: the new process starts from here. */
export interface RunProgress {
  /** Its record before this process; absent in a new run. */
  before?: ProcInfo;
  /** Running time in ms. */
  elapsedMs: number;
  /** The last step with a record. */
  step: number;
  /** An open step that the first step completes; null: the first step begins with a model call. */
  openStep: OpenStep | null;
  /** The final answer, when the run was cut off between it and its end. */
  answered: LastAnswer | null;
  toolCalls: number;
  /** A call was started that can't be repeated without a further effect. */
  acted: boolean;
  usage: Usage;
  plan: string | null;
  /** The input of the Complete tool in the open step. */
  completion: string | null;
  /** How often a final answer was rejected, before `answered` or the open step. */
  corrections: number;
  /** The present answer is complete: a message is waited for before the next model call. */
  turnOver: boolean;
  /** The last answer was interrupted by the user, and the user has not written since. */
  answerCut: boolean;
  /** Failed attempts of the checks, while attempts are left. */
  checks: readonly CheckResult[];
  /** Skills loaded at run time, beside those of the agent. */
  skills: readonly SkillInfo[];
  children: readonly ChildResult[];
  /** Questions to a person that calls of the open step wait for. */
  asks: readonly OpenAsk[];
  /** Children whose usage is part of its own, with children suspended with it. */
  counted: readonly ChildResult[];
}

export function initialProgress(): RunProgress {
  return {
    elapsedMs: 0,
    step: 0,
    toolCalls: 0,
    corrections: 0,
    usage: noUsage(),
    openStep: null,
    answered: null,
    plan: null,
    completion: null,
    acted: false,
    turnOver: false,
    answerCut: false,
    checks: [],
    skills: [],
    children: [],
    asks: [],
    counted: [],
  };
}

export function isSuspended({ exit_reason }: ChildResult): boolean {
  return exit_reason === "suspended";
}
