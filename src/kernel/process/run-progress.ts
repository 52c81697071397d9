/** The progress of a run: its steps, its open step and its last answer. */

import type { OpenAsk } from "../../run/ask-schema.ts";
import type { OpenStep } from "../../run/open-step.ts";
import { noUsage } from "../../run/usage.ts";
import type { CheckResult, ChildResult, ProcInfo, StepRecord, Usage } from "../../store/runs/schema.ts";
import type { SkillInfo } from "../types.ts";

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

/** The progress of a new run. */
export function initialProgress(): RunProgress {
  return {
    elapsedMs: 0,
    step: 0,
    openStep: null,
    answered: null,
    toolCalls: 0,
    acted: false,
    usage: noUsage(),
    plan: null,
    completion: null,
    corrections: 0,
    turnOver: false,
    answerCut: false,
    checks: [],
    skills: [],
    children: [],
    asks: [],
    counted: [],
  };
}

/** Whether the child was suspended. */
export function isSuspended({ exit_reason }: ChildResult): boolean {
  return exit_reason === "suspended";
}
