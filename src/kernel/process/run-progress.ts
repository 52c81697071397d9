import type { Clock } from "../../lib/clock.ts";
import type { Message, StopReason } from "../../plugin/index.ts";
import type { ChildResult, ProcInfo, StepRecord, ToolCallRecord, Usage } from "../../store/runs/schema.ts";
import type { SkillInfo, Wake } from "../types.ts";

/** A step that was begun and has no record: its answer is there, and its calls have gone as far as its journal says. */
export interface OpenStep {
  step: number;
  ts: string;
  message: Message;
  reasoning: string | undefined;
  usage: Usage;
  stopReason: StopReason;
  stopWord: string | undefined;
  /** Numbers of the inbox entries that the messages before its answer hold. */
  inbox: number[] | undefined;
  /** By call: those that have ended, and those of which nobody knows. All others are made now. */
  settled: ReadonlyMap<string, ToolCallRecord>;
  /** By call: what it had begun to wait for. It is made again, and goes on waiting. */
  waiting: ReadonlyMap<string, Wake>;
}

/** The answer of a step that calls no tools. */
export interface LastAnswer extends Pick<StepRecord, "stop_reason" | "stop_word"> {
  content: string;
}

/** What a run had done when it was laid down: the process that goes on with it starts from here. */
export interface RunProgress {
  createdAtMs: number;
  /** Running time in ms. */
  elapsedMs: number;
  /** The last step with a record. */
  step: number;
  /** The step that its first one finishes; null: it asks its model anew. */
  openStep: OpenStep | null;
  /** Its final answer, when it was cut off between that and its end. */
  answered: LastAnswer | null;
  toolCalls: number;
  usage: Usage;
  plan: string | null;
  /** What the Complete tool was given in the open step. */
  completion: string | null;
  /** How often its last word was asked for again, before `answered` or the open step's. */
  corrections: number;
  /** Loaded while it ran, beside those of its agent. */
  skills: readonly SkillInfo[];
  children: readonly ChildResult[];
  /** Children whose use is in its own, those that were laid down with it among them, as far as they had come. */
  counted: readonly ChildResult[];
  filesChanged: readonly string[];
  /** Those are all of them. */
  filesChangedComplete: boolean;
  /** PIDs that it had, oldest first. */
  earlierPids: readonly number[];
  crashes: ProcInfo["crashes"];
  switches: ProcInfo["switches"];
}

/** Of a run that begins. */
export function initialProgress(clock: Clock): RunProgress {
  return {
    createdAtMs: clock.now(),
    elapsedMs: 0,
    step: 0,
    openStep: null,
    answered: null,
    toolCalls: 0,
    usage: { input_tokens: 0, output_tokens: 0, cached_tokens: 0 },
    plan: null,
    completion: null,
    corrections: 0,
    skills: [],
    children: [],
    counted: [],
    filesChanged: [],
    filesChangedComplete: true,
    earlierPids: [],
    crashes: null,
    switches: [],
  };
}

/** It was suspended, and is to be gone on with. */
export function isSuspended({ exit_reason }: ChildResult): boolean {
  return exit_reason === "suspended";
}
