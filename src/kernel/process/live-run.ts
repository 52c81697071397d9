/** How far the run of a live process is. */

import type { ProcInfo, ToolCallRecord, Usage } from "../../store/runs/schema.ts";
import type { LastAnswer, OpenStep, RunProgress } from "./run-progress.ts";

/** The steps of a live run and what they have used. The loop owns it; model calls and tools count in it. */
export class LiveRun {
  step: number;
  /** The last step with a record: a resume continues after it. */
  recordedStep: number;
  toolCalls: number;
  /** A call was started that can't be repeated without a further effect. */
  acted: boolean;
  /** What drivers have asked the model, by the call that is under way. */
  readonly modelUse = new Map<string, NonNullable<ToolCallRecord["model_use"]>>();
  readonly usage: Usage;
  /** Tokens of the conversation: the last request and its answer; before an answer, an estimate. */
  contextTokens: number | null = null;
  plan: string | null;
  /** The input of the Complete tool. */
  completion: string | null;
  /** How often the final answer was rejected by the output schema. */
  corrections: number;
  /** Background units that lived when the answer was given, and what followed. */
  heldBy: ProcInfo["units_at_end"];
  /** The present answer is complete: before the next model call, a message is waited for. */
  turnOver: boolean;
  /** The last answer is the beginning of one that the user interrupted: its next message says so. */
  answerCut: boolean;
  #openStep: OpenStep | null;
  #answered: LastAnswer | null;

  constructor(progress: RunProgress) {
    this.step = progress.step;
    this.recordedStep = progress.step;
    this.toolCalls = progress.toolCalls;
    this.acted = progress.acted;
    this.usage = { ...progress.usage };
    this.plan = progress.plan;
    this.completion = progress.completion;
    this.corrections = progress.corrections;
    this.heldBy = progress.heldBy;
    this.turnOver = progress.turnOver;
    this.answerCut = progress.answerCut;
    this.#openStep = progress.openStep;
    this.#answered = progress.answered;
  }

  /** What was cut off when the run was suspended: an open step, or the end after a final answer. Returned once. */
  takeCutOff(): { openStep: OpenStep | null; answered: LastAnswer | null } {
    const cutOff = { openStep: this.#openStep, answered: this.#answered };
    this.#openStep = null;
    this.#answered = null;
    return cutOff;
  }

  /** A step without an answer does not count. */
  dropStep(): void {
    this.step = this.recordedStep;
  }

  recorded(): void {
    this.recordedStep = this.step;
  }
}
